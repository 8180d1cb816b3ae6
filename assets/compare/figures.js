// The same in numbers, and over time: a table and step lines, one colour a strategy.

// Fixed to the strategy, so that ticking one more recolours nothing; the dash tells close hues apart.
const LINES = {
  "no cache": ["#8a8f98", "2 3"],
  "grow by one": ["#a6761d", "6 3"],
  "reserve max": ["#cc79a7", ""],
  "reserve power of two": ["#d55e00", "7 3"],
  exact: ["#e69f00", ""],
  doubling: ["#7b61c4", "7 3 2 3"],
  "promised pages": ["#009e73", ""],
  "paged without sharing": ["#56b4e9", "7 3"],
  paged: ["#0072b2", ""],
};
const COLUMNS = ["running", "most", "waited", "live", "reserved", "internal", "external", "free", "copied", "recomputed", "mean", "steps"];
const SERIES = ["taken", "live", "running"];

function lineColour(name) {
  return `color-mix(in srgb, ${(LINES[name] || LINES.paged)[0]} 82%, var(--ink))`;
}

function buildFigures(root, view) {
  const table = make("table", "numbers");
  table.createTHead().insertRow();
  table.append(make("tbody"));
  const choose = make("div", "series");
  choose.setAttribute("role", "radiogroup");
  const plot = make("div", "plotbox", make("svg:svg"), make("span", "top"), make("span", "zero"));
  const left = make("section", "", make("div", "head", make("h3"), make("span", "quiet")), table);
  const right = make("section", "", make("div", "head", make("h3"), choose), plot);
  root.append(make("div", "lower", left, right));
  root.addEventListener("pointerover", (event) => {
    const name = event.target.closest?.("[data-name]")?.dataset.name || null;
    if (name === view.hover) return;
    view.hover = name;
    lightUp(view);
  });
  return { left, right, table, choose, plot };
}

function lightUp(view) {
  for (const node of view.root.querySelectorAll("[data-name]")) {
    node.classList.toggle("lit", node.dataset.name === view.hover);
  }
}

function drawTable(view, W) {
  const { figures, data } = view;
  const { table, left } = figures;
  setText(left.firstElementChild.children[0], W("table"));
  setText(left.firstElementChild.children[1], W(data.hindsight ? "table.hindsight" : "table.now"));
  each(table.tHead.rows[0], ["strategy", ...COLUMNS], () => make("th"), (node, name) => {
    setText(node, W(`col.${name}`));
    setAttrs(node, { title: name === "strategy" ? null : W(`help.${name}`), scope: "col" });
  });
  const create = () => make("tr", "", make("th", "", make("i"), make("span")), ...COLUMNS.map(() => make("td")));
  const best = bestOf(data.rows);
  eachByKey(table.tBodies[0], data.rows, (row) => row.name, create, (line, row) => {
    line.dataset.name = row.name;
    const [first, ...cells] = line.children;
    setAttrs(first, { scope: "row" });
    setStyle(first.firstElementChild, "background", lineColour(row.name));
    setText(first.lastElementChild, row.label);
    const values = valuesOf(row, data, W);
    cells.forEach((cell, place) => {
      setText(cell, values[COLUMNS[place]]);
      cell.classList.toggle("best", best[COLUMNS[place]]?.has(row.name) || false);
      cell.classList.toggle("zero", values[COLUMNS[place]] === 0);
    });
  });
}

function valuesOf(row, data, W) {
  const { now, so_far: past, whole } = row;
  const mb = (now.copied * data.bytes) / 1e6;
  const megabytes = mb >= 100 ? mb.toFixed(0) : mb >= 0.95 ? mb.toFixed(1) : mb.toPrecision(2);
  return {
    running: now.running, most: past.most, waited: past.waited, live: now.live, reserved: now.reserved,
    internal: now.internal, external: now.external, free: now.free + now.cached,
    copied: now.copied && data.bytes ? W("mb", { n: now.copied, mb: megabytes }) : now.copied,
    recomputed: past.recomputed, mean: whole.mean.toFixed(2), steps: whole.steps - 1,
  };
}

/** Who is best by the figures of the whole run; nobody where all are equal. */
function bestOf(rows) {
  const racing = rows.filter((row) => row.name !== "no cache");
  const pick = (of, better) => {
    const values = racing.map(of);
    const goal = better(...values);
    return new Set(values.every((value) => value === goal) ? [] : racing.filter((row) => of(row) === goal).map((row) => row.name));
  };
  return racing.length < 2 ? {} : { mean: pick((row) => row.whole.mean, Math.max), steps: pick((row) => row.whole.steps, Math.min) };
}

function drawChart(view, W, [width, height]) {
  const { figures, data, unit } = view;
  const { right, choose, plot } = figures;
  const [drawing, top, zero] = plot.children;
  setText(right.firstElementChild.children[0], W("chart"));
  each(choose, SERIES, () => make("button", "", make("span")), (node, name) => {
    node.type = "button";
    setText(node.firstElementChild, W(`chart.${name}`));
    setAttrs(node, { role: "radio", "aria-checked": String(view.series === name) });
    node.onclick = () => {
      view.series = name;
      draw(view);
    };
  });
  const highest = Math.max(...data.rows.flatMap((row) => row.lines[view.series].map(([, value]) => value)), 1);
  const most = view.series === "running" ? highest : data.slots;
  setText(top, most);
  setText(zero, 0);
  const x = (step) => ((width - 2) * step) / (data.last + 1);
  const y = (value) => height - 2 - ((height - 6) * value) / most;
  const lines = data.rows.map((row) => {
    let path = "";
    for (const [step, value] of row.lines[view.series]) {
      path += path ? `H${x(step).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(step).toFixed(1)},${y(value).toFixed(1)}`;
    }
    return { row, path: `${path}H${x(data.last + 1).toFixed(1)}` };
  });
  setAttrs(drawing, { viewBox: `0 0 ${width} ${height}`, role: "img" });
  setAttrs(drawing, { "aria-label": `${W(`chart.${view.series}`)}: ${data.rows.map((row) => `${row.label} ${valueAt(row.lines[view.series], data.index)}`).join("; ")}` });
  const cursor = x(data.index + 0.5).toFixed(1);
  const frame = [
    { d: `M0,${y(0)}H${width}`, class: "base" },
    { d: `M0,${y(most)}H${width}`, class: "cap" },
    { d: `M${cursor},0V${height}`, class: "cursor" },
  ];
  const curves = lines.map(({ row, path }) => ({
    d: path, class: row.name === "paged" ? "curve paged" : "curve", "data-name": row.name,
    style: `stroke:${lineColour(row.name)}`, "stroke-dasharray": scaled(LINES[row.name]?.[1], unit),
  }));
  each(drawing, [...frame, ...curves], () => make("svg:path", "", make("svg:title")), (node, attrs, place) => {
    setAttrs(node, { style: null, "data-name": null, "stroke-dasharray": null, ...attrs });
    const row = data.rows[place - frame.length];
    setText(node.firstElementChild, row ? `${row.label}: ${valueAt(row.lines[view.series], data.index)}` : "");
  });
  drawing.onclick = (event) => {
    const box = drawing.getBoundingClientRect();
    const step = Math.floor(((event.clientX - box.left) / box.width) * (data.last + 1));
    view.send("goto", Math.min(Math.max(step, 0), data.last));
  };
}

function scaled(dash, unit) {
  return dash ? dash.split(" ").map((length) => (length * unit).toFixed(1)).join(" ") : null;
}

/** A step line's value at a step. */
function valueAt(line, step) {
  let value = 0;
  for (const [at, now] of line) {
    if (at <= step) value = now;
  }
  return value;
}
