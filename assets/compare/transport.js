// Transport, time line and the one sentence of a comparison.

const SIGNS = { compact: "M-5,-4V4M5,-4V4M-4,0H4M-1.5,-2L-4,0L-1.5,2M1.5,-2L4,0L1.5,2", stop: "M-4,-4L4,4M4,-4L-4,4", move: "M-5,0H4M1,-3.5L5,0L1,3.5" };

function buildTransport(root, view) {
  const bar = {};
  for (const name of ["start", "back", "step", "play"]) {
    bar[name] = make("button", name === "step" ? "key primary" : "key", make("span"));
    bar[name].type = "button";
  }
  bar.line = make("svg:svg", "line", make("svg:path", "rail"), make("svg:path", "rail after"), make("svg:g"), make("svg:circle", "here"));
  bar.at = make("span", "at");
  bar.head = make("strong");
  bar.text = make("span");
  const said = make("p", "", bar.head, " ", bar.text);
  said.setAttribute("aria-live", "polite");
  bar.say = make("section", "say", said);
  root.append(make("nav", "bar", bar.start, bar.back, bar.step, bar.play, bar.line, bar.at), bar.say);
  bar.start.onclick = () => view.send("start");
  bar.back.onclick = () => view.send("back");
  bar.step.onclick = () => view.send("step");
  bar.play.onclick = () => setPlaying(view, !view.playing);
  return bar;
}

function drawTransport(view, W) {
  const { bar, data } = view;
  const atEnd = data.index >= data.last;
  const buttons = [
    ["start", "|◀", "Home", data.index === 0],
    ["back", `◀ ${W("back")}`, "←", data.index === 0],
    ["step", `${W("step")} ▶`, "→", atEnd],
    ["play", W(view.playing ? "pause" : "play"), W("space"), atEnd && !view.playing],
  ];
  for (const [name, text, key, off] of buttons) {
    setText(bar[name].firstElementChild, text);
    bar[name].disabled = off;
    bar[name].title = `${W(name)} (${key})`;
    bar[name].setAttribute("aria-label", W(name));
  }
  bar.play.classList.toggle("on", view.playing);
  setText(bar.at, W("at", { k: data.index, n: data.last }));
  bar.at.title = W("keys");
  setText(bar.head, data.say[0]);
  setText(bar.text, data.say[1]);
}

/** The rail is solid as long as the trace's own run goes on; marks: compactions, stops, moves. */
function drawLine(view, W, [width, height]) {
  const { bar, data, unit } = view;
  const { line } = bar;
  const pad = 9;
  const steps = Math.max(data.last, 1);
  const x = (step) => pad + ((width - 2 * pad) * step) / steps;
  const y = height / 2;
  const [rail, after, marks, here] = line.children;
  setAttrs(line, {
    viewBox: `0 0 ${width} ${height}`, role: "slider", tabindex: 0, "aria-label": W("timeline"), "aria-valuemin": 0,
    "aria-valuemax": data.last, "aria-valuenow": data.index, "aria-valuetext": W("at", { k: data.index, n: data.last }),
  });
  const own = x(Math.min(Math.max(data.own, 0), data.last)).toFixed(1);
  setAttrs(rail, { d: `M${x(0)},${y}H${own}` });
  setAttrs(after, { d: `M${own},${y}H${x(steps).toFixed(1)}` });
  each(marks, data.marks, () => make("svg:path", "", make("svg:title")), (node, [step, kind]) => {
    setAttrs(node, { d: SIGNS[kind], class: `sign ${kind}`, transform: `translate(${x(step).toFixed(1)},${y}) scale(${(0.85 * unit).toFixed(2)})` });
    setText(node.firstElementChild, `${step}: ${W(`mark.${kind}`)}`);
  });
  setAttrs(here, { cx: x(data.index).toFixed(1), cy: y, r: 9 * unit });
  line.onpointerdown = (event) => {
    const goTo = (moved) => {
      const box = line.getBoundingClientRect();
      const part = ((moved.clientX - box.left) * (width / box.width) - pad) / (width - 2 * pad);
      const goal = Math.min(Math.max(Math.round(part * steps), 0), view.data.last);
      if (goal !== view.data.index) view.send("goto", goal);
    };
    line.setPointerCapture(event.pointerId);
    line.onpointermove = goTo;
    line.onpointerup = () => {
      line.onpointermove = null;
      line.blur();
    };
    goTo(event);
  };
}
