// Title, transport, jump chips, time line, the one sentence and the prediction gate.

const KINDS = ["allocate", "copy", "share", "free", "evict", "preempt", "swap", "finish"];
// What shows on the time line where several things happen in one step.
const WEIGHT = ["copy", "preempt", "swap", "evict", "share", "finish", "free", "allocate"];
// One drawing for each kind, around (0, 0), about eight units wide.
const GLYPHS = {
  allocate: "M-3.5,-3.5H3.5V3.5H-3.5Z",
  copy: "M0,-5.5L5.5,0L0,5.5L-5.5,0Z",
  share: "M-5.5,0A3.2,3.2 0 1 0 .9,0A3.2,3.2 0 1 0 -5.5,0M-.9,0A3.2,3.2 0 1 0 5.5,0A3.2,3.2 0 1 0 -.9,0",
  free: "M-4,0A4,4 0 1 0 4,0A4,4 0 1 0 -4,0",
  evict: "M-4,-4L4,4M4,-4L-4,4",
  preempt: "M-5,-3.5H5L0,5Z",
  swap: "M-1.5,5V-5L-5,-1M1.5,-5V5L5,1",
  finish: "M-4.5,0L-1.5,3.5L5,-4",
};

function glyph(kind) {
  const path = make("svg:path", `glyph ${kind}`);
  path.setAttribute("d", GLYPHS[kind]);
  return path;
}

function chip(kind) {
  const drawing = make("svg:svg");
  setAttrs(drawing, { viewBox: "-7 -7 14 14", "aria-hidden": "true" });
  drawing.append(glyph(kind));
  return make("button", "chip", drawing, make("span"));
}

function buildTop(root, send) {
  const top = {
    title: make("h2", "title"),
    mode: make("span", "mode"),
    about: make("span", "about"),
    start: make("button", "key", make("span")),
    back: make("button", "key", make("span")),
    step: make("button", "key primary", make("span")),
    play: make("button", "key", make("span")),
    jumpLabel: make("span", "quiet"),
    chips: make("div", "chips"),
    line: make("svg:svg", "line"),
    at: make("span", "at"),
    say: make("section", "say"),
    head: make("strong"),
    text: make("span"),
    also: make("span", "also"),
    gate: make("div", "gate"),
  };
  top.line.append(make("svg:path", "rail"), make("svg:g"), make("svg:circle", "here"));
  const sentence = make("p", "", top.head, " ", top.text, " ", top.also);
  sentence.setAttribute("aria-live", "polite");
  top.say.append(sentence, top.gate);
  root.append(
    make("header", "top", top.title, top.mode, top.about),
    make("nav", "bar", top.start, top.back, top.step, top.play, top.jumpLabel, top.chips, top.line, top.at),
    top.say,
  );
  top.start.onclick = () => send("start");
  top.back.onclick = () => send("back");
  top.step.onclick = () => send("step");
  return top;
}

function drawTop(top, data, W, stage) {
  setText(top.title, data.title);
  setText(top.mode, W(data.mode));
  top.mode.dataset.mode = data.mode;
  setText(top.about, data.about.join(" · "));
  const atEnd = data.index >= data.last;
  const buttons = [
    [top.start, "|◀", "start", data.index === 0],
    [top.back, `◀ ${W("back")}`, "back", data.index === 0 && !data.can_back],
    [top.step, data.busy ? W("busy") : `${W("step")} ▶`, "step", data.busy || (atEnd && !data.can_step)],
    [top.play, W(stage.playing ? "pause" : "play"), "play", atEnd && !data.can_step && !stage.playing],
  ];
  for (const [node, text, name, off] of buttons) {
    setText(node.firstElementChild, text);
    node.disabled = off;
    node.title = `${W(name)} (${{ start: "Home", back: "←", step: "→", play: W("space") }[name]})`;
    node.setAttribute("aria-label", W(name));
  }
  top.play.classList.toggle("on", stage.playing);
  top.step.classList.toggle("busy", data.busy);
  setText(top.jumpLabel, W("jump"));
  drawChips(top, data, W, stage.send);
  setText(top.at, W(data.run ? "at_run" : "at", { ...data.run, k: data.index, n: data.last }));
  top.at.title = W("keys");
  drawSentence(top, data, W, stage);
}

/** A chip for every kind that this trace has; always the four that a first lesson speaks of. */
function drawChips(top, data, W, send) {
  const usual = ["allocate", "copy", "share", "free"];
  const kinds = KINDS.filter((kind) => usual.includes(kind) || data.marks[kind]);
  eachByKey(top.chips, kinds, (kind) => kind, chip, (node, kind) => {
    const ahead = data.ahead.includes(kind);
    setText(node.lastElementChild, W(`kind.${kind}`));
    node.classList.toggle("here", data.here.includes(kind));
    node.setAttribute("aria-disabled", String(!ahead));
    node.title = ahead ? `${W("jump")}: ${W(`kind.${kind}`)}` : W("none_ahead");
    node.onclick = ahead ? () => send("jump", kind) : null;
  });
}

/** Marks by step; the drawing is as wide as its room, so that a click's place is a step. */
function drawLine(top, data, W, stage, [width, height]) {
  const pad = 9;
  const steps = Math.max(data.last, 1);
  const x = (step) => pad + ((width - 2 * pad) * step) / steps;
  const y = height / 2;
  setAttrs(top.line, { viewBox: `0 0 ${width} ${height}`, role: "slider", tabindex: 0 });
  setAttrs(top.line, { "aria-label": W("timeline"), "aria-valuemin": 0, "aria-valuemax": data.last });
  setAttrs(top.line, { "aria-valuenow": data.index, "aria-valuetext": W("at", { k: data.index, n: data.last }) });
  setAttrs(top.line.children[0], { d: `M${x(0)},${y}H${x(steps)}` });
  const kindsAt = new Map();
  for (const kind of WEIGHT) {
    for (const step of data.marks[kind] || []) {
      kindsAt.set(step, [...(kindsAt.get(step) || []), kind]);
    }
  }
  const crowded = (width - 2 * pad) / steps < 9;
  const scale = stage.unit * (crowded ? 0.5 : 0.85);
  each(top.line.children[1], [...kindsAt], () => {
    const path = glyph("allocate");
    path.append(make("svg:title"));
    return path;
  }, (path, [step, kinds]) => {
    setAttrs(path, { d: GLYPHS[kinds[0]], class: `glyph ${kinds[0]}` });
    setAttrs(path, { transform: `translate(${x(step).toFixed(1)},${y}) scale(${scale.toFixed(2)})` });
    setText(path.firstElementChild, `${step}: ${kinds.map((kind) => W(`kind.${kind}`)).join(", ")}`);
  });
  setAttrs(top.line.children[2], { cx: x(data.index).toFixed(1), cy: y, r: 9 * stage.unit });
  top.line.onpointerdown = (event) => {
    const goTo = (moved) => {
      const box = top.line.getBoundingClientRect();
      const part = ((moved.clientX - box.left) * (width / box.width) - pad) / (width - 2 * pad);
      const goal = Math.min(Math.max(Math.round(part * steps), 0), data.last);
      if (goal !== stage.data.index) stage.send("goto", goal);
    };
    top.line.setPointerCapture(event.pointerId);
    top.line.onpointermove = goTo;
    top.line.onpointerup = () => {
      top.line.onpointermove = null;
      top.line.blur();
    };
    goTo(event);
  };
}

function drawSentence(top, data, W, stage) {
  const gate = data.gate;
  const asking = gate && !gate.result;
  setText(top.head, asking ? "" : data.say.head);
  setText(top.text, asking ? gate.question : data.say.text);
  const also = data.say.also.map((kind) => W(`kind.${kind}`)).join(data.lang === "zh" ? "、" : ", ");
  setText(top.also, !asking && also ? W("also", { kinds: also }) : "");
  top.say.classList.toggle("asking", Boolean(asking));
  top.say.dataset.kind = data.say.kind;
  drawGate(top.gate, data, W, stage);
}

/** A question's options, or prediction and truth side by side. */
function drawGate(box, data, W, stage) {
  const gate = data.gate;
  box.hidden = !gate;
  if (!gate) return;
  if (gate.result) {
    const result = gate.result;
    const unanswered = result.correct === null;
    const verdict = unanswered ? "" : (result.also || W(result.correct ? "right" : "wrong")) + (data.lang === "zh" ? "。" : ".");
    const said = [
      ["you", unanswered ? W("unanswered") : W("predicted", { answer: optionLabel(gate, result.answer) })],
      ["truth", W("was_so", { truth: optionLabel(gate, result.truth) })],
      [result.correct ? "right" : "wrong", `${verdict} ${result.text}`.trim()],
    ].filter(([, text]) => text);
    each(box, said, () => make("button"), (node, [name, text]) => {
      setAttrs(node, { class: `told ${name}`, disabled: "", "aria-keyshortcuts": null });
      setText(node, text);
      node.onclick = null;
    });
    return;
  }
  const options = gate.kind === "choice" ? gate.options || [] : [];
  const hint = gate.kind === "block" ? [{ hint: W("pick") }] : [];
  const items = [...hint, ...options, { skip: W("skip") }];
  each(box, items, () => make("button"), (node, item) => {
    const cap = options.indexOf(item) + 1; // the key that chooses it; 0: none
    const chosen = gate.answer != null && gate.answer === item.id;
    setAttrs(node, { class: item.hint ? "hint" : item.skip ? "skip" : `option${chosen ? " chosen" : ""}`, disabled: item.hint ? "" : null });
    setAttrs(node, { "aria-keyshortcuts": cap || null });
    node.replaceChildren(...(cap ? [make("kbd", "cap", cap)] : []), item.hint || item.skip || item.label);
    node.onclick = item.hint ? null : () => (item.skip ? stage.send("step") : stage.send("predict", item.id));
  });
}

function optionLabel(gate, answer) {
  const option = (gate.options || []).find((one) => one.id === answer);
  return option ? option.label : String(answer ?? "–");
}
