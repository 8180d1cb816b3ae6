// Small helpers: elements, text, reuse of nodes, words. Text is only ever set as textContent.

const SVG = "http://www.w3.org/2000/svg";
const WORDS = /*WORDS*/ {};

/** An element with a class and children; `tag` "svg:path" makes an SVG element. */
function make(tag, name = "", ...children) {
  const node = tag.startsWith("svg:")
    ? document.createElementNS(SVG, tag.slice(4))
    : document.createElement(tag);
  if (name) node.setAttribute("class", name);
  node.append(...children);
  return node;
}

function setText(node, text) {
  const value = text == null ? "" : String(text);
  if (node.textContent !== value) node.textContent = value;
}

/** Set attributes, leaving those alone that are right already; null removes one. */
function setAttrs(node, attrs) {
  for (const [name, value] of Object.entries(attrs)) {
    if (value == null) {
      if (node.hasAttribute(name)) node.removeAttribute(name);
    } else if (node.getAttribute(name) !== String(value)) {
      node.setAttribute(name, value);
    }
  }
}

/** Set one property of an element's style, unless it is that already. */
function setStyle(node, name, value) {
  if (node.style.getPropertyValue(name) !== String(value)) node.style.setProperty(name, value);
}

/** As many children as `items`, by position: nodes are reused, made by `create`, brought up to date by `update`. */
function each(parent, items, create, update) {
  while (parent.childElementCount > items.length) parent.lastElementChild.remove();
  items.forEach((item, place) => {
    let node = parent.children[place];
    if (!node) {
      node = create(item, place);
      parent.append(node);
    }
    update(node, item, place);
  });
}

/** Children that belong to keys: a node follows its key, in the order of `items`. */
function eachByKey(parent, items, keyOf, create, update) {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let after = null;
  items.forEach((item, place) => {
    const key = String(keyOf(item));
    let node = old.get(key);
    if (node) old.delete(key);
    else {
      node = create(item);
      node.dataset.key = key;
    }
    const spot = after ? after.nextElementSibling : parent.firstElementChild;
    if (node !== spot) parent.insertBefore(node, spot);
    after = node;
    update(node, item, place);
  });
  old.forEach((node) => node.remove());
}

/** Words of the picture in the language of the payload; `n` picks between "one" and "other". */
function wordsOf(lang) {
  const table = WORDS[lang] || WORDS.en || {};
  return (key, numbers = {}) => {
    let text = table[key];
    if (text === undefined) return key;
    if (typeof text === "object") text = numbers.n === 1 && text.one ? text.one : text.other;
    return text.replace(/\{(\w+)\}/g, (whole, name) => (name in numbers ? numbers[name] : whole));
  };
}

const HUES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
// White is readable (4.5 : 1) on the first hue only.
const INKS = ["#FFFFFF", "#0B0F14", "#0B0F14", "#0B0F14", "#0B0F14", "#0B0F14"];

function hue(place) {
  return HUES[place % HUES.length];
}

function letter(place) {
  let name = "";
  for (let rest = place + 1; rest > 0; rest = Math.floor((rest - 1) / 26)) {
    name = String.fromCharCode(65 + ((rest - 1) % 26)) + name;
  }
  return name;
}

function paintBadge(node, place) {
  setText(node, letter(place));
  if (node.dataset.s === String(place)) return;
  node.style.background = hue(place);
  node.style.color = INKS[place % INKS.length];
  node.style.setProperty("--b", hue(place));
  node.classList.toggle("again", place >= HUES.length); // the same hue a second time: with a ring
  node.dataset.s = place;
}

/** Whether the theme is dark: its text is light. Tints must then be stronger to be told apart. */
function isDark(root) {
  const [r, g, b] = (getComputedStyle(root).color.match(/[\d.]+/g) || [0, 0, 0]).map(Number);
  return 0.3 * r + 0.6 * g + 0.1 * b > 128;
}

/** The tints of all owners side by side: a shared slot belongs to each of them. */
function tintOf(owners, strength) {
  const shown = owners.slice(0, 4);
  if (!shown.length) return "";
  // Weak tints are lost on a dark ground; strong ones must leave the text readable there.
  const part = strength < 40 ? `calc(${strength}% * var(--k))` : `${strength}%`;
  const tint = (place) => `color-mix(in srgb, ${hue(place)} ${part}, var(--ground))`;
  if (shown.length === 1) return tint(shown[0]);
  const band = 100 / shown.length;
  const stops = shown.map((place, i) => `${tint(place)} ${i * band}% ${(i + 1) * band}%`);
  return `linear-gradient(to bottom, ${stops.join(", ")})`;
}
