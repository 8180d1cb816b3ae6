// The comparison: draws a payload by patching what is there, and sends back what was clicked or pressed.
// Mounted once; the default export of the small script calls `show` with every payload.

const QUEUE = 5; // clicks kept while an answer is on its way
const PLAY_MS = 700;
const ABOVE = 72; // units above the strips besides the sentence: transport, heading, margins
const PATIENCE_MS = 5000; // after that an unanswered action is taken for lost
const TYPING = "input, textarea, select, [contenteditable=true], [role=slider], [role=combobox], [role=listbox], [role=tab], [role=radio], [role=dialog]";
const views = new WeakMap();
const STYLE = /*STYLE*/ "";

function show({ data: [data], parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".stage");
  let view = views.get(root);
  if (!view) {
    const style = make("style");
    style.textContent = STYLE;
    root.before(style);
    view = mount(root);
    views.set(root, view);
  }
  view.trigger = setTriggerValue;
  arrive(view, data);
  return () => leave(view);
}

show.leave = ({ parentElement }) => {
  const view = views.get(parentElement.querySelector(".stage"));
  if (view) leave(view);
};

/** Runs when this script arrives: those pictures included that came before it. */
export default function () {
  if (window.__pagedKvCompare) return;
  window.__pagedKvCompare = show;
  for (const component of window.__pagedKvCompareWaiting?.values() || []) show(component);
}

function mount(root) {
  const view = {
    root, unit: 1, data: null, playing: false, number: 0, client: Math.random().toString(36).slice(2), waiting: 0,
    queue: [], hover: null, series: "taken", stripWidth: 700,
  };
  view.send = (what, arg = null) => send(view, what, arg);
  view.bar = buildTransport(root, view);
  view.strips = buildStrips(root);
  view.figures = buildFigures(root, view);
  // A button that was clicked gives the keys back: Space plays, it does not click once more.
  root.addEventListener("click", (event) => event.detail > 0 && event.target.closest("button")?.blur());
  view.watcher = new ResizeObserver(() => again(view));
  view.onResize = () => again(view);
  return view;
}

function arrive(view, data) {
  view.data = data;
  view.waiting = 0;
  if (data.index >= data.last) view.playing = false;
  if (!view.attached) attach(view);
  draw(view);
  const next = view.queue.shift();
  if (next) send(view, ...next);
  schedule(view);
}

function send(view, what, arg) {
  if (!view.data) return;
  if (view.waiting && performance.now() - view.waiting < PATIENCE_MS) {
    if (what === "goto") view.queue = view.queue.filter(([other]) => other !== "goto");
    if (view.queue.length < QUEUE) view.queue.push([what, arg]);
    return;
  }
  const { index, last } = view.data;
  if ((index >= last && (what === "step" || what === "end")) || (index === 0 && (what === "back" || what === "start"))) return;
  view.number += 1;
  view.waiting = performance.now();
  view.trigger("action", { do: what, arg, step: index, n: view.number, client: view.client });
}

function setPlaying(view, on) {
  view.playing = on;
  if (on) view.send("step");
  if (view.data) drawTransport(view, wordsOf(view.data.lang));
  schedule(view);
}

/** Play: one step at a time, each only after the one before is on the screen. */
function schedule(view) {
  clearTimeout(view.timer);
  if (!view.playing) return;
  view.timer = setTimeout(() => {
    if (!view.waiting) view.send("step");
    schedule(view);
  }, PLAY_MS);
}

/** The whole picture in the room there is: strips as tall as that allows. */
function draw(view) {
  const { root, data } = view;
  const W = wordsOf(data.lang);
  const width = root.clientWidth || 1300;
  view.narrow = width < 760;
  view.unit = Math.min(Math.max(width / (data.lecture ? 1250 : 1320), view.narrow ? 1 : 0.8), 2);
  setStyle(root, "--u", `${view.unit.toFixed(4)}px`);
  setStyle(root, "--k", isDark(root) ? 1.6 : 1);
  root.lang = data.lang === "zh" ? "zh-CN" : "en";
  root.classList.toggle("narrow", view.narrow);
  drawTransport(view, W);
  drawTable(view, W);
  const rows = data.rows.length;
  const top = Math.min(Math.max(root.getBoundingClientRect().top, 0), 320);
  const lower = Math.max(rows * 19 + 46, 150); // heading, table, a little air
  const room = (window.innerHeight - top - 12) / view.unit - ABOVE - view.bar.say.offsetHeight / view.unit - lower;
  const strip = Math.min(Math.max(room / Math.max(rows, 1), 27), 62);
  setStyle(root, "--strip", strip.toFixed(1));
  setStyle(root, "--lower", (lower + (view.narrow ? 0 : Math.max(room - rows * strip, 0))).toFixed(1));
  view.stripWidth = (view.strips.querySelector(".strip")?.clientWidth || 0.52 * width) / view.unit;
  drawStrips(view, W);
  if (!view.stripMeasured && rows) {
    view.stripMeasured = true;
    view.stripWidth = view.strips.querySelector(".strip").clientWidth / view.unit;
    drawStrips(view, W);
  }
  drawLine(view, W, [view.bar.line.clientWidth || 300, view.bar.line.clientHeight || 30]);
  const drawing = view.figures.plot.firstElementChild;
  drawChart(view, W, [drawing.clientWidth || 400, drawing.clientHeight || 120]);
  lightUp(view);
  root.setAttribute("aria-label", W("alt", { k: data.index, n: data.last, sentence: data.say.join(" ") }));
  root.dataset.step = data.index;
}

function again(view) {
  if (!view.data || view.frame) return;
  view.frame = requestAnimationFrame(() => {
    view.frame = 0;
    if (view.root.clientWidth === view.drawnWidth && window.innerHeight === view.drawnHeight) return;
    view.drawnWidth = view.root.clientWidth;
    view.drawnHeight = window.innerHeight;
    draw(view);
  });
}

function attach(view) {
  view.attached = true;
  window.__pagedKvCompareView = view;
  view.watcher.observe(view.root);
  window.addEventListener("resize", view.onResize);
  if (!window.__pagedKvCompareKeys) {
    window.__pagedKvCompareKeys = (event) => window.__pagedKvCompareView && press(window.__pagedKvCompareView, event);
    document.addEventListener("keydown", window.__pagedKvCompareKeys);
  }
}

function leave(view) {
  view.attached = false;
  view.playing = false;
  clearTimeout(view.timer);
  view.watcher.disconnect();
  window.removeEventListener("resize", view.onResize);
  if (window.__pagedKvCompareView === view) window.__pagedKvCompareView = null;
}

/** Keys of the whole page, as presentation clickers send them; not while somebody types. */
function press(view, event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !view.data) return;
  const path = event.composedPath().filter((node) => node instanceof Element);
  if (!path.includes(view.root) && path.some((node) => node.matches(TYPING))) return;
  if (event.key === " " && path.some((node) => node.matches("button, a, summary, [role=button]"))) return;
  const does = {
    ArrowRight: "step", PageDown: "step", ArrowLeft: "back", PageUp: "back", Home: "start", End: "end",
  }[event.key];
  if (!does && event.key !== " ") return;
  event.preventDefault();
  if (does) view.send(does);
  else setPlaying(view, !view.playing);
}
