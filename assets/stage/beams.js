// The beam tree: one lane a hypothesis, one column a step, the token that it chose in each node.

function buildBeams(left) {
  const box = make("section", "beams", make("div", "head", make("h3"), make("span", "quiet")), make("div", "tree", make("svg:svg"), make("div", "nodes")));
  left.append(box);
  return box;
}

const LANE = 44; // units: a node and the score below it

function beamHeight(data) {
  return data.beams ? data.beams.lanes * LANE + 30 : 0;
}

function drawBeams(box, data, W, { width, height, unit }) {
  box.hidden = !data.beams;
  if (box.hidden) return;
  const [head, tree] = box.children;
  setText(head.children[0], W("beams"));
  setText(head.children[1], W("beams.sub"));
  const { first, columns, lanes, nodes, edges } = data.beams;
  const step = width / Math.max(columns, 1);
  const lane = height / lanes;
  const nodeWidth = Math.min(step * 0.77, 92 * unit);
  const spot = (column, row) => [step * column + nodeWidth / 2 + 4, lane * (row + 0.5)];
  const [drawing, boxes] = tree.children;
  setAttrs(drawing, { viewBox: `0 0 ${width} ${height}` });
  const deaths = new Set(nodes.filter((node) => node[5]).map((node) => `${node[0]}:${node[1]}`));
  each(drawing, edges, () => make("svg:path"), (path, [at, to, from]) => {
    const [x1, y1] = spot(at - 1 - first, from);
    const [x2, y2] = spot(at - first, to);
    const [a, b] = [x1 + nodeWidth / 2, x2 - nodeWidth / 2];
    setAttrs(path, { d: `M${a},${y1}C${(a + b) / 2},${y1} ${(a + b) / 2},${y2} ${b},${y2}`, class: deaths.has(`${at}:${to}`) ? "dead" : "" });
  });
  each(boxes, nodes, () => make("div", "", make("i", "badge"), make("span"), make("em")), (node, [at, row, place, label, score, died, given, over]) => {
    const [x, y] = spot(at - first, row);
    setAttrs(node, { class: `node${died ? " dead" : ""}${over ? " complete" : ""}${at === data.index ? " now" : ""}`, "data-s": place });
    Object.assign(node.style, { left: `${x - nodeWidth / 2}px`, top: `${y}px`, width: `${nodeWidth}px` });
    node.style.setProperty("--h", hue(place));
    paintBadge(node.children[0], place);
    setText(node.children[1], label >= 0 ? data.tok[label] : "");
    const told = score == null ? "" : score.toFixed(2);
    setText(node.children[2], died ? `✕ ${given ? W("gave_back", { n: given }) : ""}` : over ? `✓ ${told}` : told);
  });
}
