"use strict";
// Draws the timeline and the cards of a PatchAD report, and links list, cards and plots. Needs only Plotly.
(() => {
  const POINTS = 4000; // maximum points of the score curve at any zoom
  const BINS = 600; // columns of the lanes at any zoom
  const SHARE_STEPS = 200;
  const PRINTED_CARDS = 30;
  const PRINTED_WIDTH = 680;
  const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false };
  const coarse = matchMedia("(pointer: coarse)").matches;
  let printing = false;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  // Plotly interprets some HTML in labels, and a channel can have any name.
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const shorten = (text, length) => (text.length > length ? text.slice(0, length - 1) + "\u2026" : text);

  function unpack(packed, Type) {
    const text = atob(packed);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new Type(bytes.buffer);
  }

  // Positions are numbers here; Plotly takes dates as text and shows them unchanged, whatever the reader's time zone.
  function toText(ms) {
    const whole = Math.floor(ms);
    const rest = Math.round((ms - whole) * 1000);
    return new Date(whole).toISOString().slice(0, 23) + (rest ? String(rest).padStart(3, "0") : "");
  }
  function toNumber(text) {
    if (typeof text === "number") return text;
    const parts = /^(-?\d+)-(\d+)-(\d+)(?:[T ](\d+)(?::(\d+)(?::([\d.]+))?)?)?/.exec(text);
    const [, year, month, day, hour, minute, second] = parts;
    return Date.UTC(year, month - 1, day, hour || 0, minute || 0) + 1000 * (second || 0);
  }
  const coordinateOf = (kind) => (kind === "date" ? toText : (position) => position);
  const axisTitle = { date: "", seconds: "seconds", number: "time", row: "row" };

  function commonLayout(height) {
    const layout = {
      height,
      margin: { l: 8, r: 12, t: 8, b: 8 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("soft") },
      showlegend: false,
      hovermode: "closest",
      hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("line"), font: { color: colour("ink"), size: 13 } },
    };
    if (printing) layout.width = PRINTED_WIDTH;
    return layout;
  }
  const commonAxis = () => ({
    gridcolor: colour("line"),
    zerolinecolor: colour("line"),
    linecolor: colour("line"),
    automargin: true,
  });

  // -- the timeline ---------------------------------------------------------------------------------------------------

  class Timeline {
    constructor(section) {
      this.section = section;
      this.box = section.querySelector(".timeline");
      this.data = JSON.parse(section.querySelector("script[type='application/json']").textContent);
      this.x = unpack(this.data.x, Float64Array);
      this.score = unpack(this.data.score, Float32Array);
      this.level = unpack(this.data.level, Float32Array);
      this.bands = unpack(this.data.bands, Float64Array);
      this.labels = unpack(this.data.labels || "", Float64Array);
      this.shares = this.data.events.map((event) => unpack(event.shares, Uint8Array));
      this.coordinate = coordinateOf(this.data.axis);
      this.view = this.data.whole;
      this.panning = false;
      this.drawn = false;
    }

    get isWhole() {
      return this.view[0] <= this.data.whole[0] && this.view[1] >= this.data.whole[1];
    }

    show(low, high) {
      const [first, last] = this.data.whole;
      const width = Math.min(Math.max(high - low, 4 * this.data.step), last - first);
      const start = Math.min(Math.max((low + high - width) / 2, first), last - width);
      this.view = [start, start + width];
      this.draw();
    }

    move(name) {
      const [low, high] = this.view;
      const width = high - low;
      const moves = {
        in: [low + width / 4, high - width / 4],
        out: [low - width / 2, high + width / 2],
        earlier: [low - width / 4, high - width / 4],
        later: [low + width / 4, high + width / 4],
        all: this.data.whole,
      };
      if (name === "pan") {
        this.panning = !this.panning;
        this.section.querySelector("[data-move='pan']").setAttribute("aria-pressed", this.panning);
        this.draw();
      } else {
        this.show(...moves[name]);
      }
    }

    // The points in view; where there are too many, the lowest and the highest of every bucket.
    visible() {
      const { x, score, view } = this;
      let first = bisect(x, view[0]);
      let last = bisect(x, view[1]);
      first = Math.max(first - 1, 0);
      last = Math.min(last + 1, x.length);
      const all = Array.from({ length: last - first }, (_, i) => first + i);
      if (all.length <= POINTS) return all;
      const size = (view[1] - view[0]) / (POINTS / 2);
      const kept = [];
      let i = 0;
      while (i < all.length) {
        const bucket = Math.floor((x[all[i]] - view[0]) / size);
        let low = -1;
        let high = -1;
        let blank = -1;
        for (; i < all.length && Math.floor((x[all[i]] - view[0]) / size) === bucket; i++) {
          const row = all[i];
          if (Number.isNaN(score[row])) blank = row;
          else {
            if (low < 0 || score[row] < score[low]) low = row;
            if (high < 0 || score[row] > score[high]) high = row;
          }
        }
        kept.push(...[...new Set([low, high, blank])].filter((row) => row >= 0).sort((a, b) => a - b));
      }
      return kept;
    }

    scoreTraces() {
      const rows = this.visible();
      const x = rows.map((row) => this.coordinate(this.x[row]));
      const score = rows.map((row) => this.score[row]);
      const level = rows.map((row) => this.level[row]);
      let top = this.data.top;
      if (!this.isWhole) {
        const values = [...score, ...level.map((value) => this.data.low + 1.2 * (value - this.data.low))];
        top = values.reduce((most, value) => (value > most ? value : most), this.data.low);
      }
      this.range = [this.data.low - 0.03 * (top - this.data.low), top + 0.12 * (top - this.data.low)];
      return [
        { x, y: score, type: "scatter", mode: rows.length > 1 ? "lines" : "markers",
          line: { color: colour("observed"), width: 1.5 }, customdata: level,
          hovertemplate: "%{x}<br>score %{y:.4g}, level %{customdata:.4g}<extra></extra>" },
        { x, y: level, type: "scatter", mode: "lines", line: { color: colour("level"), width: 1.5, dash: "dash" },
          hoverinfo: "skip" },
      ];
    }

    // Flags for the most severe events in view; flags that would overlap them are left out.
    flagTrace() {
      const apart = (14 * (this.view[1] - this.view[0])) / Math.max(this.box.clientWidth, 300);
      const middle = this.data.events.map(({ span }) => (span[0] + span[1]) / 2);
      const shown = [];
      middle.forEach((position, number) => {
        if (position < this.view[0] || position > this.view[1]) return;
        if (shown.every((other) => Math.abs(middle[other] - position) >= apart)) shown.push(number);
      });
      const rows = this.section.querySelectorAll("table.list tbody tr");
      const cells = (number) => [...rows[number].cells].slice(0, 4);
      const text = (number) => cells(number).map((cell) => escaped(cell.textContent.trim())).join("<br>");
      return {
        x: shown.map((number) => this.coordinate(middle[number])), y: shown.map(() => 0.955), xaxis: "x", yaxis: "y3",
        type: "scatter", mode: "markers",
        marker: {
          symbol: "triangle-down", size: 11, color: colour("flag"), line: { color: colour("paper"), width: 1 },
        },
        customdata: shown, text: shown.map(text), hovertemplate: "%{text}<extra></extra>",
      };
    }

    // Lanes are coloured anew at each zoom, so that an event of a single row stays visible.
    laneTrace() {
      const lanes = this.data.lanes;
      const [low, high] = this.view;
      const size = (high - low) / BINS;
      const z = lanes.map(() => new Array(BINS).fill(null));
      this.data.events.forEach((event, number) => {
        const [start, stop] = event.span;
        if (stop < low || start > high) return;
        const shares = this.shares[number];
        const last = event.slices - 1;
        const sliceAt = (fraction, least) => Math.min(Math.max(Math.floor(fraction * event.slices), least), last);
        const firstBin = Math.max(Math.floor((start - low) / size), 0);
        const endBin = Math.min(Math.max(Math.ceil((stop - low) / size), firstBin + 2), BINS);
        for (let bin = firstBin; bin < endBin; bin++) {
          const middle = (low + (bin + 0.5) * size - start) / (stop - start);
          const half = (0.5 * size) / (stop - start);
          const from = sliceAt(middle - half, 0);
          const to = sliceAt(middle + half, from);
          for (let slice = from; slice <= to; slice++) {
            for (let lane = 0; lane < lanes.length; lane++) {
              const share = (100 * shares[slice * lanes.length + lane]) / SHARE_STEPS;
              if (z[lane][bin] === null || share > z[lane][bin]) z[lane][bin] = share;
            }
          }
        }
      });
      const scale = [0, 1, 2, 3].map((step) => [step / 3, colour("share-" + step)]);
      return {
        type: "heatmap", x: Array.from({ length: BINS }, (_, bin) => this.coordinate(low + (bin + 0.5) * size)),
        y: lanes.map(escaped), z, xaxis: "x", yaxis: "y2", zmin: 0, zmax: 100, colorscale: scale, showscale: false,
        ygap: 2, hoverongaps: false, hovertemplate: "%{y}<br>%{x}<br>%{z:.0f} % of the blame<extra></extra>",
      };
    }

    // Bands in view, at least two pixels wide; touching bands are merged.
    shapes(bands, shape) {
      const [low, high] = this.view;
      const least = (2 * (high - low)) / Math.max(this.box.clientWidth, 300);
      const found = [];
      for (let i = 0; i < bands.length; i += 2) {
        let [start, stop] = [bands[i], bands[i + 1]];
        if (stop < low || start > high) continue;
        if (stop - start < least) [start, stop] = [(start + stop - least) / 2, (start + stop + least) / 2];
        const before = found.at(-1);
        if (before && start <= before[1]) before[1] = Math.max(before[1], stop);
        else found.push([start, stop]);
      }
      return found.map(([start, stop]) => ({
        type: "rect", xref: "x", yref: "y domain", x0: this.coordinate(start), x1: this.coordinate(stop),
        line: { width: 0 }, ...shape,
      }));
    }

    layout() {
      const narrow = this.box.clientWidth < 600;
      const lanes = this.data.lanes.length;
      const [scores, gap, each] = [narrow ? 200 : 260, 40, 18];
      const total = scores + gap + lanes * each;
      const share = (lanes * each) / total;
      const layout = commonLayout(total + 16);
      layout.dragmode = coarse ? false : this.panning ? "pan" : "zoom";
      layout.xaxis = { ...commonAxis(), type: this.data.axis === "date" ? "date" : "linear", anchor: "y",
        nticks: narrow ? 4 : 9, range: this.view.map(this.coordinate),
        showspikes: true, spikemode: "across", spikethickness: 1, spikedash: "dot",
        spikecolor: colour("soft"), zeroline: false, title: { text: axisTitle[this.data.axis], standoff: 4 } };
      layout.yaxis = { ...commonAxis(), domain: [lanes ? share + gap / total : 0.14, 1], fixedrange: true,
        range: this.range, title: { text: narrow ? "" : "score", standoff: 6 }, zeroline: false };
      layout.yaxis2 = { ...commonAxis(), domain: [0, lanes ? share : 0.01], fixedrange: true, type: "category",
        anchor: "x", autorange: "reversed", tickvals: this.data.lanes.map(escaped), showgrid: false, visible: lanes > 0,
        ticktext: this.data.lanes.map((name) => escaped(shorten(name, narrow ? 12 : 24))) };
      layout.yaxis3 = { overlaying: "y", range: [0, 1], fixedrange: true, visible: false };
      layout.shapes = [
        ...this.shapes(this.bands, { y0: 0, y1: 1, fillcolor: colour("event"), layer: "below" }),
        ...this.shapes(this.labels, { y0: 0, y1: 0.03, fillcolor: colour("label"), layer: "above" }),
      ];
      return layout;
    }

    draw() {
      const began = performance.now();
      const traces = this.scoreTraces();
      if (this.data.lanes.length) traces.push(this.flagTrace(), this.laneTrace());
      const done = Plotly.react(this.box, traces, this.layout(), CONFIG);
      if (!this.drawn) this.listen();
      this.drawn = true;
      return done.then(() => performance.measure("timeline", { start: began })); // read by benchmarks/report.py
    }

    listen() {
      this.box.on("plotly_relayout", (change) => {
        const range = change["xaxis.range"] || [change["xaxis.range[0]"], change["xaxis.range[1]"]];
        if (range[0] !== undefined) this.show(...range.map(toNumber));
      });
      this.box.on("plotly_doubleclick", () => this.move("all"));
      this.box.on("plotly_click", (click) => this.clicked(click.points[0]));
      this.box.addEventListener("keydown", (key) => {
        const moves = { ArrowLeft: "earlier", ArrowRight: "later", "+": "in", "=": "in", "-": "out", Home: "all" };
        if (!(key.key in moves) || key.ctrlKey || key.metaKey || key.altKey) return;
        key.preventDefault();
        this.move(moves[key.key]);
      });
    }

    clicked(point) {
      if (point.data.marker && typeof point.customdata === "number" && point.data.yaxis === "y3") {
        openCard(this, point.customdata);
        return;
      }
      const position = toNumber(point.x);
      const slack = (this.view[1] - this.view[0]) / 150;
      const hit = this.data.events.findIndex(({ span }) => span[0] - slack <= position && position <= span[1] + slack);
      if (hit >= 0) openCard(this, hit);
    }

    zoomTo(number) {
      highlight(this.section, number);
      this.show(...this.data.events[number].view);
      this.section.querySelector(".toolbar").scrollIntoView({ block: "start" });
    }
  }

  function bisect(sorted, value) {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // -- the cards ------------------------------------------------------------------------------------------------------

  function drawCard(timeline, box) {
    const card = timeline.data.cards[Number(box.dataset.card)];
    if (!card) return;
    const coordinate = coordinateOf(timeline.data.axis);
    const count = card.curves.length;
    const [each, gap] = [110, 26];
    const height = count * (each + gap) + 34;
    const layout = commonLayout(height);
    layout.margin.t = 22;
    layout.dragmode = coarse ? false : "zoom";
    layout.xaxis = { ...commonAxis(), type: timeline.data.axis === "date" ? "date" : "linear",
      range: card.view.map(coordinate), anchor: "y" + (count > 1 ? count : ""), nticks: 5, zeroline: false };
    layout.annotations = [];
    const traces = [];
    card.curves.forEach((curve, number) => {
      const axis = "y" + (number ? number + 1 : "");
      const top = 1 - (number * (each + gap)) / (count * (each + gap) - gap);
      const bottom = top - each / (count * (each + gap) - gap);
      layout["yaxis" + (number ? number + 1 : "")] = { ...commonAxis(), domain: [Math.max(bottom, 0), top], nticks: 4,
        zeroline: false };
      layout.annotations.push({ text: escaped(shorten(curve.name, Math.max(box.clientWidth / 9, 20))),
        xref: "paper", yref: "paper", x: 0, y: top, xanchor: "left", yanchor: "bottom",
        showarrow: false, font: { color: colour("ink"), size: 13 } });
      traces.push(...cardTraces(curve, axis, coordinate));
    });
    layout.shapes = card.curves.map((_, number) => ({
      type: "rect", xref: "x", yref: `y${number ? number + 1 : ""} domain`, layer: "below", line: { width: 0 },
      x0: coordinate(card.span[0]), x1: coordinate(card.span[1]), y0: 0, y1: 1, fillcolor: colour("event"),
    }));
    const done = Plotly.react(box, traces, layout, { ...CONFIG, doubleClick: "reset" });
    box.dataset.drawn = "yes";
    return done;
  }

  function cardTraces(curve, yaxis, coordinate) {
    const x = Array.from(unpack(curve.x, Float64Array), coordinate);
    const observed = unpack(curve.observed, Float64Array);
    const base = { x, yaxis, type: "scatter", mode: "lines" };
    const traces = [];
    if (curve.expected) {
      const expected = unpack(curve.expected, Float64Array);
      const halfWidth = unpack(curve.half_width, Float32Array);
      const edge = { ...base, line: { width: 0 }, hoverinfo: "skip" };
      traces.push({ ...edge, y: expected.map((value, i) => value - halfWidth[i]) });
      traces.push({ ...edge, y: expected.map((value, i) => value + halfWidth[i]), fill: "tonexty",
        fillcolor: colour("band") });
      traces.push({ ...base, y: expected, line: { color: colour("expected"), width: 1.5, dash: "dash" },
        hovertemplate: "%{x}<br>expected %{y:.5g}<extra></extra>" });
    }
    traces.push({ ...base, y: observed, mode: x.length > 1 ? "lines" : "markers",
      line: { color: colour("observed"), width: 1.8 }, hovertemplate: "%{x}<br>observed %{y:.5g}<extra></extra>" });
    return traces;
  }

  // -- links, keys, theme and printing --------------------------------------------------------------------------------

  function highlight(section, number) {
    for (const old of section.querySelectorAll(".current")) old.classList.remove("current");
    for (const kind of ["row", "event"]) {
      const element = document.getElementById(`${kind}-${section.id.split("-")[1]}-${number}`);
      if (element) element.classList.add("current");
    }
  }

  function openCard(timeline, number) {
    highlight(timeline.section, number);
    const card = document.getElementById(`event-${timeline.section.id.split("-")[1]}-${number}`);
    card.scrollIntoView({ block: "start" });
    card.focus({ preventScroll: true });
  }

  const timelines = [...document.querySelectorAll("section.chapter")].map((section) => new Timeline(section));
  const boxes = timelines.flatMap((timeline) =>
    [...timeline.section.querySelectorAll(".curves")].map((box) => [timeline, box]));

  for (const timeline of timelines) {
    timeline.section.addEventListener("click", (click) => {
      const button = click.target.closest("button");
      if (!button) return;
      if (button.dataset.move) timeline.move(button.dataset.move);
      if (button.dataset.zoom) timeline.zoomTo(Number(button.dataset.zoom));
      if (button.dataset.view) {
        timeline.show(...JSON.parse(button.dataset.view));
        timeline.section.querySelector(".toolbar").scrollIntoView({ block: "start" });
      }
    });
  }
  document.addEventListener("keydown", (key) => {
    if (key.key !== "Escape") return;
    for (const timeline of timelines) if (timeline.drawn && !timeline.isWhole) timeline.move("all");
    const active = document.activeElement;
    if (active && active !== document.body) active.scrollIntoView({ block: "nearest" });
  });

  // Charts are drawn when they come near the viewport.
  const draw = new Map([...timelines.map((timeline) => [timeline.box, () => timeline.draw()]),
    ...boxes.map(([timeline, box]) => [box, () => drawCard(timeline, box)])]);
  const nearby = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      nearby.unobserve(entry.target);
      draw.get(entry.target)();
    }
  }, { rootMargin: "300px" });
  for (const box of draw.keys()) nearby.observe(box);

  function redraw() {
    for (const timeline of timelines) if (timeline.drawn) timeline.draw();
    for (const [timeline, box] of boxes) if (box.dataset.drawn) drawCard(timeline, box);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => {
    printing = true;
    document.documentElement.dataset.printing = ""; // print styles do not apply yet, but the charts need their colours
    for (const timeline of timelines) timeline.draw();
    for (const [timeline, box] of boxes.slice(0, PRINTED_CARDS)) drawCard(timeline, box);
    redraw();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    delete document.documentElement.dataset.printing;
    redraw();
  });
})();
