// Links on demand: what changed in this step, what the pointer rests on, what is selected.

const MOST_LINKS = 14;
const MOST_CHANGES = 4; // copies
const MOST_NEW = 3;

function buildLinks(sides) {
  const layer = make("svg:svg", "links");
  const defs = make("svg:defs");
  for (const name of ["dark", "accent"]) {
    const marker = make("svg:marker", name);
    const id = `tip-${name}`;
    setAttrs(marker, { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 4, markerHeight: 4, orient: "auto" });
    marker.append(make("svg:path"));
    setAttrs(marker.firstElementChild, { d: "M0,0L8,4L0,8z" });
    defs.append(marker);
  }
  layer.append(defs, make("svg:g"));
  layer.setAttribute("aria-hidden", "true");
  sides.append(layer);
  return layer;
}

/** Light up a block, or all blocks of a sequence, everywhere; nothing for null. */
function lightUp(root, focus) {
  root.querySelectorAll(".lit").forEach((node) => node.classList.remove("lit"));
  root.classList.toggle("focused", Boolean(focus));
  if (!focus) return;
  let blocks = [focus.block];
  if (focus.seq !== undefined) {
    const row = root.querySelector(`.row[data-s="${focus.seq}"]`);
    if (row) row.classList.add("lit");
    blocks = row ? [...row.querySelectorAll(".lb[data-b]")].map((node) => node.dataset.b) : [];
  }
  for (const block of blocks) {
    root.querySelectorAll(`[data-b="${block}"]`).forEach((node) => node.classList.add("lit"));
  }
}

/**
 * All links of the step and of the focus. Boxes are read first, then everything is written. Links run in the gutters
 * between rows and columns of cards, never across a text.
 */
function drawLinks({ layer, sides, data, unit, gap }, focus) {
  const frame = sides.getBoundingClientRect();
  const box = (node) => {
    const at = node.getBoundingClientRect();
    return { left: at.left - frame.left, right: at.right - frame.left, top: at.top - frame.top, bottom: at.bottom - frame.top };
  };
  const find = (selector) => sides.querySelector(selector);
  const [pool, left] = [box(find(".pool")), box(find(".left"))];
  const room = { unit, gap: gap * unit, left: left.right, right: pool.right, pool: pool.left, middle: (left.left + left.right) / 2 };
  const changed = changedEntries(data, find, sides);
  const drawn = new Set(changed.map(([entry]) => entry));
  const tables = [...changed, ...focusEntries(sides, focus).filter(([entry]) => !drawn.has(entry))];
  const links = [
    ...copyLinks(data, find, box, room),
    ...tables.map(([entry, card, kind], lane) => ({ kind, path: tableLink(entry, boxOf(entry, box), box(card), lane, tables.length, room) })),
  ];
  setAttrs(layer, { viewBox: `0 0 ${frame.width} ${frame.height}`, width: frame.width, height: frame.height });
  each(layer.lastElementChild, links, () => make("svg:path"), (path, link) => {
    setAttrs(path, { class: `link ${link.kind}`, d: link.path, "marker-end": `url(#tip-${link.kind === "copy" ? "accent" : "dark"})` });
  });
}

/** Table entries that got another block in this step. A block that several tables list has no link of its own. */
function changedEntries(data, find, sides) {
  const copies = (data.did.copy || []).slice(0, MOST_CHANGES);
  const copied = copies.length > 2 ? [] : copies.map(([, target, , place, logical]) => [find(`.lb[data-s="${place}"][data-l="${logical}"]`), target]);
  const fresh = data.did.new || [];
  const most = find(".pool.large, .pool.compact") ? MOST_NEW : 1; // links would strike out small numbers
  const listed = (fresh.length <= most ? fresh : []).map((id) => [sides.querySelectorAll(`.lb[data-b="${id}"]`), id]);
  const taken = listed.filter(([entries]) => entries.length === 1).map(([entries, id]) => [entries[0], id]);
  return [...copied, ...taken].map(([entry, id]) => [entry, find(`.card[data-b="${id}"]`), "table"]).filter(([entry, card]) => entry && card);
}

function focusEntries(sides, focus) {
  if (!focus) return [];
  const selector = focus.seq === undefined ? `.lb[data-b="${focus.block}"]` : `.lb[data-s="${focus.seq}"]`;
  return [...sides.querySelectorAll(selector)].slice(0, MOST_LINKS).flatMap((entry) => {
    const card = sides.querySelector(`.card[data-b="${entry.dataset.b}"]`);
    return card ? [[entry, card, "focus"]] : [];
  });
}

/** A logical block's slots, without the texts above and below them. */
function boxOf(entry, box) {
  return box(entry.querySelector(".slots") || entry);
}

/** A path through corner points, each corner rounded. */
function route(points, radius) {
  let path = `M${points[0].map((one) => one.toFixed(1))}`;
  for (let k = 1; k < points.length - 1; k += 1) {
    const [[x0, y0], [x, y], [x2, y2]] = [points[k - 1], points[k], points[k + 1]];
    const [before, after] = [Math.hypot(x - x0, y - y0), Math.hypot(x2 - x, y2 - y)];
    const r = Math.min(radius, before / 2, after / 2);
    if (r < 0.3) continue;
    path += `L${(x + ((x0 - x) * r) / before).toFixed(1)},${(y + ((y0 - y) * r) / before).toFixed(1)}`;
    path += `Q${x.toFixed(1)},${y.toFixed(1)} ${(x + ((x2 - x) * r) / after).toFixed(1)},${(y + ((y2 - y) * r) / after).toFixed(1)}`;
  }
  return `${path}L${points[points.length - 1].map((one) => one.toFixed(1))}`;
}

/**
 * From a logical block to its card: right at once if nothing stands to its right, else below its row; down or up in
 * the gutter between the sides, each link in its own lane; along the gutter above the card, then into it.
 */
function tableLink(entry, from, to, lane, lanes, { unit, gap, left, pool, middle }) {
  const next = entry.nextElementSibling;
  const free = (!next || next.offsetTop >= entry.offsetTop + entry.offsetHeight) && !(entry.closest(".two") && from.right < middle);
  const y = free ? (from.top + from.bottom) / 2 : from.bottom + 3 * unit;
  const start = free ? [[from.right, y]] : [[(from.left + from.right) / 2, from.bottom], [(from.left + from.right) / 2, y]];
  const apart = Math.min(5, 14 / lanes) * unit;
  const x = left + 15 * unit + apart * (lanes - lane - 1);
  if (to.left - pool < 8 * unit) {
    const goal = (to.top + to.bottom) / 2;
    return route([...start, [x, y], [x, goal], [to.left - unit, goal]], 5 * unit);
  }
  const above = to.top - gap * 0.4;
  const into = to.left + Math.min(20 * unit, (to.right - to.left) / 2);
  return route([...start, [x, y], [x, above], [into, above], [into, to.top - unit]], 4 * unit);
}

/** The copies of this step; what was copied is said in the card that it went to. */
function copyLinks(data, find, box, room) {
  const pairs = (data.did.copy || []).slice(0, MOST_CHANGES).map(([source, target]) => [find(`.card[data-b="${source}"]`), find(`.card[data-b="${target}"]`)]);
  return pairs.filter(([from, to]) => from && to).map(([from, to], number) => ({ kind: "copy", path: copyLink(box(from), box(to), number, room) }));
}

/** From card to card in the gutters: straight between neighbours, else around the cards that lie between. */
function copyLink(from, to, number, { unit, gap, right }) {
  const aside = (number % 2 ? 14 : -14) * unit * Math.min(number, 1);
  const [x1, x2] = [(from.left + from.right) / 2 + aside, (to.left + to.right) / 2 + aside];
  const bend = 4 * unit;
  const down = to.top >= from.bottom - 1;
  const level = !down && to.bottom > from.top + 1;
  if (level) {
    const [a, b] = to.left > from.left ? [from.right, to.left - unit] : [from.left, to.right + unit];
    const y = (from.top + from.bottom) / 2;
    if (Math.abs(b - a) < gap * 2) return route([[a, y], [b, y]], bend);
    const under = from.bottom + gap * 0.75;
    return route([[x1, from.bottom], [x1, under], [x2, under], [x2, to.bottom + unit]], bend);
  }
  const out = down ? from.bottom : from.top;
  const along = out + (down ? 1 : -1) * gap * 0.25;
  const near = Math.abs((down ? to.top : to.bottom) - out) < gap * 2;
  if (near) return route([[x1, out], [x1, along], [x2, along], [x2, down ? to.top - unit : to.bottom + unit]], bend);
  // Further away: beside the target's column, then into its side.
  const beside = from.left > to.left + 1 || (from.left > to.left - 1 && to.right + gap < right) ? to.right + gap / 2 : to.left - gap / 2;
  const goal = (to.top + to.bottom) / 2;
  return route([[x1, out], [x1, along], [beside, along], [beside, goal], [beside > to.right ? to.right + unit : to.left - unit, goal]], bend);
}

/** A copy moves once, from source to target, in under half a second; not where motion is unwelcome. */
function animateCopies(sides, data) {
  if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const [source, target] of (data.did.copy || []).slice(0, MOST_CHANGES)) {
    const from = sides.querySelector(`.card[data-b="${source}"] .slots`);
    const to = sides.querySelector(`.card[data-b="${target}"] .slots`);
    if (!from || !to) continue;
    const [a, b, frame] = [from, to, sides].map((node) => node.getBoundingClientRect());
    const twin = from.cloneNode(true);
    twin.classList.add("twin");
    Object.assign(twin.style, { left: `${a.left - frame.left}px`, top: `${a.top - frame.top}px`, width: `${a.width}px`, height: `${a.height}px` });
    sides.append(twin);
    const move = `translate(${b.left - a.left}px, ${b.top - a.top}px)`;
    const motion = twin.animate([{ transform: "none", opacity: 0.9 }, { transform: move, opacity: 0.9 }], { duration: 420, easing: "ease-in-out" });
    motion.onfinish = motion.oncancel = () => twin.remove();
  }
}
