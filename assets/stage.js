// The stage: draws a payload by patching what is there, and sends back what was clicked or pressed.
// Mounted once; the default export runs again on every payload.

const QUEUE = 5; // clicks kept while an answer is on its way
const PLAY_MS = 900;
const PATIENCE_MS = 5000; // after that an unanswered action is taken for lost
const stages = new WeakMap();

const STYLE = /*STYLE*/ "";

/** What the small script of the component calls with every payload. */
function show({ data: [data], parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".stage");
  let stage = stages.get(root);
  if (!stage) {
    const style = make("style");
    style.textContent = STYLE;
    root.before(style);
    stage = mount(root);
    stages.set(root, stage);
  }
  stage.trigger = setTriggerValue;
  stage.arrive(data);
  return () => stage.leave();
}

show.leave = ({ parentElement }) => stages.get(parentElement.querySelector(".stage"))?.leave();

/** Runs when this script arrives: from now on stages are drawn by it, those included that came before it. */
export default function () {
  if (window.__pagedKv) return;
  window.__pagedKv = show;
  for (const component of window.__pagedKvWaiting?.values() || []) show(component);
}

function mount(root) {
  const stage = {
    root,
    unit: 1,
    data: null,
    playing: false,
    number: 0,
    client: Math.random().toString(36).slice(2),
    waiting: 0,
    queue: [],
    hover: null,
    selected: null,
    memory: { cards: [] },
  };
  stage.send = (what, arg = null) => send(stage, what, arg);
  const top = buildTop(root, stage.send);
  const sides = make("div", "sides");
  root.append(sides);
  const left = buildLogical(sides);
  const beams = buildBeams(left.box);
  const right = buildPhysical(sides);
  const layer = buildLinks(sides);
  const lower = buildLower(root);
  const heard = buildTable(root);
  Object.assign(stage, { top, sides, left, beams, right, layer, lower, heard });
  top.play.onclick = () => setPlaying(stage, !stage.playing);
  stage.arrive = (data) => arrive(stage, data);
  stage.leave = () => leave(stage);
  listen(stage);
  return stage;
}

/** A new payload: draw it, then send what was asked for meanwhile. */
function arrive(stage, data) {
  stage.near = data.near || {};
  stage.waiting = 0;
  if (data.index >= data.last && !data.can_step && !data.busy) stage.playing = false;
  if (data.gate && !data.gate.result) stage.playing = false; // a question waits for an answer, or for a step by hand
  if (stage.client && !stage.attached) attach(stage);
  place(stage, data);
  if (stage.queue.length && !data.busy) {
    const [what, arg] = stage.queue.shift();
    send(stage, what, arg);
  }
  schedule(stage);
}

/** Put a payload on the screen: the server's answer, or a neighbour's ahead of it. */
function place(stage, data) {
  const before = stage.data;
  data = calmed(data);
  stage.data = data;
  if (before && (before.index !== data.index || Boolean(before.gate) !== Boolean(data.gate))) {
    stage.hover = null; // the pointer rests where it was; what it rests on is not what it pointed at
    stage.rests = true;
    if (before.gate && !data.gate) stage.selected = null;
  }
  if (data.selection) stage.selected = focusOf(data, data.selection);
  draw(stage);
  const forward = before && data.index === before.index + 1;
  if (forward && data.did.copy) requestAnimationFrame(() => animateCopies(stage.sides, data));
}

/** While a question is open nothing shouts: the step before it is over, the next one is not known. */
function calmed(data) {
  if (!data.gate || data.gate.result) return data;
  const seqs = data.seqs.map((row) => ({ ...row, was: undefined, new: false, changed: false }));
  return { ...data, did: {}, ref: {}, here: [], seqs };
}

function focusOf(data, selection) {
  if (Number.isInteger(selection.block)) return { block: selection.block };
  const row = data.seqs.find((one) => one.id === selection.sequence);
  return row ? { seq: row.p } : null;
}

function send(stage, what, arg) {
  if (!stage.data) return;
  if (stage.waiting && performance.now() - stage.waiting < PATIENCE_MS) {
    if (what === "goto") stage.queue = stage.queue.filter(([other]) => other !== "goto");
    if (stage.queue.length < QUEUE) stage.queue.push([what, arg]);
    return;
  }
  const data = stage.data;
  const atEnd = data.index >= data.last;
  if (what === "step" && (data.busy || (atEnd && !data.can_step))) return;
  if ((what === "back" || what === "start") && data.index === 0 && !data.can_back) return;
  stage.number += 1;
  stage.waiting = performance.now();
  stage.trigger("action", { do: what, arg, step: data.index, n: stage.number, client: stage.client });
  const ahead = stage.near[what];
  if (ahead) place(stage, ahead); // what the server is going to say is here already
}

function setPlaying(stage, on) {
  stage.playing = on;
  if (on) stage.send("step");
  if (stage.data) drawTop(stage.top, stage.data, wordsOf(stage.data.lang), stage);
  schedule(stage);
}

/** Play: one step at a time, each only after the one before is on the screen. */
function schedule(stage) {
  clearTimeout(stage.timer);
  if (!stage.playing) return;
  stage.timer = setTimeout(() => {
    if (!stage.waiting && !stage.data.busy) stage.send("step");
    schedule(stage);
  }, PLAY_MS);
}

/** What an event's target stands for: a block, or a sequence. */
function thingAt(target) {
  const node = target.closest?.("[data-b], .meta, .badge[data-s], .node[data-s]");
  if (!node) return null;
  if (node.dataset.b !== undefined) return { block: Number(node.dataset.b) };
  const place = node.dataset.s ?? node.closest("[data-s]")?.dataset.s;
  return place === undefined ? null : { seq: Number(place) };
}

function same(a, b) {
  return a === b || Boolean(a && b && a.block === b.block && a.seq === b.seq);
}

function listen(stage) {
  const { sides } = stage;
  const follow = (event) => {
    const moved = !stage.at || event.clientX !== stage.at[0] || event.clientY !== stage.at[1];
    stage.at = [event.clientX, event.clientY];
    if (stage.rests && !moved) return;
    stage.rests = false;
    const thing = thingAt(event.target);
    if (!stage.data || same(thing, stage.hover)) return;
    stage.hover = thing;
    refocus(stage);
  };
  sides.addEventListener("pointerover", follow);
  sides.addEventListener("pointermove", follow);
  sides.addEventListener("pointerleave", () => {
    stage.hover = null;
    if (stage.data) refocus(stage);
  });
  sides.addEventListener("click", (event) => pick(stage, thingAt(event.target)));
  // A button that was clicked gives the keys back: Space plays, it does not click once more.
  stage.root.addEventListener("click", (event) => event.detail > 0 && event.target.closest("button")?.blur());
  stage.root.addEventListener("pointerenter", () => (window.__pagedKvStage = stage));
  stage.watcher = new ResizeObserver(() => again(stage));
}

/** A click on a block answers an open question, else selects; a second click lets go. */
function pick(stage, thing) {
  if (!thing) return;
  const gate = stage.data.gate;
  if (gate && !gate.result && gate.kind === "block" && thing.block !== undefined) {
    stage.send("predict", thing.block);
    return;
  }
  stage.selected = same(thing, stage.selected) ? null : thing;
  refocus(stage);
  const chosen = stage.selected;
  const row = chosen && stage.data.seqs.find((one) => one.p === chosen.seq);
  stage.send("select", chosen && (row ? { sequence: row.id } : { block: chosen.block }));
}

function again(stage) {
  if (!stage.data || stage.frame) return;
  stage.frame = requestAnimationFrame(() => {
    stage.frame = 0;
    if (stage.root.clientWidth !== stage.drawnWidth || window.innerHeight !== stage.drawnHeight) {
      stage.drawnWidth = stage.root.clientWidth;
      stage.drawnHeight = window.innerHeight;
      draw(stage);
    }
  });
}

function attach(stage) {
  stage.attached = true;
  window.__pagedKvStage = stage;
  stage.watcher.observe(stage.root);
  stage.onResize = () => again(stage);
  window.addEventListener("resize", stage.onResize);
  if (!window.__pagedKvKeys) {
    // One listener a page; it speaks to the stage that was mounted or entered last.
    window.__pagedKvKeys = (event) => window.__pagedKvStage && press(window.__pagedKvStage, event);
    document.addEventListener("keydown", window.__pagedKvKeys);
  }
}

function leave(stage) {
  stage.attached = false;
  stage.playing = false;
  clearTimeout(stage.timer);
  stage.watcher.disconnect();
  window.removeEventListener("resize", stage.onResize);
  if (window.__pagedKvStage === stage) window.__pagedKvStage = null;
}
