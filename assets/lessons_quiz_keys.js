// Keys of the questions at the end of a lesson; it draws nothing.

const TYPING = "input:not([type=radio]), textarea, select, [contenteditable=true], [role=slider], [role=combobox], [role=listbox], [role=dialog]";
const MOVES = { ArrowRight: "step", ArrowLeft: "back", Home: "start" }; // PageUp and PageDown belong to the buttons
const listeners = new WeakMap();

function press(ears, event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const path = event.composedPath().filter((node) => node instanceof Element);
  if (path.some((node) => node.matches(TYPING))) return;
  const digit = /^[1-9]$/.test(event.key);
  if (!digit && !MOVES[event.key]) return;
  if (!digit && path.some((node) => node.matches("input[type=radio]"))) return; // arrows choose there
  event.preventDefault();
  ears.number += 1;
  ears.trigger("action", { do: digit ? "predict" : MOVES[event.key], arg: digit ? Number(event.key) : null, n: ears.number, client: ears.client });
}

export default function ({ parentElement, setTriggerValue }) {
  const root = parentElement.querySelector("i");
  let ears = listeners.get(root);
  if (!ears) {
    ears = { number: 0, client: Math.random().toString(36).slice(2) };
    ears.heard = (event) => press(ears, event);
    document.addEventListener("keydown", ears.heard);
    listeners.set(root, ears);
  }
  ears.trigger = setTriggerValue;
  return () => {
    document.removeEventListener("keydown", ears.heard);
    listeners.delete(root);
  };
}
