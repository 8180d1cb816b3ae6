// Keys of the whole page, as presentation clickers send them; not while somebody types.

const TYPING = "input, textarea, select, [contenteditable=true], [role=slider], [role=combobox], [role=listbox], [role=tab], [role=radio], [role=dialog]";

function press(stage, event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !stage.data) return;
  const path = event.composedPath().filter((node) => node instanceof Element);
  const inside = path.includes(stage.root);
  if (!inside && path.some((node) => node.matches(TYPING))) return;
  if (event.key === " " && path.some((node) => node.matches("button, a, summary, [role=button]"))) return;
  if (answerByKey(stage, event)) return;
  const does = {
    ArrowRight: () => stage.send("step"),
    PageDown: () => stage.send("step"),
    ArrowLeft: () => stage.send("back"),
    PageUp: () => stage.send("back"),
    Home: () => stage.send("start"),
    End: () => stage.send("end"),
    " ": () => setPlaying(stage, !stage.playing),
    n: () => stage.send("jump", "any"),
    N: () => stage.send("jump", "any"),
    Escape: () => {
      stage.selected = null;
      refocus(stage);
    },
  }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
}
