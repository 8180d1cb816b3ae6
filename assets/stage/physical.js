// Right: what the device holds. One card a block; cards shrink as the pool grows.

// From roomy to dense: the least width and height of a card in units, and the gap between two.
const CARD_LEVELS = [
  { name: "large", width: 104, height: 44, most: 78, gap: 8, widest: 215 },
  { name: "compact", width: 62, height: 32, most: 42, gap: 6, widest: 170 },
  { name: "small", width: 30, height: 18, most: 26, gap: 3, widest: 64 },
  { name: "dot", width: 5, height: 5, most: 14, gap: 1, widest: 14 },
];
const COLUMNS = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160];

/** The widest cards that fit: as few columns as the height allows. */
function chooseCards(count, size, width, height) {
  for (const level of CARD_LEVELS) {
    const slotLines = level.name === "large" && size <= MAX_OPEN_SIZE ? Math.ceil(size / SLOTS_A_LINE) : 1;
    const least = level.height + (slotLines - 1) * 19;
    const wide = level.name === "large" && size > 4 ? Math.max(level.width, Math.min(size, SLOTS_A_LINE) * 24) : level.width;
    for (const columns of COLUMNS) {
      const card = (width + level.gap) / columns - level.gap;
      if (card < wide) break;
      const rows = Math.ceil(count / columns);
      const wider = level.widest && card > level.widest + (level.name === "large" && size > 4 ? 60 : 0) && columns < count;
      if (wider || rows * (least + level.gap) - level.gap > height) continue;
      const most = level.most + (slotLines - 1) * 24;
      return { ...level, columns, card, tall: Math.min((height + level.gap) / rows - level.gap, most) };
    }
  }
  const last = CARD_LEVELS[CARD_LEVELS.length - 1];
  return { ...last, card: last.width, columns: Math.floor(width / (last.width + last.gap)), tall: last.height };
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
  const parts = [W("physical.sub", { used: data.used, all: data.all, live: data.held_tokens, held })];
  if (data.kept) parts.push(W("cached_count", { n: data.kept }));
  if (data.pool < data.all) parts.push(W("showing", { n: data.pool, all: data.all }));
  setText(side.sub, parts.join(" · "));
  const level = chooseCards(data.pool, data.size, room.width, room.height - (data.host.length ? 52 : 0));
  setStyle(side.pool, "--columns", level.columns);
  setStyle(side.pool, "--tall", level.tall.toFixed(2));
  setStyle(side.pool, "--gap", level.gap);
  setAttrs(side.pool, { class: `pool ${level.name}${data.gate && !data.gate.result && data.gate.kind === "block" ? " picking" : ""}` });
  const facts = poolFacts(data);
  if (memory.level !== level.name || memory.size !== data.size || memory.lang !== data.lang) {
    side.pool.replaceChildren();
    Object.assign(memory, { level: level.name, size: data.size, lang: data.lang, cards: [] });
  }
  const ids = Array.from({ length: data.pool }, (_, id) => id);
  each(side.pool, ids, () => make("div"), (card, id) => {
    const fact = facts.get(id) || { id, state: "free" };
    const signature = facts.has(id) ? JSON.stringify(fact) : "free";
    if (memory.cards[id] === signature && card.firstChild) return;
    memory.cards[id] = signature;
    drawCard(card, fact, level, data, W);
  });
  memory.cards.length = ids.length;
  drawHost(side.host, data, W);
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
    // Owners agree on a shared block; where a lesson breaks the rule, the one that wrote last has its way.
    if (!fact.tokens || (filled === fact.filled && data.clash) || filled > fact.filled) {
      fact.tokens = tokens[place].slice(logical * data.size, (logical + 1) * data.size);
    }
    fact.filled = Math.max(fact.filled, filled);
  }));
  for (const [id, filled, owners] of data.others) facts.set(id, { id, state: "used", filled, owners, tokens: [] });
  for (const [id, filled, labels] of data.cached) {
    facts.set(id, { id, state: "cached", filled, owners: [], tokens: labels.map((i) => data.tok[i]) });
  }
  for (const fact of facts.values()) {
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
  for (const [source, target] of data.did.copy || []) {
    touch(source).news = "source";
    touch(target).news = "new";
  }
  for (const id of data.did.gone || []) touch(id).news = "gone";
  for (const [id] of data.did.out || []) touch(id).news = "gone";
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
  const marks = [fact.news && "news", fact.news === "gone" && "gone", fact.guess && "guess", fact.truth && "truth"];
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
  const free = level.card - (level.name === "large" ? 84 : 66) - (fact.news ? 28 : 0);
  const most = Math.max(Math.floor((free - 16) / (narrow ? 13 : 16)) + 1, 2); // badges overlap in narrow cards
  const badges = owners.length > most ? [...owners.slice(0, most - 1), -1] : owners;
  each(own, badges, () => make("i", "badge"), (badge, place) => {
    if (place >= 0) return paintBadge(badge, place);
    setText(badge, `+${owners.length - most + 1}`);
    setAttrs(badge, { style: null, "data-s": null }); // no letter: see the style sheet
  });
  setText(note, narrow ? "" : fact.news === "new" ? W("new") : changed);
  const quiet = fact.state === "free" ? W("free") : W(level.card > 150 ? "cached" : "cached.short");
  setText(pill, fact.state === "used" ? (narrow && changed) || `ref ${ref}` : quiet);
  card.classList.toggle("tight", narrow);
  setAttrs(pill, { class: fact.state === "used" ? "ref" : "ref none" });
  drawCardSlots(card.lastElementChild, fact, level, data);
}

function drawCardSlots(box, fact, level, data) {
  const big = data.size > MAX_OPEN_SIZE || level.name !== "large";
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
  drawSlots(box, data.size, null, (offset) => {
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
  each(box.lastElementChild, data.host.slice(0, 24), () => make("span"), (node, [id, filled]) => {
    setAttrs(node, { class: `hostblock${fresh.has(id) ? " news" : ""}`, "data-h": id });
    setText(node, `h${id}`);
    node.title = `${filled}/${data.size}`;
    node.style.setProperty("--full", `${(100 * filled) / data.size}%`);
  });
}
