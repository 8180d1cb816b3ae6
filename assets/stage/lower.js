// Below: the same requests in contiguous memory, slot for slot, and memory over time.

function buildLower(root) {
  const lower = {
    strips: make("section", "strips", make("div", "head", make("h3"), make("span", "quiet")), make("div", "striprows")),
    chart: make("section", "chart", make("div", "head", make("h3"), make("span", "quiet")), make("div", "plot", make("span", "axis"), make("svg:svg"), make("div", "legend"))),
  };
  root.append(lower.strips, lower.chart);
  return lower;
}

function drawStrips(box, data, W) {
  const [head, rows] = box.children;
  box.hidden = !data.strips.length;
  setText(head.children[0], W("strips"));
  setText(head.children[1], W("strips.sub", { slots: data.all * data.size, blocks: data.all }));
  const all = data.all * data.size;
  eachByKey(rows, data.strips, (row) => row.name, () => make("div", "striprow", make("b"), make("div", "strip"), make("div", "verdict", make("b"), make("span"))), (node, row) => {
    const [label, strip, verdict] = node.children;
    setText(label, row.label);
    setText(verdict.children[0], row.useful == null ? W("nothing_taken") : W("useful", { n: row.useful }));
    setText(verdict.children[1], row.note);
    each(strip, row.segs, () => make("span", "", make("i")), (segment, [kind, length, owners]) => {
      const share = (100 * length) / all;
      setAttrs(segment, { class: `seg ${kind}` });
      const tint = kind === "live" ? `background:${tintOf(owners, FRESH)};` : "";
      setAttrs(segment, { style: `width:${share}%;${tint}--h:${owners.length ? hue(owners[0]) : "var(--line)"}` });
      const text = segmentText(kind, length, owners, share, W);
      setText(segment.firstElementChild, text.short);
      segment.title = text.full;
    });
  });
}

/** What a segment says: as much as its width has room for (about seven units a character). */
function segmentText(kind, length, owners, share, W) {
  const who = owners.slice(0, 3).map(letter).join("+") + (owners.length > 3 ? "+…" : "");
  const words = {
    live: [owners.length > 1 ? W("seg.shared", { who }) : W("seg.live", { who, n: length }), who],
    empty: [W("seg.empty", { who }), W("seg.empty.short")],
    free: [W("seg.free")],
    hole: [W("seg.hole")],
    cached: [W("seg.cached")],
  }[kind];
  const room = share * 8.6;
  const wide = (text) => [...text].reduce((sum, char) => sum + (char > "\u2e80" ? 13 : 7), 10);
  return { short: words.find((text) => wide(text) <= room) || "", full: `${words[0]} (${length})` };
}

function drawChart(box, data, W, { width, height }) {
  const [head, plot] = box.children;
  const [axis, drawing, legend] = plot.children;
  box.hidden = !data.chart || !data.chart.lines.length;
  if (box.hidden) return;
  setText(head.children[0], W("chart"));
  setText(head.children[1], W("chart.sub"));
  setText(axis, `${data.chart.cap} ${W("pool")}`);
  const top = 4;
  // Step k holds from k to k + 1, so that the last one has a width too.
  const x = (step) => 2 + ((width - 4) * step) / (data.last + 1);
  const y = (slots) => height - 3 - ((height - 3 - top) * slots) / Math.max(data.chart.cap, 1);
  const lines = data.chart.lines.map((line, place) => {
    let path = "";
    for (const [step, slots] of line.at) {
      path += path ? `H${x(step).toFixed(1)}V${y(slots).toFixed(1)}` : `M${x(step).toFixed(1)},${y(slots).toFixed(1)}`;
    }
    const paged = line.name === "paged";
    return { ...line, path: `${path}H${x((data.known ?? data.last) + 1).toFixed(1)}`, colour: paged ? "var(--paged)" : `var(--line${place % 3})`, paged };
  });
  setAttrs(drawing, { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img" });
  setAttrs(drawing, { "aria-label": lines.map((line) => `${line.label}: ${valueAt(line, data.index)}`).join("; ") });
  const cursor = x(data.index + 0.5).toFixed(1);
  const paths = [
    { d: `M0,${y(0)}H${width}`, class: "base" },
    { d: `M0,${y(data.chart.cap)}H${width}`, class: "cap" },
    ...lines.map((line) => ({ d: line.path, class: line.paged ? "curve paged" : "curve", style: `stroke:${line.colour}` })),
    { d: `M${cursor},${top - 3}V${height}`, class: "cursor" },
  ];
  each(drawing, paths, () => make("svg:path"), (node, attrs) => setAttrs(node, { style: null, ...attrs }));
  each(legend, lines, () => make("div", "", make("i"), make("span"), make("b")), (node, line) => {
    setStyle(node, "--c", line.colour);
    setText(node.children[1], line.label);
    setText(node.children[2], valueAt(line, data.index));
  });
}

/** A step line's value at a step. */
function valueAt(line, step) {
  let value = 0;
  for (const [at, slots] of line.at) {
    if (at <= step) value = slots;
  }
  return value;
}
