// Two runs side by side: block tables, the pool, the rule's own caption; below them the figures of both.
// Drawn anew on each step: a few hundred nodes. Text is only ever set as textContent.

const WORDS = /*WORDS*/ {};
const STYLE = /*STYLE*/ "";
const HUES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]; // the stage's
const FIGURES = ["use", "list", "peak", "copies", "copied", "again"];

function make(tag, name, ...children) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  node.append(...children);
  return node;
}

function table(side, say) {
  const rows = side.seqs.map((row) => {
    const cells = row.blocks.map((block) => {
      const head = make("header", "", make("b", "", say("block", { b: block.b })), say("ref", { n: block.ref }));
      const slots = Array.from({ length: side.size }, (_, k) => make("i", k < block.t.length ? "" : "empty", block.t[k] ?? ""));
      const name = `cell${block.ref > 1 ? " shared" : ""}${block.new ? " new" : ""}`;
      return make("div", name, head, make("div", "toks", ...slots));
    });
    const node = make("div", "row", make("div", "who", row.name), ...cells);
    node.style.setProperty("--hue", HUES[row.hue % HUES.length]);
    node.style.setProperty("--on", row.hue % HUES.length ? "#0b0f14" : "#fff");
    return node;
  });
  return make("div", "tables", ...(rows.length ? rows : [make("p", "note", say("none"))]));
}

/** All holders' hues side by side, as in the stage. */
function tints(hues) {
  const part = 100 / hues.length;
  const stops = hues.map((hue, k) => `color-mix(in srgb, ${HUES[hue % HUES.length]} 26%, var(--ground)) ${k * part}% ${(k + 1) * part}%`);
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

function pool(side, say) {
  const cells = side.pool.map((block) => {
    const used = block.ref > 0;
    const node = make("div", used ? "used" : "", make("b", "", String(block.b)), used ? `${block.who} ×${block.ref}` : say("free"));
    if (used) node.style.background = tints(block.hues);
    return node;
  });
  return make("div", "pool", ...cells);
}

function figures(sides, say) {
  const head = make("tr", "", make("th", "", ""), ...FIGURES.map((name) => make("th", "", say(name))));
  const rows = sides.map((side, k) => {
    const cells = FIGURES.map((name) => {
      const apart = side.figures[name] !== sides[1 - k].figures[name];
      return make("td", apart ? "apart" : "", String(side.figures[name]));
    });
    return make("tr", "", make("th", "", say(`rule.${side.rule}`)), ...cells);
  });
  return make("div", "figures", make("table", "", head, ...rows), make("p", "note", say("note")));
}

export default function ({ data: [data], parentElement }) {
  const root = parentElement.querySelector(".two");
  if (!parentElement.querySelector("style")) parentElement.prepend(Object.assign(document.createElement("style"), { textContent: STYLE }));
  const say = (key, numbers = {}) =>
    Object.entries(numbers).reduce((text, [name, value]) => text.replace(`{${name}}`, value), WORDS[data.lang][key]);
  const sides = data.sides.map((side) => {
    const by = make("p", "by", say(`by.${side.rule}`));
    by.title = by.textContent;
    return make(
      "section", "", make("h2", "", say(`rule.${side.rule}`)), by, make("p", "say", side.say),
      make("h3", "", say("tables")), table(side, say), make("h3", "", say("pool")), pool(side, say),
    );
  });
  root.style.setProperty("--rows", data.rows);
  root.replaceChildren(...sides, figures(data.sides, say));
}
