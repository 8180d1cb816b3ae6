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
    setAttrs(marker, { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" });
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

function drawLinks(layer, sides, data, W, focus) {
  const frame = sides.getBoundingClientRect();
  setAttrs(layer, { viewBox: `0 0 ${frame.width} ${frame.height}`, width: frame.width, height: frame.height });
  const box = (node) => {
    const at = node.getBoundingClientRect();
    return { left: at.left - frame.left, right: at.right - frame.left, top: at.top - frame.top, bottom: at.bottom - frame.top };
  };
  const find = (selector) => sides.querySelector(selector);
  const links = [...changeLinks(data, find, box, W), ...focusLinks(sides, focus, find, box)];
  each(layer.lastElementChild, links, () => make("svg:g", "", make("svg:path"), make("svg:text")), (node, link) => {
    setAttrs(node, { class: `link ${link.kind}` });
    setAttrs(node.firstElementChild, { d: link.path, "marker-end": `url(#tip-${link.kind === "copy" ? "accent" : "dark"})` });
    setText(node.lastElementChild, link.label || "");
    if (link.label) setAttrs(node.lastElementChild, { x: link.x, y: link.y, "text-anchor": link.anchor });
  });
}

/** The copies of this step with what moved, and the table entry that changed with each. */
function changeLinks(data, find, box, W) {
  const links = [];
  const copies = (data.did.copy || []).slice(0, MOST_CHANGES);
  const edge = box(find(".pool")).right;
  const rowsEdge = box(find(".left")).right;
  for (const [number, [source, target, tokens, place, logical]] of copies.entries()) {
    const from = find(`.card[data-b="${source}"]`);
    const to = find(`.card[data-b="${target}"]`);
    if (from && to) links.push(copyLink(box(from), box(to), number && copies.length > 2 ? "" : W("copied", { n: tokens }), edge, 12 * number));
    const entry = find(`.lb[data-s="${place}"][data-l="${logical}"]`);
    if (entry && to && copies.length <= 2) links.push(tableLink(entry, boxOf(entry, box), box(to), rowsEdge));
  }
  const fresh = data.did.new || [];
  const most = find(".pool.large, .pool.compact") ? MOST_NEW : 1; // links would strike out small numbers
  if (fresh.length <= most) {
    for (const id of fresh) {
      const entry = find(`.lb[data-b="${id}"]`);
      const to = find(`.card[data-b="${id}"]`);
      if (entry && to) links.push(tableLink(entry, boxOf(entry, box), box(to), rowsEdge));
    }
  }
  return links;
}

function focusLinks(sides, focus, find, box) {
  if (!focus) return [];
  const selector = focus.seq === undefined ? `.lb[data-b="${focus.block}"]` : `.lb[data-s="${focus.seq}"]`;
  const rowsEdge = box(find(".left")).right;
  return [...sides.querySelectorAll(selector)].slice(0, MOST_LINKS).flatMap((entry) => {
    const to = find(`.card[data-b="${entry.dataset.b}"]`);
    return to ? [{ ...tableLink(entry, boxOf(entry, box), box(to), rowsEdge), kind: "focus" }] : [];
  });
}

/** A logical block's slots, without the texts above and below them. */
function boxOf(entry, box) {
  return box(entry.querySelector(".slots") || entry);
}

/** From a logical block to the left edge of its card; along its row first, under what stands to its right. */
function tableLink(entry, from, to, edge) {
  const last = !entry.nextElementSibling || entry.nextElementSibling.offsetTop >= entry.offsetTop + entry.offsetHeight;
  const y = last ? (from.top + from.bottom) / 2 : from.bottom + 1;
  const start = last ? `M${from.right},${y}` : `M${(from.left + from.right) / 2},${from.bottom}V${y}`;
  const goal = (to.top + to.bottom) / 2;
  const bend = Math.min(Math.max((to.left - edge) / 2, 10), 90);
  return { kind: "table", path: `${start}H${edge}C${edge + bend},${y} ${to.left - bend},${goal} ${to.left - 2},${goal}` };
}

/** From card to card, around what lies between: down or up first, then across; several side by side. */
function copyLink(from, to, label, edge, aside) {
  const [x1, x2] = [(from.left + from.right) / 2 + aside, (to.left + to.right) / 2 + aside];
  const below = to.top >= from.bottom - 1;
  const above = to.bottom <= from.top + 1;
  if (below || above) {
    const [y1, y2] = below ? [from.bottom, to.top - 2] : [from.top, to.bottom + 2];
    const middle = (y1 + y2) / 2;
    const path = `M${x1},${y1}C${x1},${middle + (y2 - y1) / 4} ${x2},${middle - (y2 - y1) / 4} ${x2},${y2}`;
    const left = x2 + (to.right - to.left) * 0.7 > edge;
    return { kind: "copy", path, label, x: x2 + (left ? -10 : 10), y: below ? y2 - 3 : y2 + 13, anchor: left ? "end" : "start" };
  }
  const right = to.left > from.left;
  const [a, b] = right ? [from.right, to.left - 2] : [from.left, to.right + 2];
  const y = (from.top + from.bottom) / 2;
  const path = Math.abs(b - a) < 30 ? `M${a},${y}H${b}` : `M${x1},${from.bottom}C${x1},${from.bottom + 18} ${x2},${from.bottom + 18} ${x2},${to.bottom + 2}`;
  return { kind: "copy", path, label, x: (x1 + x2) / 2, y: from.bottom + 15, anchor: "middle" };
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
