"use strict";
// Draws the timeline and the cards of a PatchAD report, and links list, cards and plots. Needs only Plotly.
(() => {
  const POINTS = 4000; // maximum points of the score curve at any zoom
  const LANE_HEIGHT = 42; // pixels: the name, and under it the lane
  const LANE_TOP = 0.4; // where the lane begins under its name, in lanes
  const LANE_BOTTOM = 0.97;
  const HEIGHT_STEPS = 250; // as in lanes.py
  const BLANK = 255;
  const LONG_STEP = 10; // usual steps; a longer one breaks a line
  const PRINTED_CARDS = 30;
  const PRINTED_WIDTH = 680;
  const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false };
  const coarse = matchMedia("(pointer: coarse)").matches;
  let printing = false;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  // Plotly interprets some HTML in labels, and a channel can have any name.
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  // Names that differ often differ at their ends.
  const shorten = (text, length) => (text.length <= length ? text
    : text.slice(0, Math.ceil(length / 2) - 1) + "\u2026" + text.slice(text.length - Math.floor(length / 2)));

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
  const axisTitle = { date: "", seconds: "seconds", number: "time", row: "row" };

  // Positions of dates with a time zone are in UTC. A chart shows them with the offset that its view begins with.
  function offsetAt(data, position) {
    const passed = data.offsets.filter(([start]) => start <= position);
    return 60_000 * (passed.at(-1) || data.offsets[0] || [0, 0])[1];
  }
  function coordinateOf(data, position) {
    if (data.axis !== "date") return (position) => position;
    const offset = offsetAt(data, position);
    return (position) => toText(position + offset);
  }
  function titleOf(data, position) {
    if (!data.zone) return axisTitle[data.axis];
    const minutes = offsetAt(data, position) / 60_000;
    const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
    return `UTC${minutes < 0 ? "-" : "+"}${String(hours).padStart(2, "0")}:${String(rest).padStart(2, "0")}`;
  }

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
      this.largest = this.data.events.map((event) => unpack(event.largest, Uint8Array));
      this.raw = this.data.lanes.map((lane) => lane.x
        && { x: unpack(lane.x, Float64Array), heights: unpack(lane.heights, Uint8Array) });
      this.allLanes = false;
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
      if (name === "pan" || name === "lanes") {
        const key = name === "pan" ? "panning" : "allLanes";
        this[key] = !this[key];
        this.section.querySelector(`[data-move='${name}']`).setAttribute("aria-pressed", this[key]);
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
      const apart = 14 * this.pixel;
      const middle = this.data.events.map(({ edges }) => (edges[0] + edges[1]) / 2);
      const shown = [];
      middle.forEach((position, number) => {
        if (position < this.view[0] || position > this.view[1]) return;
        if (shown.every((other) => Math.abs(middle[other] - position) >= apart)) shown.push(number);
      });
      const titles = this.section.querySelectorAll(".card > summary");
      const words = (part) => escaped(part.textContent.trim().replace(/\s+/g, " "));
      const text = (number) => [...titles[number].children].map(words).filter(Boolean).join("<br>");
      return {
        x: shown.map((number) => this.coordinate(middle[number])), y: shown.map(() => 0.955), xaxis: "x", yaxis: "y3",
        type: "scatter", mode: "markers",
        marker: {
          symbol: "triangle-down", size: 11, color: colour("flag"), line: { color: colour("paper"), width: 1 },
        },
        customdata: shown, text: shown.map(text), hovertemplate: "%{text}<extra></extra>",
      };
    }

    // The lanes to show. Where there are too many, those that lead an event in view come first.
    lanes() {
      const all = this.data.lanes.map((_, lane) => lane);
      const most = this.narrow ? 6 : 12;
      const more = this.section.querySelector("[data-move='lanes']");
      more.hidden = all.length <= most;
      more.textContent = `All ${all.length} channels`;
      if (this.allLanes || all.length <= most) return all;
      const [low, high] = this.view;
      const leads = this.data.events.filter(({ edges, lead }) => lead !== null && edges[1] >= low && edges[0] <= high);
      return [...new Set([...leads.map(({ lead }) => lead), ...all])].slice(0, most).sort((a, b) => a - b);
    }

    // The cells of the events in view: edges as in the data, but an event is at least two pixels wide.
    cells() {
      const found = [];
      this.data.events.forEach(({ edges, slices }, event) => {
        const [start, stop] = this.widened(...edges);
        if (stop < this.view[0] || start > this.view[1]) return;
        const count = Math.min(slices, Math.max(Math.ceil((stop - start) / (2 * this.pixel)), 1));
        const edge = (cell) => start + (cell * (stop - start)) / count;
        for (let cell = 0; cell < count; cell++) {
          found.push({ event, start: edge(cell), stop: edge(cell + 1),
            first: Math.floor((cell * slices) / count), last: Math.ceil(((cell + 1) * slices) / count) });
        }
      });
      return found;
    }

    // The lanes, each coloured by its share of the blame in shares of the largest one; empty between events.
    laneTrace(lanes) {
      const cells = this.cells();
      const edges = [...new Set(cells.flatMap(({ start, stop }) => [start, stop]))].sort((a, b) => a - b);
      const columns = edges.slice(1).map(() => []);
      for (const cell of cells) {
        for (let i = bisect(edges, cell.start); edges[i] < cell.stop; i++) columns[i].push(cell);
      }
      const [z, text] = [[], []];
      for (const lane of lanes) {
        if (z.length) [z, text].forEach((rows) => rows.push(columns.map(() => null))); // the name of the next lane
        const blame = columns.map((column) => column.length ? this.blame(column, lane) : null);
        z.push(blame.map((one) => one && one.ofLargest));
        text.push(blame.map((one) => one
          && `${escaped(this.data.lanes[lane].name)}<br>${one.percent} % of the blame`));
      }
      return {
        type: "heatmap", x: edges.map(this.coordinate), y: lanes.flatMap((_, i) => [i + LANE_TOP, i + LANE_BOTTOM]),
        z, text, xaxis: "x", yaxis: "y2", zmin: 0, zmax: 1, showscale: false, hoverongaps: false,
        visible: cells.length > 0, colorscale: [[0, colour("blame-none")], [1, colour("blame-most")]],
        hovertemplate: "%{text}<br>%{x}<extra></extra>",
      };
    }

    // The most that a lane is to blame in some cells.
    blame(cells, lane) {
      const count = this.data.lanes.length;
      let [ofLargest, most] = [0, 0];
      for (const { event, first, last } of cells) {
        for (let slice = first; slice < last; slice++) {
          const own = this.shares[event][slice * count + lane];
          ofLargest = Math.max(ofLargest, own / Math.max(this.largest[event][slice], 1));
          most = Math.max(most, own);
        }
      }
      return { ofLargest, percent: most / 2 };
    }

    // The raw values of the lanes, in one trace.
    rawTrace(lanes) {
      const [x, y] = [[], []];
      lanes.forEach((lane, place) => {
        if (!this.raw[lane]) return;
        const { x: positions, heights } = this.raw[lane];
        const first = Math.max(bisect(positions, this.view[0]) - 1, 0);
        const last = Math.min(bisect(positions, this.view[1]) + 1, positions.length);
        for (let i = first; i < last; i++) {
          const height = heights[i] / HEIGHT_STEPS;
          x.push(this.coordinate(positions[i]));
          y.push(heights[i] === BLANK ? null : place + LANE_BOTTOM - height * (LANE_BOTTOM - LANE_TOP));
        }
        x.push(x.at(-1));
        y.push(null);
      });
      return { x, y, type: "scatter", mode: "lines", xaxis: "x", yaxis: "y2", hoverinfo: "skip",
        line: { color: colour("observed"), width: 1 } };
    }

    get narrow() {
      return this.box.clientWidth < 600;
    }

    // What one pixel is along the time axis.
    get pixel() {
      return (this.view[1] - this.view[0]) / Math.max(this.box.clientWidth, 300);
    }

    // An event of a single row stays visible at any zoom.
    widened(start, stop) {
      const lack = Math.max(2 * this.pixel - (stop - start), 0);
      return [start - lack / 2, stop + lack / 2];
    }

    // Bands in view; touching bands are merged.
    shapes(bands, shape) {
      const [low, high] = this.view;
      const found = [];
      for (let i = 0; i < bands.length; i += 2) {
        const [start, stop] = this.widened(bands[i], bands[i + 1]);
        if (stop < low || start > high) continue;
        const before = found.at(-1);
        if (before && start <= before[1]) before[1] = Math.max(before[1], stop);
        else found.push([start, stop]);
      }
      return found.map(([start, stop]) => ({
        type: "rect", xref: "x", yref: "y domain", x0: this.coordinate(start), x1: this.coordinate(stop),
        line: { width: 0 }, ...shape,
      }));
    }

    layout(lanes) {
      const { narrow } = this;
      const title = titleOf(this.data, this.view[0]);
      const [scores, gap, below] = [narrow ? 180 : 240, title ? 60 : 44, lanes.length * LANE_HEIGHT];
      const total = scores + gap + below;
      const layout = commonLayout(total + 16);
      layout.dragmode = coarse ? false : this.panning ? "pan" : "zoom";
      layout.xaxis = { ...commonAxis(), type: this.data.axis === "date" ? "date" : "linear", anchor: "y",
        nticks: narrow ? 4 : 9, range: this.view.map(this.coordinate),
        showspikes: true, spikemode: "across", spikethickness: 1, spikedash: "dot",
        spikecolor: colour("soft"), zeroline: false, title: { text: title, standoff: 4 } };
      layout.yaxis = { ...commonAxis(), domain: [(gap + below) / total, 1], fixedrange: true,
        range: this.range, title: { text: narrow ? "" : "score", standoff: 6 }, zeroline: false };
      layout.yaxis2 = { domain: [0, below / total], fixedrange: true, anchor: "x", visible: false,
        range: [Math.max(lanes.length, 1), 0] };
      layout.yaxis3 = { overlaying: "y", range: [0, 1], fixedrange: true, visible: false };
      layout.shapes = [
        ...this.shapes(this.bands, { y0: 0, y1: 1, fillcolor: colour("event"), layer: "below" }),
        ...this.shapes(this.labels, { y0: 0, y1: 0.03, fillcolor: colour("label"), layer: "above" }),
        ...lanes.map((_, place) => ({ type: "rect", xref: "x domain", yref: "y2", x0: 0, x1: 1, layer: "below",
          y0: place + LANE_TOP, y1: place + LANE_BOTTOM, fillcolor: colour("raised"), line: { width: 0 } })),
      ];
      const room = Math.max(Math.floor((this.box.clientWidth - 60) / 8), 20);
      layout.annotations = lanes.map((lane, place) => ({
        text: escaped(shorten(this.data.lanes[lane].name, room)), showarrow: false, xref: "x domain", yref: "y2",
        x: 0, y: place + LANE_TOP, xanchor: "left", yanchor: "bottom", borderpad: 0,
        font: { color: colour("ink"), size: 12 },
      }));
      return layout;
    }

    draw() {
      const began = performance.now();
      this.coordinate = coordinateOf(this.data, this.view[0]);
      const lanes = this.lanes();
      const traces = this.scoreTraces();
      if (lanes.length) {
        const events = this.data.events.length ? [this.laneTrace(lanes)] : [];
        traces.push(...events, this.rawTrace(lanes), this.flagTrace());
      }
      const done = Plotly.react(this.box, traces, this.layout(lanes), CONFIG);
      if (!this.drawn) this.listen();
      this.drawn = true;
      return done.then(() => performance.measure("timeline", { start: began })); // read by benchmarks/report.py
    }

    listen() {
      this.box.on("plotly_relayout", (change) => {
        const range = change["xaxis.range"] || [change["xaxis.range[0]"], change["xaxis.range[1]"]];
        if (range[0] !== undefined) this.show(...range.map((end) => this.position(end)));
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

    // What `coordinate` was made of.
    position(coordinate) {
      return this.data.axis === "date" ? toNumber(coordinate) - offsetAt(this.data, this.view[0]) : coordinate;
    }

    clicked(point) {
      if (point.data.marker && typeof point.customdata === "number" && point.data.yaxis === "y3") {
        openCard(this, point.customdata);
        return;
      }
      const position = this.position(point.x);
      const slack = 5 * this.pixel;
      const hit = this.data.events.findIndex(({ edges }) =>
        edges[0] - slack <= position && position <= edges[1] + slack);
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
    const coordinate = coordinateOf(timeline.data, card.view[0]);
    const count = card.curves.length;
    const x = unpack(card.x, Float64Array);
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
      traces.push(...cardTraces(x, curve, axis, timeline.data.step, coordinate));
    });
    layout.shapes = card.curves.map((_, number) => ({ // its border shows an event of a single row
      type: "rect", xref: "x", yref: `y${number ? number + 1 : ""} domain`, layer: "below", y0: 0, y1: 1,
      x0: coordinate(card.edges[0]), x1: coordinate(card.edges[1]), fillcolor: colour("event"),
      line: { width: 1, color: colour("event") },
    }));
    const done = Plotly.react(box, traces, layout, { ...CONFIG, doubleClick: "reset" });
    box.dataset.drawn = "yes";
    return done;
  }

  function cardTraces(x, curve, yaxis, step, coordinate) {
    const base = { yaxis, type: "scatter", mode: "lines" };
    const observed = unpack(curve.observed, Float64Array);
    const traces = [];
    if (curve.expected) {
      const expected = unpack(curve.expected, Float64Array);
      const reach = unpack(curve.reach, Float64Array);
      for (const rows of pieces(expected, x, step)) { // a filled area cannot break: each piece has its own
        const edge = { ...base, x: rows.map((row) => coordinate(x[row])), line: { width: 0 }, hoverinfo: "skip" };
        traces.push({ ...edge, y: rows.map((row) => expected[row] - reach[row]) });
        traces.push({ ...edge, y: rows.map((row) => expected[row] + reach[row]), fill: "tonexty",
          fillcolor: colour("band") });
      }
      traces.push({ ...base, ...line(expected, x, step, coordinate),
        hovertemplate: "%{x}<br>expected %{y:.5g}<extra></extra>",
        line: { color: colour("expected"), width: 1.5, dash: "dash" } });
    }
    const drawn = line(observed, x, step, coordinate);
    traces.push({ ...base, ...drawn, mode: drawn.x.length > 2 ? "lines" : "markers",
      line: { color: colour("observed"), width: 1.8 }, hovertemplate: "%{x}<br>observed %{y:.5g}<extra></extra>" });
    return traces;
  }

  // Rows with a value, in pieces: a long step from one to the next breaks the line.
  function pieces(values, x, step) {
    const found = [];
    let before = -Infinity;
    values.forEach((value, row) => {
      if (Number.isNaN(value)) return;
      if (x[row] - before > LONG_STEP * step) found.push([]);
      found.at(-1).push(row);
      before = x[row];
    });
    return found;
  }

  function line(values, x, step, coordinate) {
    const drawn = { x: [], y: [] };
    for (const rows of pieces(values, x, step)) {
      drawn.x.push(...rows.map((row) => coordinate(x[row])), coordinate(x[rows.at(-1)]));
      drawn.y.push(...rows.map((row) => values[row]), null);
    }
    return drawn;
  }

  // -- links, keys, theme and printing --------------------------------------------------------------------------------

  function highlight(section, number) {
    for (const old of section.querySelectorAll(".current")) old.classList.remove("current");
    const card = document.getElementById(`event-${section.id.split("-")[1]}-${number}`);
    card.classList.add("current");
    return card;
  }

  function openCard(timeline, number) {
    const card = highlight(timeline.section, number);
    card.open = true;
    card.scrollIntoView({ block: "start" });
    card.querySelector("summary").focus({ preventScroll: true });
  }

  const timelines = [...document.querySelectorAll("section.chapter")].map((section) => new Timeline(section));
  const boxes = timelines.flatMap((timeline) =>
    [...timeline.section.querySelectorAll(".curves")].map((box) => [timeline, box]));

  for (const timeline of timelines) {
    timeline.section.addEventListener("click", (click) => {
      const button = click.target.closest("button");
      if (!button) return;
      if (button.dataset.move) timeline.move(button.dataset.move);
      if (button.dataset.fold !== undefined) {
        const unfold = button.textContent === "Unfold all";
        for (const card of timeline.section.querySelectorAll(".card")) card.open = unfold;
        button.textContent = unfold ? "Fold all" : "Unfold all";
      }
      if (button.dataset.zoom) timeline.zoomTo(Number(button.dataset.zoom));
      if (button.dataset.view) {
        timeline.show(...JSON.parse(button.dataset.view));
        timeline.section.querySelector(".toolbar").scrollIntoView({ block: "start" });
      }
    });
  }
  document.addEventListener("toggle", ({ target }) => { // the window may have changed while the card was folded
    const box = target.open && target.querySelector("[data-drawn]");
    if (box) Plotly.Plots.resize(box);
  }, true);
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
    for (const [timeline, box] of boxes) {
      if (!box.dataset.drawn) continue;
      if (box.offsetParent) drawCard(timeline, box);
      else { // a folded card has no width: it is drawn when it is unfolded
        delete box.dataset.drawn;
        nearby.observe(box);
      }
    }
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => {
    printing = true;
    document.documentElement.dataset.printing = ""; // print styles do not apply yet, but the charts need their colours
    for (const timeline of timelines) timeline.draw();
    for (const [timeline, box] of boxes.slice(0, PRINTED_CARDS)) {
      const card = box.closest(".card");
      if (!card.open) card.dataset.unfolded = "";
      card.open = true;
      drawCard(timeline, box);
    }
    redraw();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    delete document.documentElement.dataset.printing;
    for (const card of document.querySelectorAll("[data-unfolded]")) {
      card.open = false;
      delete card.dataset.unfolded;
    }
    redraw();
  });
})();
