"use strict";
// The live page: asks the service for what there is, listens to /v1/live for what changes, and draws it with plotly.
// Names come from outside: they are only ever set as text.

const byId = (id) => document.getElementById(id);
const SPANS = [["300 rows", null, 300], ["1 h", 3600], ["6 h", 21600], ["1 d", 86400], ["7 d", 604800], ["all", 0]];
const SIGNS = { open: "◆", suspected: "◐", well: "●", closed: "●", withdrawn: "○" };
const VERBS = [["acknowledge", "Acknowledge"], ["accept", "This was normal"], ["confirm", "Keep strange"]];

const state = { key: null, streams: [], events: [], span: 0, paused: false, view: null, since: 0, token: null, page: "",
  focus: null, expected: [] };
try { state.token = sessionStorage.getItem("patchad-token"); } catch { /* a browser without storage */ }

// -- asking ------------------------------------------------------------------------------------------------------------

class Refused extends Error {}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (state.token) headers.Authorization = `Bearer ${state.token}`;
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) { showLogin(); throw new Refused("a token is needed"); }
  if (!answer.ok) {
    let detail = `${answer.status}`;
    try { detail = (await answer.json()).detail; } catch { /* not a problem of ours */ }
    throw new Error(detail);
  }
  return answer;
}

const read = async (path) => (await ask(path)).json();
const streamPath = (key, rest) => `v1/streams/${encodeURIComponent(key)}/${rest}`;

function showLogin() {
  byId("refused").textContent = state.token ? "This token is not known." : "";
  byId("login").hidden = false;
  byId("streams-page").hidden = byId("models-page").hidden = true;
  setHeadline("wait", "A token is needed.");
  byId("token").focus();
}

function toast(text) {
  const note = byId("toast");
  note.textContent = text;
  note.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { note.hidden = true; }, 6000);
}

const attempt = (work) => async (...given) => {
  try { await work(...given); } catch (error) { if (!(error instanceof Refused)) toast(error.message); }
};

// Runs work at most every so many milliseconds, the last call included, and never twice at a time.
function throttled(work, pause) {
  let timer = null, running = false, again = false;
  const go = async () => {
    timer = null;
    if (running) { again = true; return; }
    running = true;
    try { await work(); } catch (error) { if (!(error instanceof Refused)) console.info(error.message); }
    running = false;
    if (again) { again = false; call(); }
  };
  const call = () => { timer ??= setTimeout(go, pause()); };
  return call;
}

// -- words -------------------------------------------------------------------------------------------------------------

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made && name !== "list") made[name] = value; else made.setAttribute(name, value);
  }
  made.append(...children.filter((one) => one !== null && one !== undefined));
  return made;
}

const isDate = (at) => at !== null && Math.abs(at) > 3e8;
const hasZone = (time) => typeof time === "string" && /(Z|[+-]\d\d:?\d\d)$/.test(time);
const two = (number) => String(number).padStart(2, "0");

function clockText(time) {
  if (time === null || time === undefined) return "";
  if (typeof time === "number" && !isDate(time)) return `${time}`;
  const date = typeof time === "number" ? new Date(time * 1000) : new Date(time);
  if (Number.isNaN(date.getTime())) return `${time}`;
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const today = new Date();
  const same = date.toDateString() === today.toDateString();
  const seconds = date.getSeconds() ? `:${two(date.getSeconds())}` : "";
  return `${same ? "" : `${day} `}${two(date.getHours())}:${two(date.getMinutes())}${seconds}`;
}

function lengthText(event) {
  const rows = event.stop - event.start;
  const from = Date.parse(event.start_time), to = Date.parse(event.stop_time);
  if (typeof event.start_time !== "string" || Number.isNaN(from)) return `${rows} row${rows === 1 ? "" : "s"}`;
  if (to - from < 1000) return `${rows} row${rows === 1 ? "" : "s"}`;
  if (to - from < 120000) return `${Math.round((to - from) / 1000)} s`;
  const minutes = Math.round((to - from) / 60000);
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2880 ? `${(minutes / 60).toFixed(1)} h` : `${(minutes / 1440).toFixed(1)} d`;
}

const blamed = (event, most = 3) =>
  event.channels.slice(0, most).map(([name, share]) => `${name} ${Math.round(share * 100)} %`).join(", ");

function setHeadline(kind, text) {
  byId("headline").dataset.state = kind;
  if (byId("sentence").textContent !== text) byId("sentence").textContent = text;
  document.title = `${kind === "open" ? "◆ " : kind === "suspected" ? "◐ " : ""}PatchAD`;
}

function tellAll() {
  const streams = state.streams;
  const open = streams.filter((one) => one.state === "open"), maybe = streams.filter((one) => one.state === "suspected");
  const names = (list) => list.slice(0, 3).map((one) => one.key).join(", ") + (list.length > 3 ? ` and ${list.length - 3} more` : "");
  if (!streams.length) setHeadline("wait", "Waiting for rows.");
  else if (open.length) setHeadline("open", `${open.length === 1 ? "An event is open" : `${open.length} streams have open events`}: ${names(open)}.`);
  else if (maybe.length) setHeadline("suspected", `Something may be wrong: ${names(maybe)}.`);
  else {
    const ends = streams.map((one) => one.last_event_time).filter((time) => typeof time === "string").map((time) => [Date.parse(time), time]);
    const last = ends.sort((a, b) => b[0] - a[0])[0];
    setHeadline("well", `All is well since ${clockText(last ? last[1] : state.since)}.`);
  }
}

// -- streams -----------------------------------------------------------------------------------------------------------

function sparkline(stream) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "0 0 100 30");
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("aria-hidden", "true");
  const scores = stream.scores.map((one) => one ?? 0), level = stream.levels.findLast((one) => one !== null) ?? 1;
  const top = Math.max(level * 1.3, ...scores, 1e-9);
  const y = (value) => (29 - 28 * Math.max(value, 0) / top).toFixed(1);
  const draw = (name, attributes) => {
    const part = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
    picture.append(part);
  };
  draw("line", { class: "at-level", x1: 0, x2: 100, y1: y(level), y2: y(level) });
  const points = scores.map((score, n) => `${(100 * n / Math.max(scores.length - 1, 1)).toFixed(1)},${y(score)}`);
  draw("polyline", { class: "score", points: points.join(" ") });
  return picture;
}

function drawStreams() {
  const wanted = byId("find").value.trim().toLowerCase();
  const shown = state.streams.filter((one) => one.key.toLowerCase().includes(wanted));
  const items = shown.slice(0, 300).map((one) => {
    const words = { open: `open, severity ${Math.round(one.severity)}`, suspected: "suspected", well: "well" }[one.state];
    const link = element("a", { href: `#/stream/${encodeURIComponent(one.key)}` },
      element("i", { className: `sign ${one.state}`, "aria-hidden": "true" }, SIGNS[one.state]),
      element("span", { className: "label" }, one.key),
      element("span", { className: "note" }, `${words} · ${clockText(one.newest_time ?? one.newest_at)}`),
      sparkline(one));
    if (one.key === state.key) link.setAttribute("aria-current", "true");
    return element("li", {}, link);
  });
  const focused = document.activeElement?.getAttribute?.("href");
  byId("streams").replaceChildren(...items);
  if (focused?.startsWith("#/stream/")) byId("streams").querySelector(`a[href="${CSS.escape ? focused.replace(/"/g, "%22") : focused}"]`)?.focus();
  byId("none").hidden = state.streams.length > 0;
}

const loadStreams = throttled(async () => {
  const found = await read("v1/streams");
  state.streams = found.streams;
  state.since = found.since;
  tellAll();
  if (state.page !== "streams") return;
  if (state.key === null && state.streams.length) location.replace(`#/stream/${encodeURIComponent(state.streams[0].key)}`);
  drawStreams();
  const own = state.streams.find((one) => one.key === state.key);
  byId("main").hidden = state.key === null;
  byId("about").textContent = own ? `${own.rows.toLocaleString()} rows, ${own.events} event${own.events === 1 ? "" : "s"}` : "";
}, () => Math.max(300, 40 * state.streams.length));

// -- one stream --------------------------------------------------------------------------------------------------------

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function chartTimes(ats) {
  if (!ats.length || !isDate(ats[ats.length - 1])) return ats;
  const own = state.streams.find((one) => one.key === state.key);
  const shift = hasZone(own?.newest_time) || own?.newest_time === null;
  return ats.map((at) => {
    const offset = shift ? new Date(at * 1000).getTimezoneOffset() * 60 : 0;
    return new Date((at - offset) * 1000).toISOString().slice(0, 23);
  });
}

function fromChart(text) {
  if (typeof text === "number") return text;
  const own = state.streams.find((one) => one.key === state.key);
  const local = hasZone(own?.newest_time) || own?.newest_time === null;
  return Date.parse(`${text.replace(" ", "T")}${local ? "" : "Z"}`) / 1000;
}

function eventShapes(curves, [from, to]) {
  const at = (row) => {
    const { index, at: times } = curves.score;
    if (!index.length) return null;
    let low = 0, high = index.length - 1;
    while (low < high) { const middle = (low + high) >> 1; if (index[middle] < row) low = middle + 1; else high = middle; }
    return times[low];
  };
  const seconds = (time) => (typeof time === "string" ? fromChart(time.replace(/(Z|[+-]\d\d:?\d\d)$/, (zone) => zone)) : time);
  return state.events.map((event) => {
    const begin = typeof event.start_time === "string" && hasZone(event.start_time) ? Date.parse(event.start_time) / 1000 : event.start_time === null ? at(event.start) : seconds(event.start_time);
    const end = typeof event.stop_time === "string" && hasZone(event.stop_time) ? Date.parse(event.stop_time) / 1000 : event.stop_time === null ? at(event.stop - 1) : seconds(event.stop_time);
    if (begin === null || begin === undefined || begin > to || end < from) return null;
    const [x0, x1] = chartTimes([Math.max(begin, from), Math.min(Math.max(end, begin), to)]);
    return { type: "rect", xref: "x", yref: "paper", y0: 0, y1: 1, x0, x1, layer: "below",
      fillcolor: colour(event.state === "suspected" ? "--maybe" : "--event"),
      line: { width: 1, color: colour(event.state === "suspected" ? "--maybe" : "--event") } };
  }).filter(Boolean);
}

function draw(curves) {
  const rows = 1 + curves.channels.length, gap = 0.04, first = 0.34;
  const rest = (1 - first - gap * (rows - 1)) / Math.max(rows - 1, 1);
  const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line"), fixedrange: true, nticks: 4 };
  const ats = [curves.score.at, curves.outlook.at, ...curves.channels.map((one) => one.at)].filter((list) => list.length);
  const bounds = state.view ?? [Math.min(...ats.map((list) => list[0])), Math.max(...ats.map((list) => list.at(-1)))];
  const layout = {
    height: 190 + 105 * (rows - 1), margin: { l: 56, r: 12, t: 8, b: 34 }, showlegend: false, uirevision: false,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("--soft"), size: 12 },
    dragmode: "pan", hovermode: "x", shapes: eventShapes(curves, bounds), annotations: [],
    xaxis: { gridcolor: colour("--line"), linecolor: colour("--line"), anchor: rows > 1 ? `y${rows}` : "y",
      range: ats.length ? chartTimes(bounds) : undefined },
    yaxis: { ...axis, domain: [1 - first, 1], rangemode: "tozero" },
  };
  const line = { color: colour("--observed"), width: 1.5 };
  const x = chartTimes(curves.score.at);
  const traces = [
    { x, y: curves.score.score, line, name: "score", mode: "lines", hovertemplate: "%{y:.3g}" },
    { x, y: curves.score.level, line: { color: colour("--level"), width: 1.5, dash: "dash" }, name: "level", mode: "lines", hovertemplate: "%{y:.3g}" },
  ];
  if (curves.outlook.at.length) {
    const ahead = curves.outlook.at.map((at, n) => [at, curves.outlook.score[n]]);
    traces.push({ x: chartTimes(ahead.map(([at]) => at)), y: ahead.map(([, score]) => score), name: "so far", mode: "lines",
      line: { color: colour("--observed"), width: 1.5, dash: "dot" }, hovertemplate: "%{y:.3g}" });
    const level = curves.score.level.findLast((one) => one !== null);
    if (level !== undefined) {
      traces.push({ x: chartTimes([curves.score.at.at(-1) ?? ahead[0][0], ahead.at(-1)[0]]), y: [level, level], name: "level", mode: "lines",
        line: { color: colour("--level"), width: 1.5, dash: "dash" }, hoverinfo: "skip" });
    }
  }
  const title = (text, y) => layout.annotations.push({ text, x: 0, y, xref: "paper", yref: "paper", xanchor: "left", yanchor: "top",
    showarrow: false, font: { size: 12, color: colour("--ink") }, bgcolor: colour("--paper"), opacity: 0.85, captureevents: false });
  title("score", 1);
  curves.channels.forEach((channel, n) => {
    const top = 1 - first - gap - n * (rest + gap), name = `y${n + 2}`;
    layout[`yaxis${n + 2}`] = { ...axis, domain: [Math.max(top - rest, 0), top] };
    const known = state.expected.find((one) => one.name === channel.name);
    if (known) traces.push(...expectedTraces(known, name));
    traces.push({ x: chartTimes(channel.at), y: channel.value, yaxis: name, line, name: channel.name, mode: "lines",
      meta: channel.name, hovertemplate: "%{y:.4g}" });
    if (channel.low !== null && channel.high !== null) {
      layout.shapes.push({ type: "rect", xref: "paper", x0: 0, x1: 1, yref: name, y0: channel.low, y1: channel.high,
        fillcolor: colour("--band"), line: { width: 0 }, layer: "below" });
    }
    title(plain(channel.name), top);
  });
  const chart = byId("chart");
  Plotly.react(chart, traces, layout, { displayModeBar: false, responsive: true, scrollZoom: false });
  if (!chart.listening) {
    chart.listening = true;
    chart.on("plotly_relayout", moved);
    chart.on("plotly_click", attempt((clicked) => {
      const name = clicked.points.map((one) => one.data.meta).find((one) => one !== undefined);
      return name === undefined ? null : expectChannel(name);
    }));
  }
}

// What the model expects of a channel, as a band of normal values and a line.
function expectedTraces(known, yaxis) {
  const x = chartTimes(known.at), edge = { width: 0, color: colour("--expected") };
  const part = { x, yaxis, mode: "lines", hoverinfo: "skip" };
  return [
    { ...part, y: known.low, line: edge },
    { ...part, y: known.high, line: edge, fill: "tonexty", fillcolor: colour("--reach") },
    { ...part, y: known.expected, line: { color: colour("--expected"), width: 1.5, dash: "dash" }, name: "expected", hoverinfo: "all", hovertemplate: "%{y:.4g}" },
  ];
}

function drawChannels(curves) {
  const focused = document.activeElement?.closest?.("#channels button")?.textContent;
  const buttons = curves.channels.map(({ name }) => {
    const button = element("button", { type: "button" }, name);
    button.setAttribute("aria-pressed", String(state.expected.some((one) => one.name === name)));
    button.addEventListener("click", attempt(() => expectChannel(name)));
    return button;
  });
  byId("channels").replaceChildren("Expected:", ...buttons);
  byId("key-expected").hidden = !state.expected.length;
  if (focused) buttons.find((one) => one.textContent === focused)?.focus();
}

// plotly reads a few HTML tags in texts: a name has none.
const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function query() {
  if (state.view) return `since=${state.view[0]}&until=${state.view[1]}`;
  const [, seconds, rows] = SPANS[state.span];
  if (rows) return `rows=${rows}`;
  const own = state.streams.find((one) => one.key === state.key);
  return seconds && own?.newest_at ? `since=${own.newest_at - seconds}` : "";
}

const loadStream = throttled(async () => {
  if (state.key === null || state.page !== "streams" || state.paused) return;
  await showStream();
}, () => 700);

async function showStream() {
  const { key, focus } = state;
  const wanted = (focus?.channels ?? []).map(encodeURIComponent).join(",");
  const [curves, told, expected] = await Promise.all([read(streamPath(key, `history?points=900&channels=${wanted}&${query()}`)),
    read(streamPath(key, "events")), focus ? loadExpected(focus) : []]);
  if (key !== state.key || focus !== state.focus) return;
  state.curves = curves;
  state.events = told.events;
  state.expected = expected;
  byId("name").textContent = key;
  byId("main").hidden = false;  // plotly takes the width of what it draws in
  byId("export-csv").href = streamPath(key, `export.csv?${query()}`);
  byId("export-report").href = streamPath(key, `export.html?${query()}`);
  draw(curves);
  drawChannels(curves);
  drawEvents();
}

async function loadExpected(focus) {
  const asked = focus.event ? `event=${encodeURIComponent(focus.event)}` : `channel=${encodeURIComponent(focus.channel)}&${query()}`;
  try {
    const { channels } = await read(streamPath(state.key, `expected?${asked}`));
    if (!channels.length) toast("This model expects no values in particular; the range in train is shown.");
    return channels;
  } catch (error) {
    if (error instanceof Refused) throw error;
    toast(error.message);
    return [];
  }
}

// Shows what is expected of a channel in what is seen now; once more: no longer.
async function expectChannel(name) {
  const view = seen();
  if (!view) return;
  const shown = state.expected.some((one) => one.name === name);
  await lookAt(view, shown ? null : { channel: name, channels: state.curves.channels.map((one) => one.name) });
}

function seen() {
  const range = byId("chart").layout?.xaxis?.range;
  if (state.view) return state.view;
  if (range) return range.map(fromChart);
  const at = state.curves?.score.at ?? [];
  return at.length ? [at[0], at[at.length - 1]] : null;
}

async function lookAt(view, focus = null) {
  state.view = view;
  state.focus = focus;
  pause(true);
  await showStream();
}

const moved = (change) => {
  const from = change["xaxis.range[0]"], to = change["xaxis.range[1]"];
  if (from === undefined) return;
  clearTimeout(moved.timer);
  moved.timer = setTimeout(attempt(() => lookAt([fromChart(from), fromChart(to)], state.focus)), 250);
};

const shift = attempt(async (by) => {
  const view = seen();
  if (!view) return;
  const width = view[1] - view[0], own = state.streams.find((one) => one.key === state.key);
  const first = state.curves?.first_at ?? view[0], last = own?.newest_at ?? view[1];
  const from = Math.max(Math.min(view[0] + by * width * 0.8, Math.max(last - width, first)), Math.min(first, view[0]));
  await lookAt([from, from + width]);
});

function pause(wanted) {
  state.paused = wanted;
  byId("pause").setAttribute("aria-pressed", String(wanted));
  byId("pause").textContent = wanted ? "Paused" : "Pause";
  if (!wanted) {
    state.view = state.focus = null;
    state.expected = [];
    loadStream();
  }
}

// -- events ------------------------------------------------------------------------------------------------------------

function drawEvents() {
  const typing = document.activeElement?.closest?.("#events form");
  if (typing && typing.querySelector("input").value) return;
  byId("quiet").hidden = state.events.length > 0;
  byId("events").replaceChildren(...state.events.slice(-100).reverse().map(eventItem));
}

function eventItem(event) {
  const bar = element("b");
  bar.style.width = `${Math.min(Math.max(event.severity, 0), 100)}%`;
  const where = element("button", { type: "button", title: "Show it" }, `${clockText(event.start_time) || `row ${event.start}`} · ${lengthText(event)}`);
  where.addEventListener("click", attempt(() => showEvent(event)));
  const said = event.remarks.map((one) => `${one.kind}${one.author ? ` by ${one.author}` : ""}, ${clockText(one.at)}${one.text ? `: ${one.text}` : ""}`);
  const tags = [event.kind !== "anomaly" ? event.kind : null, event.repeats ? `${event.repeats} repeats` : null].filter(Boolean);
  const item = element("li", {},
    element("span", {}, element("i", { className: `sign ${event.state}`, "aria-hidden": "true" }, SIGNS[event.state]), ` ${event.state}`),
    element("span", { className: "when" }, where),
    element("span", { className: "meter", title: "severity, 0 to 100" }, element("i", {}, bar), `${Math.round(event.severity)}`),
    element("span", { className: "who" }, `${blamed(event)} `, ...tags.map((text) => element("span", { className: "tag" }, text))),
    said.length ? element("span", { className: "said" }, said.join("\n")) : null,
    acts(event));
  item.dataset.state = event.state;
  item.dataset.id = event.id;
  if (event.id === state.focus?.event) item.setAttribute("aria-current", "true");
  return item;
}

function acts(event) {
  const done = { acknowledge: event.acknowledged, accept: event.accepted, confirm: event.confirmed };
  const buttons = VERBS.filter(([verb]) => !done[verb]).map(([verb, text]) => {
    const button = element("button", { type: "button" }, text);
    button.dataset.verb = verb;
    button.addEventListener("click", attempt(() => say(event, verb, {}, button)));
    return button;
  });
  const input = element("input", { type: "text", placeholder: "Comment", "aria-label": "Comment", maxLength: 10000 });
  const form = element("form", {}, input);
  form.addEventListener("submit", attempt(async (submitted) => {
    submitted.preventDefault();
    if (!input.value.trim()) return;
    const text = input.value;
    input.value = "";
    await say(event, "comment", { text });
  }));
  return element("div", { className: "acts" }, ...buttons, form);
}

async function say(event, verb, body, button) {
  if (button) button.disabled = true;
  try {
    await ask(`v1/events/${encodeURIComponent(event.id)}/${verb}?key=${encodeURIComponent(event.key)}`,
      { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
    if (verb === "accept") toast("Learned: what is like this is no event from now on.");
    if (verb === "confirm") toast("Learned: this stays strange.");
    state.events = (await read(streamPath(state.key, "events"))).events;
    drawEvents();
    loadStreams();
  } finally {
    if (button) button.disabled = false;
  }
}

async function showEvent(event) {
  const seconds = (time, row) => {
    if (typeof time === "string") return hasZone(time) ? Date.parse(time) / 1000 : Date.parse(`${time}Z`) / 1000;
    const { index, at } = state.curves.score;
    const place = index.findIndex((one) => one >= row);
    return time ?? at[place < 0 ? at.length - 1 : place];
  };
  const from = seconds(event.start_time, event.start), to = seconds(event.stop_time, event.stop - 1);
  const rows = event.stop - event.start, drawn = state.curves.channels[0]?.at ?? [];
  const step = rows > 1 && to > from ? (to - from) / (rows - 1) : ((drawn.at(-1) - drawn[0]) / Math.max(drawn.length - 1, 1) || 60);
  const margin = step * Math.min(Math.max(rows, 30), 150);
  await lookAt([from - margin, to + margin], { event: event.id, channels: event.channels.slice(0, 4).map(([name]) => name) });
  byId("chart").scrollIntoView({ block: "nearest" });
}

// -- the model ---------------------------------------------------------------------------------------------------------

const pairs = (list) => list.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, `${value}`)]);

const showModel = attempt(async () => {
  const model = await read("v1/model");
  const figure = (value) => (value === null ? "not known" : value.toPrecision(3));
  byId("facts").replaceChildren(...pairs([
    ["detector", model.detector], ["channels", `${model.channels.length}: ${model.channels.slice(0, 24).join(", ")}`],
    ["window", `${model.window} rows, a verdict waits ${model.delay} or more`],
    ["calibrated on", `${model.held_out_rows.toLocaleString()} rows of train that were held out`],
    ["level", `${figure(model.level)} (${model.threshold})`], ["notes", model.notes.join("; ") || "none"], ["checksum", model.checksum],
  ]));
  const kept = model.promised === null || model.measured === null ? "" : model.measured <= 2 * model.promised ? "; kept" : "; more than promised: faults, or a plant that has changed";
  byId("promise").replaceChildren(...pairs([
    ["promised", model.promised === null ? "nothing" : `${figure(model.promised)} false events in 10,000 normal rows`],
    ["measured", model.measured === null ? "no rows yet" : `${figure(model.measured)} events in 10,000 rows, confirmed ones apart${kept}`],
    ["drift", `${figure(model.drift)} (0: scores as in train; 1: all, or none, over its median)`],
  ]));
  byId("feedback").replaceChildren(...(model.feedback.length ? model.feedback : ["nothing yet"]).map((text) => element("li", {}, text)));
  byId("history").replaceChildren(...model.history.map((one) =>
    element("tr", {}, element("td", {}, clockText(one.at)), element("td", {}, one.why), element("td", {}, one.checksum.slice(0, 16)))));
});

byId("upload").addEventListener("click", attempt(async () => {
  const file = byId("file").files[0];
  if (!file) throw new Error("Choose a model file first.");
  byId("tried").textContent = "trying it …";
  try {
    const answer = await (await ask("v1/models", { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" } })).json();
    byId("tried").textContent = `in force: ${answer.trial.new_events} new events in ${answer.trial.rows.toLocaleString()} rows`;
  } catch (error) {
    byId("tried").textContent = `refused: ${error.message}`;
  }
  await showModel();
}));

// -- what happens ------------------------------------------------------------------------------------------------------

function hear(kind, content) {
  if (kind === "rows" && content.key !== undefined) {
    loadStreams();
    if (`${content.key}` === state.key) loadStream();
  } else if (kind === "event" || kind === "remark") {
    loadStreams();
    if (`${content.key}` === state.key) loadStream();
  } else {
    loadStreams();
    loadStream();
    if (state.page === "models") showModel();
  }
}

// EventSource cannot send a token, so the stream is read here.
async function listen() {
  for (;;) {
    try {
      const answer = await ask("v1/live");
      byId("line").textContent = "live";
      byId("line").className = "on";
      hear("reset", {});
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += value;
        const messages = text.split("\n\n");
        text = messages.pop();
        for (const message of messages) {
          const fields = Object.fromEntries(message.split("\n").map((one) => [one.split(": ", 1)[0], one.slice(one.indexOf(": ") + 2)]));
          if (fields.event) hear(fields.event, JSON.parse(fields.data ?? "{}"));
        }
      }
    } catch (error) {
      if (error instanceof Refused) return;
    }
    byId("line").textContent = "offline";
    byId("line").className = "";
    setHeadline("wait", "The service does not answer; trying again.");
    await new Promise((resolve) => { setTimeout(resolve, 2000); });
  }
}

function route() {
  const [, page, key] = location.hash.split("/");
  state.page = page === "models" ? "models" : "streams";
  byId("login").hidden = true;
  byId("streams-page").hidden = state.page !== "streams";
  byId("models-page").hidden = state.page !== "models";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === state.page) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  if (state.page === "models") { showModel(); return; }
  const wanted = page === "stream" && key ? decodeURIComponent(key) : null;
  if (wanted !== state.key) { state.key = wanted; state.events = []; pause(false); }
  loadStreams();
  loadStream();
}

byId("login").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  state.token = byId("token").value.trim();
  try { sessionStorage.setItem("patchad-token", state.token); } catch { /* a browser without storage */ }
  route();
  listen();
});
byId("find").addEventListener("input", drawStreams);
byId("pause").addEventListener("click", () => pause(!state.paused));
byId("earlier").addEventListener("click", () => shift(-1));
byId("later").addEventListener("click", () => shift(1));
for (const link of [byId("export-csv"), byId("export-report")]) {
  link.addEventListener("click", attempt(async (clicked) => {
    if (!state.token) return;
    clicked.preventDefault();  // a link sends no token
    const address = URL.createObjectURL(await (await ask(link.getAttribute("href"))).blob());
    element("a", { href: address, download: link.download }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  }));
}

function choose(span) {
  state.span = Math.min(Math.max(span, 0), SPANS.length - 1);
  document.querySelectorAll(".spans button").forEach((one, n) => one.setAttribute("aria-pressed", String(n === state.span)));
  pause(false);
}

SPANS.forEach(([text], number) => {
  const button = element("button", { type: "button" }, text);
  button.setAttribute("aria-pressed", String(number === state.span));
  button.addEventListener("click", () => choose(number));
  document.querySelector(".spans").append(button);
});
// Goes to the next stream of the list, or the one before.
function stepStream(by) {
  const place = state.streams.findIndex((one) => one.key === state.key);
  const next = state.streams[place + by];
  if (next) location.hash = `#/stream/${encodeURIComponent(next.key)}`;
}

// Shows the event before the one that is shown, or after it; the newest first.
const stepEvent = attempt(async (by) => {
  const place = state.events.findIndex((one) => one.id === state.focus?.event);
  const next = state.events[place < 0 ? state.events.length - 1 : place + by];
  if (next) await showEvent(next);
});

const stepChannel = attempt(async () => {
  const names = (state.curves?.channels ?? []).map((one) => one.name);
  const place = state.focus?.channel ? names.indexOf(state.focus.channel) : -1;
  if (names.length) await expectChannel(names[(place + 1) % names.length]);
});

function showKeys() {
  byId("keys").open = !byId("keys").open;
  if (byId("keys").open) byId("keys").querySelector("summary").focus();
}

const KEYS = {
  p: () => pause(!state.paused), "[": () => shift(-1), "]": () => shift(1), "-": () => choose(state.span + 1), "+": () => choose(state.span - 1),
  j: () => stepStream(1), k: () => stepStream(-1), n: () => stepEvent(-1), b: () => stepEvent(1), x: stepChannel,
  c: () => byId("export-csv").click(), r: () => byId("export-report").click(), "/": () => byId("find").focus(), "?": showKeys,
};
document.addEventListener("keydown", (pressed) => {
  if (pressed.target.closest("input, textarea") || pressed.ctrlKey || pressed.metaKey || pressed.altKey) return;
  if (state.page !== "streams" || !KEYS[pressed.key]) return;
  pressed.preventDefault();
  KEYS[pressed.key]();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (state.curves) draw(state.curves); });
addEventListener("hashchange", route);
route();
listen();
