// Drawing as a whole: the unit, the room for each part, then all parts.

const HEAD = 28; // units of the heading above each side
const RING = 5; // units around the pool in which rings have room; see .pool in the style sheet
const PLOT = 74; // units of the chart's height, at least

/**
 * Draw everything. The order matters for speed: sizes are read in two places only (here and in `measure`), each
 * before anything is written that would make the browser lay the page out anew.
 */
function draw(stage) {
  const { root, data } = stage;
  const W = wordsOf(data.lang);
  const width = root.clientWidth || 1300;
  stage.narrow = width < 760;
  const unit = Math.min(Math.max(width / (data.calm && !data.strips.length ? 1060 : data.lecture ? 1250 : 1320), stage.narrow ? 1 : 0.8), 2);
  const key = [unit.toFixed(4), isDark(root), stage.narrow, data.lecture, data.calm && !data.strips.length, data.lang].join();
  if (key !== stage.look) {
    stage.look = key;
    stage.unit = unit;
    root.style.setProperty("--u", `${unit.toFixed(4)}px`);
    root.style.setProperty("--k", isDark(root) ? 1.6 : 1);
    root.lang = data.lang === "zh" ? "zh-CN" : "en";
    root.classList.toggle("narrow", stage.narrow);
    root.classList.toggle("lecture", data.lecture);
  }
  root.classList.toggle("busy", data.busy);
  drawTop(stage.top, data, W, stage);
  drawStrips(stage.lower.strips, data, W);
  stage.lower.chart.hidden = !data.chart;
  drawSides(stage, W, measure(stage));
  drawLesson(stage);
  // A step that shares changes many blocks at once: then only counts and table entries shout.
  root.classList.toggle("softly", Boolean(data.here.includes("share") && !data.did.copy));
  root.dataset.step = data.index;
  cancelAnimationFrame(stage.linkFrame);
  stage.linkFrame = requestAnimationFrame(() => refocus(stage));
  clearTimeout(stage.tableTimer);
  stage.tableTimer = setTimeout(() => drawTable(stage.heard, stage.data, wordsOf(stage.data.lang)), 60);
}

/** All sizes that drawing needs, in one go. */
function measure(stage) {
  const { root, sides, unit, top, left, right, lower } = stage;
  const above = Math.min(Math.max(root.getBoundingClientRect().top, 0), 200);
  let others = 20 * unit; // margins of the parts, and a little air below
  for (const part of root.children) {
    if (part !== sides && part !== stage.heard && part !== lower.chart) others += part.offsetHeight;
  }
  if (stage.data.chart) others += (PLOT + 24) * unit;
  return {
    height: stage.narrow ? 420 * unit : Math.max(window.innerHeight - above - others - 14, 230 * unit),
    line: [top.line.clientWidth || 300, top.line.clientHeight || 30],
    rows: left.box.clientWidth / unit,
    pool: right.pool.clientWidth / unit - 2 * RING * (stage.memory.by || 1),
    plot: lower.chart.querySelector("svg").clientWidth || 600,
    tree: stage.beams.clientWidth,
  };
}

/** The two sides in the room that is left, the time line, the chart. */
function drawSides(stage, W, sizes) {
  const { data, unit } = stage;
  const full = sizes.height / unit - HEAD;
  // A small pool needs less than there is: the chart of memory over time gets the rest, up to twice its height.
  const spare = stage.narrow || !data.chart ? 0 : Math.min(Math.max(full - poolHeight(data, sizes.pool, full), 0), PLOT);
  const tall = full - spare;
  const tree = Math.min(beamHeight(data), tall * 0.55);
  setStyle(stage.lower.chart, "--plot", (PLOT + spare).toFixed(1));
  setStyle(stage.beams, "--tree", tree.toFixed(1));
  setStyle(stage.sides, "height", stage.narrow ? "auto" : `${(sizes.height - spare * unit).toFixed(1)}px`);
  drawLine(stage.top, data, W, stage, sizes.line);
  const below = data.over.length || data.queue || data.more ? 20 : 0;
  drawLogical(stage.left, data, W, { width: sizes.rows, height: tall - tree - below, unit, narrow: stage.narrow });
  drawBeams(stage.beams, data, W, { width: sizes.tree, height: (tree - 26) * unit, unit });
  stage.gap = drawPhysical(stage.right, data, W, { width: sizes.pool, height: tall - 6, unit, narrow: stage.narrow }, stage.memory);
  drawChart(stage.lower.chart, data, W, { width: sizes.plot, height: (PLOT + spare) * unit });
}

/** Units of height that the two sides want; it depends on the pool only, so that nothing moves from step to step. */
function poolHeight(data, width, most) {
  const { columns, tall, gap } = chooseCards(data, width, most);
  const rows = Math.ceil(data.pool / columns);
  return Math.max(rows * (tall + gap) + 6, 250 + (data.beams ? 60 : 0));
}

function refocus(stage) {
  const focus = stage.hover || stage.selected;
  lightUp(stage.root, focus);
  stage.layer.toggleAttribute("hidden", stage.narrow);
  if (!stage.narrow) drawLinks(stage, focus);
}
