// The sheet: title, sentence, question and one drawing made of plain marks. Text is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";
const HUES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const TAGS = new Set(["g", "a", "rect", "path", "line", "circle", "text", "title"]);
const PATIENCE_MS = 5000;
const sheets = new WeakMap();

function make(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text != null) node.textContent = text;
  return node;
}

export default function ({ data: [data], parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".sheet");
  let sheet = sheets.get(root);
  if (!sheet) {
    sheet = { root, number: 0, client: Math.random().toString(36).slice(2), waiting: 0 };
    sheet.keys = (event) => press(sheet, event);
    document.addEventListener("keydown", sheet.keys);
    sheet.watcher = new ResizeObserver(() => fit(sheet));
    sheet.watcher.observe(root);
    sheets.set(root, sheet);
  }
  sheet.trigger = setTriggerValue;
  sheet.data = data;
  sheet.waiting = 0;
  draw(sheet);
  return () => {
    document.removeEventListener("keydown", sheet.keys);
    sheet.watcher.disconnect();
    sheets.delete(root);
  };
}

function send(sheet, what, arg = null) {
  const { data } = sheet;
  if (sheet.waiting && performance.now() - sheet.waiting < PATIENCE_MS) return;
  if (what === "step" && !data.can_step) return;
  if ((what === "back" || what === "start") && !data.can_back) return;
  sheet.number += 1;
  sheet.waiting = performance.now();
  sheet.trigger("action", { do: what, arg, n: sheet.number, client: sheet.client });
}

const TYPING = "input, textarea, select, [contenteditable=true], [role=slider], [role=combobox], [role=listbox], [role=tab], [role=radio], [role=dialog]";

function press(sheet, event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const path = event.composedPath().filter((node) => node instanceof Element);
  if (path.some((node) => node.matches(TYPING))) return;
  const { gate } = sheet.data;
  const option = gate && !gate.result && gate.kind === "choice" && /^[1-9]$/.test(event.key) && gate.options[Number(event.key) - 1];
  if (option) return send(sheet, "predict", option.id);
  const does = { ArrowRight: "step", PageDown: "step", ArrowLeft: "back", PageUp: "back", Home: "start", End: "end" }[event.key];
  if (!does) return;
  event.preventDefault();
  send(sheet, does);
}

function draw(sheet) {
  const { root, data } = sheet;
  const W = data.words;
  root.lang = data.lang === "zh" ? "zh-CN" : "en";
  root.classList.toggle("lecture", data.lecture);
  const top = make("header", "top");
  top.append(make("h2", "title", data.title), ...data.about.map((text) => make("span", "mode", text)));
  const bar = make("nav", "bar"); // the buttons stand where the stage's do
  bar.append(button(sheet, "|◀", "key", "start", null, !data.can_back), button(sheet, `◀ ${W.back}`, "key", "back", null, !data.can_back), button(sheet, `${W.step} ▶`, "key primary", "step", null, !data.can_step));
  root.replaceChildren(top, bar, sentence(sheet), ...choices(sheet), picture(sheet, shown(sheet)));
  root.dataset.step = data.index;
  fit(sheet);
}

function button(sheet, text, name, what, arg, off) {
  const node = make("button", name, text);
  node.disabled = Boolean(off);
  node.onclick = (event) => {
    if (event.detail > 0) node.blur();
    send(sheet, what, arg);
  };
  return node;
}

function sentence(sheet) {
  const { data } = sheet;
  const { gate } = data;
  const asking = gate && !gate.result;
  const box = make("section", asking ? "say asking" : "say");
  const text = make("p");
  text.setAttribute("aria-live", "polite");
  if (!asking) text.append(make("strong", "", data.say.head), " ");
  text.append(asking ? gate.question : data.say.text);
  box.append(text);
  if (gate) box.append(question(sheet, gate));
  return box;
}

function question(sheet, gate) {
  const W = sheet.data.words;
  const box = make("div", "gate");
  const label = (answer) => gate.options.find((one) => one.id === answer)?.label ?? String(answer);
  if (gate.result) {
    const { answer, truth, correct, text } = gate.result;
    box.append(make("span", "told you", correct === null ? W.unanswered : W.predicted.replace("{answer}", label(answer))));
    box.append(make("span", "told truth", W.was_so.replace("{truth}", label(truth))));
    const verdict = correct === null ? "" : `${correct ? W.right : W.wrong}${sheet.data.lang === "zh" ? "。" : ". "}`;
    if (verdict || text) box.append(make("span", "told", verdict + text));
    return box;
  }
  if (gate.kind === "block") box.append(make("span", "hint", W.pick));
  else gate.options.forEach((one, place) => box.append(option(sheet, one, place + 1)));
  box.append(button(sheet, W.skip, "skip", "step"));
  return box;
}

/** An answer with the key that chooses it. */
function option(sheet, one, cap) {
  const node = button(sheet, one.label, "option", "predict", one.id);
  node.setAttribute("aria-keyshortcuts", cap);
  node.prepend(make("kbd", "cap", cap));
  return node;
}

/** One of several drawings: which one is on the screen. It stays chosen while the same ones are offered. */
function shown(sheet) {
  const { choices: offer } = sheet.data.drawing;
  return offer ? offer.drawings[sheet.chosen] : sheet.data.drawing;
}

function choices(sheet) {
  const { choices: offer } = sheet.data.drawing;
  const name = offer && `${sheet.data.index} ${offer.drawings.length} ${offer.drawings[0].marks.length}`;
  if (name !== sheet.offered) sheet.chosen = offer ? offer.at : 0;
  sheet.offered = name;
  if (!offer) return [];
  const box = make("div", "choices");
  const pick = (place) => {
    sheet.chosen = place;
    sheet.root.querySelector(".drawing").replaceWith(picture(sheet, shown(sheet)));
    box.replaceWith(...choices(sheet));
    fit(sheet);
    sheet.root.querySelector(".choices input, .choices .on").focus();
  };
  box.append(make("span", "label", offer.label));
  box.append(...(offer.options.length > 2 ? slider(offer, sheet.chosen, pick) : buttons(offer, sheet.chosen, pick)));
  return [box];
}

function buttons(offer, chosen, pick) {
  return offer.options.map((text, place) => {
    const node = make("button", place === chosen ? "key on" : "key", text);
    node.setAttribute("aria-pressed", place === chosen);
    node.onclick = () => pick(place);
    return node;
  });
}

function slider(offer, chosen, pick) {
  const input = make("input");
  Object.assign(input, { type: "range", min: 0, max: offer.options.length - 1, step: 1, value: chosen });
  input.setAttribute("aria-label", offer.label);
  input.setAttribute("aria-valuetext", offer.options[chosen]);
  input.oninput = () => pick(Number(input.value));
  return [input, make("span", "value", offer.options[chosen])];
}

function picture(sheet, drawing) {
  const { gate } = sheet.data;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "drawing");
  svg.setAttribute("viewBox", `0 0 ${drawing.width} ${drawing.height}`);
  svg.setAttribute("preserveAspectRatio", "xMinYMin meet"); // room that is left lies below
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", drawing.alt);
  const hatch = [["pattern", { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }], ["rect", { width: 1.5, height: 7, class: "hatchline" }]];
  const defs = document.createElementNS(SVG, "defs");
  const [pattern, line] = hatch.map(([tag, attrs]) => shape(tag, attrs));
  pattern.append(line);
  defs.append(pattern);
  svg.append(defs);
  addMarks(svg, drawing.marks);
  if (gate && !gate.result && gate.kind === "block") {
    svg.classList.add("picking");
    svg.onclick = (event) => {
      const hit = event.target.closest("[data-b]");
      if (hit) send(sheet, "predict", Number(hit.dataset.b));
    };
  }
  return svg;
}

function shape(tag, attrs) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attrs)) {
    if (name === "href" && !String(value).startsWith("./?")) continue;
    if (!/^on/i.test(name)) node.setAttribute(name, value);
  }
  if (attrs["data-s"] !== undefined) node.style.setProperty("--h", HUES[attrs["data-s"] % HUES.length]);
  return node;
}

function addMarks(parent, marks) {
  for (const [tag, attrs, inner] of marks) {
    if (!TAGS.has(tag)) continue;
    const node = shape(tag, attrs);
    if (Array.isArray(inner)) addMarks(node, inner);
    else if (inner) node.textContent = inner;
    parent.append(node);
  }
}

/** The drawing takes the room that is left of the window. */
function fit(sheet) {
  const svg = sheet.root.querySelector(".drawing");
  if (!svg) return;
  const unit = Math.min(Math.max(sheet.root.clientWidth / 1060, 0.8), 2); // as the stage of a lesson
  sheet.root.style.setProperty("--u", `${unit.toFixed(4)}px`);
  const room = window.innerHeight - svg.getBoundingClientRect().top - 8;
  svg.style.height = `${Math.max(room, 260)}px`;
}
