// What a lesson adds to the stage: a calm look, rings around the things it speaks of, answers by key.

/** After each drawing: the lesson's look, its rings, and blocks that can be reached with Tab while one is asked for. */
function drawLesson(stage) {
  const { root, data } = stage;
  root.classList.toggle("calm", Boolean(data.calm));
  root.querySelectorAll("[data-pointed]").forEach((node) => node.removeAttribute("data-pointed"));
  for (const place of data.point || []) {
    root.querySelectorAll(place).forEach((node) => node.setAttribute("data-pointed", ""));
  }
  const asks = data.gate && !data.gate.result && data.gate.kind === "block";
  const focused = root.getRootNode().activeElement;
  if (!asks && focused?.matches?.(".card")) focused.blur();
  root.querySelectorAll(".card[data-b]").forEach((card) => {
    setAttrs(card, asks ? { tabindex: 0, role: "button", "aria-label": card.dataset.b } : { tabindex: null, role: null, "aria-label": null });
  });
}

/** Digits choose an option, Enter the block that has the focus. Whether the key was an answer. */
function answerByKey(stage, event) {
  const { gate } = stage.data;
  if (!gate || gate.result) return false;
  const option = gate.kind === "choice" && /^[1-9]$/.test(event.key) ? gate.options[Number(event.key) - 1] : null;
  if (option) stage.send("predict", option.id);
  const card = gate.kind === "block" && event.key === "Enter" ? event.composedPath().find((node) => node.matches?.(".card[data-b]")) : null;
  if (card) stage.send("predict", Number(card.dataset.b));
  return Boolean(option || card);
}
