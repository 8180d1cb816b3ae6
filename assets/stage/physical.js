// Right: what the device holds. One card a block; cards shrink as the pool grows.

// From roomy to dense: the least width and height of a card in units, and the gap between two.
const CARD_LEVELS = [
  { name: "large", width: 112, height: 44, most: 78, gap: 13, widest: 215 },
  { name: "compact", width: 62, height: 32, most: 42, gap: 8, widest: 170 },
  { name: "small", width: 30, height: 18, most: 26, gap: 3, widest: 64 },
  { name: "dot", width: 5, height: 5, most: 14, gap: 1, widest: 14 },
];
const COLUMNS = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160];
const SLOT_LEAST = 26; // units of a slot that shows its token; in narrower cards a bar shows how full it is
const ROOMY = { tall: 84, slot: 38 }; // units from which a card sets its tokens larger
const ALONE = 34; // more units of height for a card where there is no chart below
const FEW = 8; // blocks of a pool so small that its cards may be wider
const HOST = 88; // units of height for what has been swapped out

/** The widest cards that fit: as few columns as the height allows, and no hole in the last row if that is easy. */
function chooseCards(data, width, height) {
  const [count, size] = [data.pool, data.size];
  const lines = size <= MAX_OPEN_SIZE ? Math.ceil(size / SLOTS_A_LINE) : 1;
  for (const level of CARD_LEVELS) {
    const large = level.name === "large";
    const more = large ? lines - 1 : 0;
    const wide = large && size <= MAX_OPEN_SIZE ? Math.max(level.width, Math.min(size, SLOTS_A_LINE) * SLOT_LEAST + 16) : level.width;
    const alone = large && data.calm && !data.chart;
    const widest = level.widest + (large && size > 4 ? 60 : 0) + (alone && count <= FEW ? 75 : 0);
    const cardOf = (columns) => (width + level.gap) / columns - level.gap;
    const fits = COLUMNS.filter((columns) => {
      const tooWide = cardOf(columns) > widest && columns < count;
      const rows = Math.ceil(count / columns);
      return cardOf(columns) >= wide && !tooWide && rows * (level.height + more * 19 + level.gap) - level.gap <= height;
    });
    if (!fits.length) continue;
    const even = fits.find((columns) => count % columns === 0 && columns <= fits[0] + 1);
    const columns = even || fits[0];
    const most = level.most + more * 24 + (alone ? ALONE : 0);
    const tall = Math.min((height + level.gap) / Math.ceil(count / columns) - level.gap, most);
    const card = cardOf(columns);
    const roomy = large && tall > ROOMY.tall && slotRoom(card, size) > ROOMY.slot;
    return { ...level, columns, card, tall, roomy };
  }
  const last = CARD_LEVELS[CARD_LEVELS.length - 1];
  return { ...last, card: last.width, columns: Math.floor(width / (last.width + last.gap)), tall: last.height };
}

/** Units of width for the text in each slot of a card. */
function slotRoom(card, size) {
  return (card - 16) / Math.min(size, SLOTS_A_LINE) - 1.5;
}

/** How much larger the cards may be with their tokens still readable. */
function largerCards(data, width, height) {
  if (!data.most?.length || data.size > MAX_OPEN_SIZE) return 1;
  return LARGER.find((by) => {
    const level = chooseCards(data, width / by, height / by);
    return level.name === "large" && slotRoom(level.card, data.size) >= ROOMY.slot;
  }) || 1;
}

/** Cards as they were while little changes: a sentence one line longer does not rearrange the map. */
function keepCards(data, { width, height, narrow }, memory) {
  const key = [data.pool, data.size, Math.round(width), data.calm, Boolean(data.chart), data.lecture].join();
  const near = memory.key === key && Math.abs(memory.height - height) < 30;
  Object.assign(memory, { key, height: near ? memory.height : height });
  memory.by = narrow ? 1 : largerCards(data, width, memory.height);
  const level = chooseCards(data, width / memory.by, memory.height / memory.by);
  const rows = Math.ceil(data.pool / level.columns);
  return { ...level, by: memory.by, tall: Math.min(level.tall, (height / memory.by + level.gap) / rows - level.gap) };
}

function buildPhysical(root) {
  const side = {
    box: make("section", "side right"),
    title: make("h3"),
    sub: make("span", "quiet"),
    pool: make("div", "pool"),
    host: make("div", "host", make("span", "quiet"), make("div", "hosts")),
  };
  side.box.append(make("div", "head", side.title, side.sub), side.pool, side.host);
  root.append(side.box);
  return side;
}

function drawPhysical(side, data, W, room, memory) {
  setText(side.title, W(`physical.${data.device}`));
  const held = data.used * data.size;
  const parts = [W("physical.sub", { used: data.used, all: data.all })];
  if (held) parts.push(W("physical.filled", { live: data.held_tokens, held }));
  if (data.kept) parts.push(W("cached_count", { n: data.kept }));
  if (data.pool < data.all) parts.push(W("showing", { n: data.pool, all: data.all }));
  setText(side.sub, parts.join(" · "));
  const level = keepCards(data, { ...room, height: room.height - (data.host.length ? HOST + 8 : 0) }, memory);
  setStyle(side.pool, "--u", level.by > 1 ? `${(room.unit * level.by).toFixed(4)}px` : "");
  setStyle(side.pool, "--columns", level.columns);
  setStyle(side.pool, "--tall", level.tall.toFixed(2));
  setStyle(side.pool, "--gap", level.gap);
  setAttrs(side.pool, { class: `pool ${level.name}${level.roomy ? " roomy" : ""}${data.gate && !data.gate.result && data.gate.kind === "block" ? " picking" : ""}` });
  const facts = poolFacts(data);
  if (memory.level !== level.name || memory.size !== data.size || memory.lang !== data.lang) {
    side.pool.replaceChildren();
    Object.assign(memory, { level: level.name, size: data.size, lang: data.lang, cards: [] });
  }
  const ids = Array.from({ length: data.pool }, (_, id) => id);
  each(side.pool, ids, () => make("div"), (card, id) => {
    const fact = facts.get(id) || { id, state: "free" };
    const signature = facts.has(id) ? JSON.stringify([fact, Math.round(level.card), level.roomy]) : "free";
    if (memory.cards[id] === signature && card.firstChild) return;
    memory.cards[id] = signature;
    drawCard(card, fact, level, data, W);
  });
  memory.cards.length = ids.length;
  drawHost(side.host, data, W);
  return level.gap * level.by;
}

/** Blocks in use and cached ones, from the tables: who lists each, how full it is, its tokens. */
function heldBlocks(data) {
  const facts = new Map();
  const tokens = unpackTokens(data.seqs, data.tok);
  data.seqs.forEach((row, place) => row.b.forEach((id, logical) => {
    if (id >= data.pool) return;
    let fact = facts.get(id);
    if (!fact) {
      fact = { id, state: "used", filled: 0, owners: [], tokens: null };
      facts.set(id, fact);
    }
    fact.owners.push(row.p);
    const filled = filledOf(row, logical, data.size);
    if (!fact.tokens || filled > fact.filled) {
      fact.tokens = tokens[place].slice(logical * data.size, (logical + 1) * data.size);
    }
    fact.filled = Math.max(fact.filled, filled);
  }));
  for (const [id, filled, owners] of data.others) facts.set(id, { id, state: "used", filled, owners, tokens: [] });
  for (const [id, filled, labels] of data.cached) {
    facts.set(id, { id, state: "cached", filled, owners: [], tokens: labels.map((i) => data.tok[i]) });
  }
  for (const fact of facts.values()) {
    // Owners agree on a shared block, but where a lesson breaks the rule: there the memory has the last word.
    const torn = data.torn?.[fact.id];
    if (torn) fact.tokens = torn.map((i) => data.tok[i]);
    fact.tokens = fact.tokens.slice(0, fact.filled);
    const was = data.ref[fact.id];
    if (was !== undefined) fact.was = was;
  }
  return facts;
}

/** What is to be drawn for every block that is not plainly free: state, owners, tokens, what changed. */
function poolFacts(data) {
  const facts = heldBlocks(data);
  const touch = (id) => facts.get(id) || facts.set(id, { id, state: "free" }).get(id);
  for (const id of data.did.new || []) touch(id).news = "new";
  for (const [source, target, tokens] of data.did.copy || []) {
    touch(source).news = "source";
    Object.assign(touch(target), { news: "new", copied: tokens });
  }
  // A block that went and was taken again in the same step is a new one.
  for (const id of [...(data.did.gone || []), ...(data.did.out || []).map(([block]) => block)]) {
    if (touch(id).state !== "used") touch(id).news = "gone";
  }
  for (const [, id] of data.did.in || []) touch(id).news = "new";
  for (const slot of writtenSlots(data)) {
    const [id, offset] = slot.split(":").map(Number);
    const fact = touch(id);
    fact.wrote = [...(fact.wrote || []), offset];
  }
  for (const fact of facts.values()) {
    if (!fact.news && fact.was > 0 && fact.state === "used") fact.news = "ref";
  }
  markGate(data.gate, touch);
  return facts;
}

/** The block that was predicted and, once it is known, the one that it really was. */
function markGate(gate, touch) {
  if (!gate || gate.kind !== "block") return;
  const answer = gate.result ? gate.result.answer : gate.answer;
  if (Number.isInteger(answer)) touch(answer).guess = true;
  if (gate.result && Number.isInteger(gate.result.truth)) touch(gate.result.truth).truth = true;
}

function drawCard(card, fact, level, data, W) {
  const owners = fact.owners || [];
  const ref = owners.length;
  const state = fact.state === "used" ? W("used") : fact.state === "cached" ? W("cached") : W("free");
  const marks = [fact.news && "news", fact.news === "gone" && "gone", fact.news === "new" && "taken", fact.guess && "guess", fact.truth && "truth"];
  setAttrs(card, { class: ["card", fact.state, ref > 1 && "shared", ...marks].filter(Boolean).join(" ") });
  setAttrs(card, { "data-b": fact.id, "data-guess": fact.guess ? W("you") : null, "data-truth": fact.truth ? W("truth") : null });
  const names = owners.map(letter).join(" ");
  card.title = `${W("tip.block", { b: fact.id, state })}${ref ? ` · ref ${ref} · ${names}` : ""}${fact.filled ? ` · ${fact.filled}/${data.size}` : ""}${fact.tokens?.length ? ` · ${fact.tokens.map((t) => t ?? "…").join("")}` : ""}`;
  if (level.name === "dot" || level.name === "small") return drawTiny(card, fact, level, data);
  if (!card.firstElementChild || !card.querySelector(".ref")) {
    card.replaceChildren(make("div", "chead", make("b", "num"), make("span", "own"), make("em"), make("span", "ref")), make("div", "slots"));
  }
  const [number, own, note, pill] = card.firstElementChild.children;
  setText(number, fact.id);
  const changed = fact.was > 0 && fact.state === "used" ? `${fact.was}→${ref}` : "";
  const narrow = level.card < 120;
  const long = fact.copied && level.card > 168 ? W("copied", { n: fact.copied }) : W("new");
  const free = level.card - (level.name === "large" ? 84 : 66) - (fact.news ? (long === W("new") ? 28 : 84) : 0);
  const most = Math.max(Math.floor((free - 16) / (narrow ? 13 : 16)) + 1, 2); // badges overlap in narrow cards
  const badges = owners.length > most ? [...owners.slice(0, most - 1), -1] : owners;
  each(own, badges, () => make("i", "badge"), (badge, place) => {
    if (place >= 0) return paintBadge(badge, place);
    setText(badge, `+${owners.length - most + 1}`);
    setAttrs(badge, { style: null, "data-s": null }); // no letter: see the style sheet
  });
  setText(note, narrow ? "" : fact.news === "new" ? long : changed);
  const quiet = fact.state === "free" ? W("free") : W(level.card > 150 ? "cached" : "cached.short");
  setText(pill, fact.state === "used" ? (narrow && changed) || `ref ${ref}` : quiet);
  card.classList.toggle("tight", narrow);
  setAttrs(pill, { class: fact.state === "used" ? "ref" : "ref none" });
  drawCardSlots(card.lastElementChild, fact, level, data);
}

function drawCardSlots(box, fact, level, data) {
  const room = slotRoom(level.card, data.size);
  const big = data.size > MAX_OPEN_SIZE || level.name !== "large" || room < SLOT_LEAST - 4;
  box.className = big ? "slots bar" : "slots";
  box.hidden = fact.state === "free";
  if (box.hidden) return;
  const wrote = new Set(fact.wrote || []);
  const owners = fact.owners || [];
  if (big) {
    const full = fact.state === "cached" ? "var(--cached)" : tintOf(owners, wrote.size ? FRESH : 32);
    each(box, [0], () => make("span", "slot"), (slot) => {
      setAttrs(slot, { class: "slot", style: `background:${full};width:${(100 * fact.filled) / data.size}%` });
      slot.replaceChildren();
    });
    return;
  }
  drawSlots(box, data.size, null, [room, level.roomy ? 1.12 : 1], (offset) => {
    if (offset >= fact.filled) return { text: "" };
    const fresh = wrote.has(offset);
    const tint = fact.state === "cached" ? "var(--cached)" : tintOf(owners, fresh ? FRESH : 20);
    return { text: fact.tokens[offset] ?? "", tint, fresh };
  });
}

/** A square with its number; its owner's tint, split where it is shared. */
function drawTiny(card, fact, level, data) {
  const owners = fact.owners || [];
  const tint = fact.state === "used" ? tintOf(owners, fact.wrote ? FRESH : 30) : "";
  setAttrs(card, { style: tint ? `background:${tint}` : null });
  if (level.name === "dot") return card.replaceChildren(make("u"));
  if (card.childElementCount !== 2) card.replaceChildren(make("b", "num"), make("s"));
  setText(card.firstElementChild, fact.id);
  setText(card.lastElementChild, owners.length > 1 ? owners.length : "");
}

/** Blocks that have been swapped out: the third place, only while there is something in it. */
function drawHost(box, data, W) {
  box.hidden = !data.host.length;
  if (box.hidden) return;
  setText(box.firstElementChild, `${W("host")} · ${W("host.sub", { n: data.host.length })}`);
  const fresh = new Set((data.did.out || []).map(([, host]) => host));
  const across = Math.min(data.size, SLOTS_A_LINE);
  const few = data.host.length <= 5 && data.size <= SLOTS_A_LINE;
  each(box.lastElementChild, data.host.slice(0, 24), () => make("div", "", make("div", "chead", make("b", "num"), make("span", "own")), make("div", "slots")), (node, [id, filled, labels, owners]) => {
    const [head, slots] = node.children;
    setAttrs(node, { class: `hostblock${few ? " told" : ""}${fresh.has(id) ? " news" : ""}`, "data-h": id, title: `${filled}/${data.size}` });
    setText(head.children[0], `h${id}`);
    each(head.children[1], owners.slice(0, 4), () => make("i", "badge"), paintBadge);
    slots.hidden = !few;
    setStyle(slots, "width", `calc(var(--u) * ${across * 33})`);
    if (few) drawSlots(slots, data.size, null, [30, 1], (offset) => (offset < filled ? { text: data.tok[labels[offset]] ?? "", tint: tintOf(owners, 20) || "var(--cached)" } : { text: "" }));
  });
}
