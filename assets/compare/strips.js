// One strip a strategy, all to the same scale: what lies in every slot, and what the strategy pays just now.

const STATES = ["live", "reserved", "internal", "external", "cached", "free"];
const DRAWN_AS = { reserved: "empty", promised: "empty promised", external: "hole" };

function buildStrips(root) {
  const key = make("div", "legend keys");
  const box = make("section", "strips", make("div", "head", make("h3"), key), make("div", "striprows"));
  root.append(box);
  return box;
}

function drawStrips(view, W) {
  const { strips, data } = view;
  const [head, rows] = strips.children;
  setText(head.children[0], W("strips"));
  each(head.children[1], STATES, () => make("div", "", make("i"), make("span")), (node, state) => {
    setAttrs(node.children[0], { class: `seg sample ${DRAWN_AS[state] || state}` });
    setText(node.children[1], W(`kind.${state}`));
  });
  const create = () => make("div", "striprow", make("div", "who", make("b"), make("span", "quiet")), make("div", "strip"), make("div", "verdict", make("b"), make("span")));
  eachByKey(rows, data.rows, (row) => row.name, create, (node, row) => {
    const [who, strip, verdict] = node.children;
    setText(who.children[0], row.label);
    setText(who.children[1], row.policy);
    node.classList.toggle("waiting", row.waits);
    node.dataset.name = row.name;
    const told = [W("runs", { n: row.now.running })];
    if (row.now.waiting) told.push(W("waits", { n: row.now.waiting }));
    if (row.useful != null) told.push(W("useful", { n: row.useful }));
    setText(verdict.children[0], told.join(" · "));
    setText(verdict.children[1], row.note);
    verdict.title = row.note;
    setAttrs(strip, { role: "img", "aria-label": `${row.label}: ${STATES.map((state) => `${W(`kind.${state}`)} ${row.now[state]}`).join(", ")}` });
    each(strip, row.segs, () => make("span", "", make("i")), (segment, parts) => drawSegment(segment, parts, data.slots, view, W));
  });
}

function drawSegment(node, [kind, length, owners, news], slots, view, W) {
  const share = (100 * length) / slots;
  const tint = kind === "live" ? `background:${tintOf(owners, 52)};` : "";
  const edge = owners.length ? hue(owners[0]) : "var(--line)";
  setAttrs(node, {
    class: `seg ${DRAWN_AS[kind] || kind}${news ? ` news ${news}` : ""}`,
    style: `width:${share}%;${tint}--h:${edge}`,
  });
  const who = owners.slice(0, 3).map(letter).join("+") + (owners.length > 3 ? "+…" : "");
  const texts = kind === "live" ? [W("seg.live", { who, n: length }), who] : [`${W(`seg.${kind}`)} ${length}`, String(length)]; // the number rather than the word
  const room = (share / 100) * view.stripWidth - 6;
  const wide = (text) => [...text].reduce((sum, char) => sum + (char > "\u2e80" ? 13 : 6.8), 0);
  setText(node.firstElementChild, texts.find((text) => wide(text) <= room) || "");
  const what = W(`kind.${kind === "hole" ? "external" : kind}`);
  node.title = who ? W("tip.of", { what, who, n: length }) : W("tip", { what, n: length });
}
