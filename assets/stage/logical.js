// Left: what each sequence sees. Logical blocks in order, tokens in their slots, the physical number below.

// From roomy to dense; the first that fits is taken. `open`: how many of a sequence's last blocks show their tokens.
// In units: `meta` left of the blocks (letter, counts, state), `closed` a block that shows its number only.
const ROW_LEVELS = [
  { name: "wide", meta: 104, closed: 34, open: 99, slot: 35, line: 36, head: 17, foot: 22, gap: 16, apart: 10 },
  { name: "wide", meta: 104, closed: 34, open: 99, slot: 35, line: 28, head: 16, foot: 20, gap: 12, apart: 10 },
  { name: "mid", meta: 104, closed: 34, open: 99, slot: 34, line: 24, head: 0, foot: 19, gap: 8, apart: 8 },
  { name: "mid", meta: 104, closed: 34, open: 3, slot: 34, line: 24, head: 0, foot: 19, gap: 8, apart: 8 },
  { name: "mid", meta: 104, closed: 34, open: 1, slot: 34, line: 24, head: 0, foot: 19, gap: 8, apart: 8 },
  { name: "short", meta: 104, closed: 34, open: 0, slot: 0, line: 24, head: 0, foot: 0, gap: 6, apart: 6 },
  { name: "dense", meta: 104, closed: 30, open: 0, slot: 0, line: 17, head: 0, foot: 0, gap: 1, apart: 4 },
];
const DENSE_META = 84; // of the densest level in two columns
const WIDEST = 1.4; // how much wider slots get where a line has room
const GHOST = 28; // units kept free at the end of a line for the token that is chosen and not yet written
const COUNTED = 92; // units of a block too large to show its tokens: number and count
const DENSE = 18; // units of a row's height at the densest level, at least
const LARGER = [1.6, 1.45, 1.3, 1.15]; // lecture mode draws a lesson's sides this much larger where there is room
const FRESH = 52; // per cent of tint in a slot written in this step
const SLOTS_A_LINE = 8;
const MAX_OPEN_SIZE = 32; // larger blocks show how full they are, not their tokens

/** Tokens of every row: own ones, and the prefix that it has in common with an earlier row. */
function unpackTokens(seqs, table) {
  const all = [];
  for (const row of seqs) {
    const shared = row.like === undefined ? [] : all[row.like].slice(0, row.same);
    all.push([...shared.length ? shared : new Array(row.t0).fill(null), ...row.t.map((i) => table[i])]);
  }
  return all;
}

function blockWidth(level, size, open) {
  if (!open) return level.closed;
  if (size > MAX_OPEN_SIZE) return COUNTED;
  return Math.max(Math.min(size, SLOTS_A_LINE) * level.slot, level.closed);
}

/** Lines that a sequence's blocks take at a level. */
function rowHeight(row, level, size, room) {
  let lines = 1;
  let used = 0;
  row.b.forEach((_, logical) => {
    const width = blockWidth(level, size, isOpen(row, logical, level)) + level.apart;
    if (used + width - level.apart > room && used > 0) {
      lines += 1;
      used = 0;
    }
    used += width;
  });
  const slotLines = level.open && size <= MAX_OPEN_SIZE ? Math.ceil(size / SLOTS_A_LINE) : 1;
  const least = level.name === "dense" ? 18 : level.name === "short" ? 48 : 50;
  return Math.max(lines * (level.head + level.line * slotLines + level.foot + 4), least) + level.gap;
}

/** Tokens written into a logical block. */
function filledOf(row, logical, size) {
  return Math.min(Math.max(row.w - logical * size, 0), size);
}

function isOpen(row, logical, level) {
  return logical >= row.b.length - level.open;
}

function chooseRows(data, width, height) {
  for (const level of ROW_LEVELS) {
    const total = (one) => data.seqs.reduce((sum, row) => sum + rowHeight(row, one, data.size, width - one.meta), 0);
    if (total(level) > height) continue;
    if (level.open > 90) return { ...level, ...widened(level, data.size, width - level.meta) };
    const wider = { ...level, slot: level.slot * 1.2 };
    return total(wider) <= height ? wider : { ...level };
  }
  return { ...ROW_LEVELS[ROW_LEVELS.length - 1] };
}

/** Slots as wide as they can be with as many blocks on a line, and what of the line is left for a ghost. */
function widened(level, size, room) {
  if (size > MAX_OPEN_SIZE) return {};
  const slots = Math.min(size, SLOTS_A_LINE);
  const perLine = Math.floor((room + level.apart) / (blockWidth(level, size, true) + level.apart));
  if (!perLine) return {};
  const most = (room - GHOST + level.apart) / perLine - level.apart;
  const slot = Math.max(Math.min(most / slots, level.slot * WIDEST), level.slot);
  return { slot, ghosts: room - perLine * (slots * slot + level.apart), onLine: perLine };
}

/** How much larger the rows may be: so that the run's most blocks still fit, open, and nothing changes size on the way. */
function largerRows(data, { width, height }) {
  if (!data.most?.length || data.size > MAX_OPEN_SIZE) return 1;
  const [level] = ROW_LEVELS;
  const rows = data.most.map((count) => ({ b: Array.from({ length: count }, (_, logical) => logical) }));
  return LARGER.find((by) => {
    const room = width / by - level.meta;
    const total = rows.reduce((sum, row) => sum + rowHeight(row, level, data.size, room), 0);
    return blockWidth(level, data.size, true) + GHOST <= room && total <= height / by;
  }) || 1;
}

function buildLogical(root) {
  const side = {
    box: make("section", "side left"),
    title: make("h3"),
    sub: make("span", "quiet"),
    rows: make("div", "rows"),
    over: make("p", "over"),
  };
  side.box.append(make("div", "head", side.title, side.sub), side.rows, side.over);
  root.append(side.box);
  return side;
}

function drawLogical(side, data, W, sizes) {
  const by = sizes.narrow ? 1 : largerRows(data, sizes);
  const room = { width: sizes.width / by, height: sizes.height / by };
  setStyle(side.rows, "--u", by > 1 ? `${(sizes.unit * by).toFixed(4)}px` : "");
  setText(side.title, W("logical"));
  setText(side.sub, W("logical.sub"));
  const columns = data.seqs.length * DENSE > room.height ? 2 : 1;
  const level = chooseRows(data, room.width / columns, room.height * columns);
  if (columns > 1 && level.name === "dense") level.meta = DENSE_META;
  const fits = Math.max(Math.floor(room.height / DENSE), 4) * columns;
  const shown = level.name === "dense" ? data.seqs.slice(0, fits) : data.seqs;
  const tokens = unpackTokens(data.seqs, data.tok);
  setAttrs(side.rows, { class: `rows ${level.name}${columns > 1 ? " two" : ""}` });
  const rowHeight = Math.min((room.height * columns) / Math.max(shown.length, 1), 25);
  setStyle(side.rows, "--line", level.line);
  setStyle(side.rows, "--row", Math.max(rowHeight, DENSE).toFixed(2));
  const wrote = writtenSlots(data);
  const taken = new Set([...(data.did.new || []), ...(data.did.in || []).map(([, block]) => block)]);
  eachByKey(side.rows, shown, (row) => row.id, makeRow, (node, row, place) => {
    const perLine = Math.floor((room.width / columns - level.meta) / (level.closed + level.apart));
    drawRow(node, row, tokens[place], { data, W, level, wrote, taken, perLine, columns });
  });
  drawOver(side, data, W, data.seqs.length - shown.length);
}

/** Slots that got their token in this step, as "block:slot". A whole prompt at once does not shout. */
function writtenSlots(data) {
  const writes = (data.did.write || []).filter(([, , count]) => count === 1);
  return new Set(writes.map(([block, offset]) => `${block}:${offset}`));
}

function drawOver(side, data, W, cut) {
  const parts = [];
  if (!data.seqs.length && !data.queue) parts.push(W("nothing"));
  if (data.more + cut > 0) parts.push(W("more_sequences", { n: data.more + cut }));
  if (data.queue) parts.push(W("queue", { n: data.queue }));
  if (data.over.length) parts.push(`${W("finished")}: ${data.over.join(" ")}`);
  setText(side.over, parts.join(" · "));
  side.over.hidden = !parts.length;
}

function makeRow() {
  const meta = make("div", "meta", make("b", "badge"), make("div", "counts", make("span"), make("span"), make("span")));
  return make("div", "row", meta, make("div", "blocks"));
}

function drawRow(node, row, tokens, how) {
  const { W } = how;
  const [badge, counts] = node.firstElementChild.children;
  paintBadge(badge, row.p);
  setStyle(node, "--h", hue(row.p));
  node.dataset.s = row.p;
  const state = W(`state.${row.state}`);
  const full = W("tokens", { n: row.n });
  const written = W("written", { n: row.w });
  const short = how.level.name === "dense";
  const both = how.columns > 1 ? `${row.w}/${row.n}` : W("written_of", { w: row.w, n: row.n });
  setText(counts.children[0], short ? both : full);
  setText(counts.children[1], short || row.state === "finished" ? "" : written);
  setText(counts.children[2], short && row.state === "running" ? "" : state);
  node.firstElementChild.title = `${row.id}: ${full}, ${written}, ${state}`;
  node.classList.toggle("off", row.state !== "running");
  node.classList.toggle("news", Boolean(row.new || row.changed));
  drawRowBlocks(node.lastElementChild, row, tokens, how);
}

/** The blocks of a row; where there is no room the middle ones give way to "n more". */
function drawRowBlocks(box, row, tokens, how) {
  const { data, W, level } = how;
  let items = row.b.map((physical, logical) => ({ physical, logical }));
  if (level.name === "dense" && items.length > how.perLine) {
    const tail = Math.max(how.perLine - 2, 1);
    const hidden = items.length - tail - 1;
    items = [items[0], { more: hidden }, ...items.slice(-tail)];
  }
  const ghost = row.state === "running" && row.n > row.w ? tokens[row.w] : null;
  const atEdge = ghost != null && row.w % data.size === 0;
  if (level.open && atEdge) items.push({ ghost });
  if (!items.length) items.push({ words: tokens.map((token) => token ?? "…").join("").replaceAll("\u2009", " ") });
  each(box, items, () => make("div"), (node, item) => {
    if (item.physical !== undefined) return drawBlock(node, row, item, tokens, ghost, how);
    clearBlock(node);
    const kind = item.more ? "more" : item.ghost ? "ghost" : "words";
    setAttrs(node, { class: `lb ${kind}` });
    node.title = item.ghost ? W("not_written") : "";
    const text = item.more ? `+${item.more}` : (item.ghost ?? item.words);
    each(node, [text], () => make("span"), (span, value) => {
      setAttrs(span, { class: "", style: null });
      setText(span, value);
      if (item.ghost) squeeze(span, value, ghostRoom(row, level));
    });
  });
}

/** Units for a ghost behind a row's last block: what the line has left, and a little of the gutter. */
function ghostRoom(row, level) {
  const atEnd = level.onLine && row.b.length % level.onLine === 0;
  return atEnd ? Math.max(level.ghosts + 5, 24) : 56;
}

/** Units that a text takes at the size of a slot's text, near enough. */
function widthOf(text) {
  let sum = 0;
  for (const char of text) sum += char > "\u2e80" ? 12.6 : char === "\u2009" ? 2.6 : "iljtf.,:;'!|()[] ".includes(char) ? 3.6 : "mwMW".includes(char) ? 10 : char < "a" ? 7.4 : 6.5;
  return sum;
}

const NARROWEST = 0.66; // a text is set this much narrower rather than cut; beyond that it ends in an ellipsis

function squeeze(node, text, room, scale = 1) {
  const part = text ? room / (widthOf(text) * scale) : 1;
  const narrow = part < 1 ? Math.max(part, NARROWEST) : 1;
  setStyle(node, "transform", narrow < 1 ? `scaleX(${narrow.toFixed(2)})` : "none");
  setStyle(node, "max-width", part < NARROWEST ? `calc(var(--u) * ${(room / narrow).toFixed(1)})` : "none");
}

function clearBlock(node) {
  node.signature = "";
  setAttrs(node, { "data-b": null, "data-l": null, "data-s": null, style: null });
}

function drawBlock(node, row, item, tokens, ghost, how) {
  const { data, W, level } = how;
  const { physical } = item;
  const filled = filledOf(row, item.logical, data.size);
  const was = row.was?.[item.logical] ?? -1;
  const open = isOpen(row, item.logical, level) && data.size <= MAX_OPEN_SIZE;
  const isNew = was >= 0 || how.taken.has(physical);
  const counted = !open && level.open > 0 && data.size > MAX_OPEN_SIZE;
  const first = item.logical * data.size;
  const shown = open ? tokens.slice(first, first + data.size) : [];
  const fresh = Array.from({ length: open ? filled : 0 }, (_, offset) => offset).filter((offset) => how.wrote.has(`${physical}:${offset}`));
  const next = ghost != null && row.w >= first && row.w < first + data.size ? row.w - first : -1;
  const signature = JSON.stringify([level.name, level.slot, data.lang, row.p, item.logical, physical, filled, was, isNew, open, shown, fresh, next]);
  if (node.signature === signature) return;
  node.signature = signature;
  setAttrs(node, { class: `lb${open ? " open" : " closed"}${counted ? " counted" : ""}${isNew ? " news" : ""}`, style: null });
  setAttrs(node, { "data-b": physical, "data-s": row.p, "data-l": item.logical });
  node.title = `${W("block", { l: item.logical })} ↓ ${physical} · ${filled}/${data.size}`;
  const parts = open
    ? [["span", "lhead"], ["div", "slots"], ["span", "down"], ["span", "was"]]
    : [["span", "fill"], ["span", "down"], ["span", "was"]];
  each(node, parts, ([tag, name]) => make(tag, name), () => {});
  if (node.firstElementChild.className !== parts[0][1]) node.replaceChildren(...parts.map(([tag, name]) => make(tag, name)));
  setText(node.children[node.childElementCount - 2], open ? `↓ ${physical}` : counted ? `↓ ${physical} · ${filled}/${data.size}` : physical);
  setText(node.lastElementChild, was >= 0 && level.name !== "dense" ? W("was", { b: was }) : "");
  if (!open) {
    setAttrs(node.firstElementChild, { style: `width:${(100 * filled) / data.size}%` });
    return;
  }
  setText(node.firstElementChild, W("block", { l: item.logical }));
  drawSlots(node.children[1], data.size, level, [level.slot - 2, 1], (offset) => {
    const text = shown[offset];
    if (offset < filled) return { text, tint: tintOf([row.p], fresh.includes(offset) ? FRESH : 20), fresh: fresh.includes(offset) };
    return offset === next ? { text: ghost, ghost: true, title: W("not_written") } : { text: "" };
  });
}

/** The slots of a block (`room`: units for a text in each, and its scale): full ones tinted, empty ones hatched, the chosen but unwritten token as a ghost. */
function drawSlots(box, size, level, [room, scale], at) {
  const perLine = Math.min(size, SLOTS_A_LINE);
  setStyle(box, "--n", perLine);
  if (level) setStyle(box, "--w", Math.max(perLine * level.slot, level.closed));
  const offsets = Array.from({ length: size }, (_, offset) => offset);
  each(box, offsets, () => make("span", "", make("i")), (slot, offset) => {
    const { text, tint, fresh, ghost, title } = at(offset);
    setAttrs(slot, { class: `slot${tint ? "" : " empty"}${fresh ? " fresh" : ""}${ghost ? " ghost" : ""}` });
    setAttrs(slot, { style: tint ? `background:${tint}` : null, title: ghost ? title : text ? text : null });
    setText(slot.firstElementChild, text);
    squeeze(slot.firstElementChild, text, room, fresh ? scale * 1.06 : scale); // a bold text is wider
  });
}
