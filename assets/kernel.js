// The kernel picture: one decode step, turn by turn. Stepping needs no server: every turn is in the payload.
// Shares the scope of assets/stage/dom.js. Lengths are units of a drawing 1320 wide.

const WIDE = 1320;
const VIEWS = new WeakMap();
const STYLE = /*STYLE*/ "";
const TYPING = "input, textarea, select, [contenteditable=true], [role=slider], [role=combobox], [role=listbox], [role=tab], [role=radio], [role=dialog]";
const SLOT = { least: 22, most: 62, high: 30 };

export default function ({ data: [data], parentElement }) {
  const root = parentElement.querySelector(".kernel");
  let view = VIEWS.get(root);
  if (!view) {
    view = mount(root);
    VIEWS.set(root, view);
  }
  // Another head or layer of the same step keeps the turn; another step or tile size begins again.
  const story = data.key.replace(/\/\d+\/\d+\/\d+(\/\d+\/\d+)$/, "$1");
  if (view.story !== story) view.at = 0;
  view.story = story;
  view.data = data;
  document.addEventListener("keydown", view.onKey);
  draw(view);
  return () => document.removeEventListener("keydown", view.onKey);
}

function mount(root) {
  const style = make("style");
  style.textContent = STYLE;
  root.before(style);
  const view = { root, at: 0, data: null };
  const button = (name, kind, by) => {
    const node = make("button", kind);
    node.type = "button";
    node.onclick = () => go(view, view.at + by);
    view[name] = node;
    return node;
  };
  view.count = make("span", "quiet");
  view.text = make("p");
  view.svg = make("svg:svg", "picture");
  view.svg.setAttribute("role", "img");
  const bar = make("div", "bar", button("back", "key", -1), button("step", "key primary", 1), view.count);
  const say = make("div", "say", view.text);
  say.setAttribute("aria-live", "polite");
  root.append(bar, say, view.svg);
  const hatch = make("svg:pattern", "", make("svg:path", "hatching"));
  setAttrs(hatch, { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  setAttrs(hatch.firstElementChild, { d: "M0,0V6" });
  view.svg.append(make("svg:defs", "", hatch));
  for (const part of ["table", "lanes", "running", "parts"]) {
    view[part] = make("svg:g", part);
    view.svg.append(view[part]);
  }
  view.onKey = (event) => press(view, event);
  return view;
}

function go(view, at) {
  const last = view.data.tiles.length;
  const next = Math.min(Math.max(at, 0), last);
  if (next === view.at) return;
  view.at = next;
  draw(view);
}

function press(view, event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const path = event.composedPath().filter((node) => node instanceof Element);
  if (!path.includes(view.root) && path.some((node) => node.matches(TYPING))) return;
  const to = { ArrowRight: view.at + 1, PageDown: view.at + 1, ArrowLeft: view.at - 1, PageUp: view.at - 1, Home: 0, End: Infinity }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  go(view, to);
}

/** Marks of one group, drawn anew by position: [tag, class, attributes, text]. Nodes are reused. */
function marks(group, list) {
  let place = 0;
  for (const [tag, name, attrs, text] of list) {
    let node = group.children[place];
    if (!node || node.tagName !== tag) {
      const fresh = make(`svg:${tag}`);
      if (node) node.replaceWith(fresh);
      else group.append(fresh);
      node = fresh;
    }
    const wanted = { class: name || null, ...attrs };
    for (const { name: had } of [...node.attributes]) if (!(had in wanted)) node.removeAttribute(had);
    setAttrs(node, wanted);
    setText(node, text ?? "");
    place += 1;
  }
  while (group.childElementCount > place) group.lastElementChild.remove();
}

const rect = (x, y, width, height, name, more = {}) => ["rect", name, { x, y, width: Math.max(width, 0), height, ...more }];
const line = (x1, y1, x2, y2, name) => ["path", name, { d: `M${x1},${y1}L${x2},${y2}` }];
const text = (x, y, words, name = "", anchor = "middle") => ["text", name, { x, y, "text-anchor": anchor }, words];

function draw(view) {
  const { data } = view;
  const W = wordsOf(data.lang);
  const tiles = data.tiles.length;
  view.at = Math.min(view.at, tiles);
  const merging = view.at === tiles;
  const turn = data.tiles[Math.min(view.at, tiles - 1)];
  view.root.classList.toggle("lecture", data.lecture);
  setStyle(view.root, "--k", isDark(view.root) ? 1.5 : 1);
  setStyle(view.root, "--h", hue(data.place));
  setText(view.back, W("back"));
  setText(view.step, view.at >= tiles - 1 ? W("merge") : W("step"));
  view.back.disabled = view.at === 0;
  view.step.disabled = merging;
  const where = { at: view.at + 1, n: tiles, split: turn.split + 1, splits: data.parts.length };
  setText(view.count, merging ? W("at_merge") : W("at", where));
  setText(view.text, data.say[view.at]);
  marks(view.table, tableMarks(view, turn, merging, W));
  marks(view.lanes, laneMarks(data, turn, W));
  marks(view.running, merging ? outputMarks(data, W) : runningMarks(data, turn, W));
  marks(view.parts, partMarks(data, view.at, merging, W));
  view.lanes.classList.toggle("past", merging);
  view.running.classList.toggle("now", merging);
  view.parts.classList.toggle("now", merging);
  setAttrs(view.svg, { viewBox: `0 0 ${WIDE} 520`, "aria-label": data.say[view.at] });
}

/** Which blocks fit beside one another, so that those of this turn are among them. */
function shownBlocks(data, turn) {
  const most = Math.max(1, Math.floor((WIDE - 220) / (data.size * SLOT.least + 8)));
  const all = data.table.length;
  if (all <= most) return [0, all];
  const middle = Math.floor((turn.base + data.tile / 2) / data.size);
  const from = Math.min(Math.max(middle - Math.floor(most / 2), 0), all - most);
  return [from, from + most];
}

function tableMarks(view, turn, merging, W) {
  const { data } = view;
  const [from, to] = shownBlocks(data, turn);
  const room = WIDE - (to - from < data.table.length ? 220 : 0);
  const wide = Math.min(SLOT.most, (room / (to - from) - 8) / data.size);
  const left = from > 0 ? 110 : 0;
  const at = (position) => left + Math.floor(position / data.size - from) * (wide * data.size + 8) + (position % data.size) * wide;
  const out = [text(0, 14, W("table", { name: letter(data.place) }), "title", "start")];
  const read = new Set(turn.read.flatMap((ok, lane) => (ok && !merging ? [turn.base + lane] : [])));
  const done = view.at && !merging ? turnsDone(data, view.at) : merging ? new Set(Array.from({ length: data.kv_len }, (_, p) => p)) : new Set();
  for (let logical = from; logical < to; logical += 1) {
    const x = at(logical * data.size);
    const loaded = [...read].some((p) => Math.floor(p / data.size) === logical);
    for (let slot = 0; slot < data.size; slot += 1) {
      const p = logical * data.size + slot;
      const state = p >= data.kv_len ? "empty" : p < data.first ? "away" : read.has(p) ? "now" : done.has(p) ? "done" : "ahead";
      out.push(rect(x + slot * wide, 24, wide - 1, SLOT.high, `slot ${state}`));
      if (p < data.kv_len && wide >= 20) out.push(text(x + (slot + 0.5) * wide - 0.5, 44, cut(data.tok[p], wide), `tok ${state}`));
    }
    out.push(rect(x - 1, 23, data.size * wide + 1, SLOT.high + 2, loaded ? "frame now" : "frame"));
    out.push(text(x + (data.size * wide) / 2, 70, `▾ ${data.table[logical]}`, loaded ? "physical now" : "physical"));
    if (data.refs[logical] > 1 && data.size * wide > 34) out.push(text(x + (data.size * wide) / 2, 86, W("ref", { n: data.refs[logical] }), "quiet"));
  }
  if (from > 0) out.push(text(0, 44, W("before", { n: from }), "quiet", "start"));
  if (to < data.table.length) out.push(text(WIDE, 44, W("after", { n: data.table.length - to }), "quiet", "end"));
  data.parts.forEach((part, number) => {
    const first = Math.max(part.start, from * data.size, data.first);
    const last = Math.min(part.stop, to * data.size) - 1;
    if (last < first) return;
    const [x1, x2] = [at(first), at(last) + wide - 1];
    const name = number === turn.split && !merging ? "bracket now" : "bracket";
    out.push(["path", name, { d: `M${x1},92V98H${x2}V92` }]);
    out.push(text((x1 + x2) / 2, 112, W("split", { n: number + 1 }), name.replace("bracket", "quiet")));
  });
  return out;
}

/** Positions that earlier turns have read. */
function turnsDone(data, at) {
  const done = new Set();
  for (const turn of data.tiles.slice(0, at)) turn.read.forEach((ok, lane) => ok && done.add(turn.base + lane));
  return done;
}

/** As much of a token as its slot has room for. */
function cut(label, wide) {
  const most = Math.max(1, Math.floor((wide - 4) / (/[\u2e80-\uffff]/.test(label) ? 12.5 : 7.2)));
  const word = label.trim() || label; // a thin gap takes hardly any room
  return word.length > most ? `${word.slice(0, Math.max(1, most - 1))}…` : label;
}

const LANES = 130;

function laneMarks(data, turn, W) {
  const wide = Math.min(140, (WIDE - 130) / data.tile);
  const out = [text(0, LANES + 14, W("lanes", { n: data.tile }), "title", "start")];
  const rows = ["position", "where", "token", "score", "weight"];
  const y = (row) => LANES + 40 + row * 22;
  rows.forEach((row, number) => out.push(text(0, y(number), W(row), "quiet", "start")));
  turn.read.forEach((ok, lane) => {
    const x = 130 + lane * wide;
    const middle = x + wide / 2;
    const p = turn.base + lane;
    out.push(rect(x, LANES + 24, wide - 3, 110, ok ? "lane" : "lane masked"));
    out.push(text(middle - 1.5, y(0), p, ok ? "" : "quiet"));
    if (!ok) {
      if (wide >= 34) out.push(text(middle - 1.5, y(2), W("masked"), "quiet plate"));
      return;
    }
    const where = `${turn.block[lane]} · ${turn.slot[lane]}`;
    out.push(text(middle - 1.5, y(1), wide < 38 ? `${turn.block[lane]}·${turn.slot[lane]}` : where, "strong"));
    out.push(text(middle - 1.5, y(2), cut(data.tok[p], wide)));
    out.push(text(middle - 1.5, y(3), turn.s[lane]));
    out.push(text(middle - 1.5, y(4), turn.p[lane].toFixed(wide < 38 ? 2 : 3)));
    const high = 34 * turn.p[lane];
    const bar = Math.min(wide * 0.6, 48);
    out.push(rect(middle - bar / 2 - 1.5, LANES + 172 - high, bar, high, "weight"));
    out.push(line(x, LANES + 172, x + wide - 3, LANES + 172, "base"));
  });
  return out;
}

const LOWER = 322;

function runningMarks(data, turn, W) {
  const first = turn.m0 === "−∞";
  const steps = [
    first ? W("first_max", { c: turn.m1 }) : `m = max(${turn.m0}, ${turn.tm}) = ${turn.m1}`,
    first ? W("no_shrink") : W("shrink", { a: turn.m0, c: turn.m1.startsWith("−") ? `(${turn.m1})` : turn.m1, s: turn.shrink }),
    first ? `l = ${turn.l1}` : `l = ${turn.l0} × ${turn.shrink} + ${turn.add} = ${turn.l1}`,
    W("acc", { a: turn.acc }),
  ];
  const out = [rect(0, LOWER, 640, 186, "panel"), text(16, LOWER + 24, W("running"), "title", "start")];
  steps.forEach((words, number) => {
    const rises = number < 2 && !first && turn.m0 !== turn.m1;
    out.push(text(24, LOWER + 60 + number * 34, words, rises ? "formula now" : "formula", "start"));
  });
  return out;
}

/** Behind the last tile: the output's first numbers beside the engine's own. */
function outputMarks(data, W) {
  const { shown, all, ours, engine } = data.output;
  const out = [rect(0, LOWER, 640, 186, "panel"), text(16, LOWER + 24, W("output", { n: shown, all }), "title", "start")];
  [["ours", ours], ["engine", engine]].forEach(([name, numbers], row) => {
    const y = LOWER + 66 + row * 60;
    out.push(text(24, y, W(`output_${name}`), "quiet", "start"));
    numbers.forEach((value, i) => out.push(text(100 + i * 102, y + 24, value, "formula", "end")));
  });
  return out;
}

function partMarks(data, at, merging, W) {
  const columns = [700, 820, 930, 1040, 1150, 1290];
  const out = [rect(660, LOWER, 660, 186, "panel"), text(676, LOWER + 24, W("parts"), "title", "start")];
  const heads = [W("part"), W("keys"), "m", "l", W("weight_short"), `${W("weight_short")} × l`];
  heads.forEach((words, i) => out.push(text(columns[i], LOWER + 48, words, "quiet", i === 5 ? "end" : "middle")));
  const high = Math.min(24, 92 / data.parts.length);
  data.parts.forEach((part, number) => {
    const y = LOWER + 70 + number * high;
    const last = data.tiles.reduce((found, turn, i) => (turn.split === number ? i : found), -1);
    const known = at > last;
    const keys = part.stop > part.start ? `${part.start} – ${part.stop - 1}` : W("none");
    const cells = [number + 1, keys, ...(known ? [part.m, part.l] : ["·", "·"]), ...(merging ? [part.w, part.wl] : ["·", "·"])];
    cells.forEach((words, i) => out.push(text(columns[i], y, words, known ? "cell" : "cell quiet", i === 5 ? "end" : "middle")));
  });
  if (!merging) return out;
  const y = LOWER + 172;
  out.push(line(676, y - 18, 1304, y - 18, "base"));
  out.push(text(676, y, W("total", { m: data.m }) + (data.sink === null ? "" : ` · ${W("sink", { s: data.sink })}`), "strong", "start"));
  out.push(text(1290, y, data.l, "strong now", "end"));
  return out;
}
