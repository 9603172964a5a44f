// A page that is opened from a file may not start a worker, in which the search runs: give it a hidden frame instead.
if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => {
        const message = new MessageEvent("message", { data })
        this.dispatchEvent(message)
        this.onmessage?.(message)
      }
      inside.importScripts = (...urls) => Promise.all(urls.map(one => FrameWorker.load(inside, one)))
      this.ready = FrameWorker.load(inside, url)
    }

    static load(inside, url) {
      return new Promise((resolve, reject) => {
        const script = inside.document.createElement("script")
        Object.assign(script, { src: url, onload: resolve, onerror: reject })
        inside.document.head.append(script)
      })
    }

    postMessage(data) {
      const inside = this.frame.contentWindow
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
  window.Worker = window.IFrameWorker = FrameWorker
}
