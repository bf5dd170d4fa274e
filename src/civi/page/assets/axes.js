// Scales and axes of drawings.

const TRANSFORMS = {
  linear: { forth: (v) => v, back: (v) => v },
  log: { forth: (v) => (v > 0 ? Math.log10(v) : NaN), back: (v) => 10 ** v },
  symlog: { forth: (v) => Math.asinh(v / 0.2), back: (v) => 0.2 * Math.sinh(v) },
};

// A map from data in [low, high] to pixels in [from, to], with its inverse.
function scaleOf(kind, low, high, from, to) {
  const { forth, back } = TRANSFORMS[kind];
  const [a, b] = [forth(low), forth(high)];
  const pixel = (value) => from + ((forth(value) - a) / (b - a || 1)) * (to - from);
  const value = (at) => back(a + ((at - from) / (to - from)) * (b - a));
  return { kind, low, high, pixel, value };
}

// About `count` round numbers inside of a scale.
function ticksOf(scale, count) {
  const { kind, low, high } = scale;
  if (kind === "linear") return linearTicks(low, high, count);
  const inside = (value) => value >= low && value <= high;
  const powers = [];
  for (let k = Math.floor(Math.log10(Math.max(Math.abs(high), 1e-300))); k > -30 && powers.length < 60; k -= 1) {
    if (kind === "log" && 10 ** k < low) break;
    if (kind === "symlog" && k < -1) break;
    powers.push(10 ** k);
  }
  if (kind === "symlog") powers.push(0);
  const ticks = powers.filter(inside).reverse();
  if (ticks.length < 2) return linearTicks(low, high, count).filter((value) => kind !== "log" || value > 0);
  const every = Math.ceil(ticks.length / Math.max(count, 2));
  return ticks.filter((_, i) => i % every === 0);
}

function linearTicks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= 0.7 * rough) * power;
  const ticks = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k += 1) ticks.push(k * step);
  return ticks.length > 1 || count > 8 ? ticks : linearTicks(low, high, 2 * count);
}

// Limits of the finite values, with a little room; a single value gets an interval around it.
function limitsOf(values, kind, room = 0.03) {
  const { forth, back } = TRANSFORMS[kind];
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    const at = forth(value);
    if (Number.isFinite(at)) [low, high] = [Math.min(low, at), Math.max(high, at)];
  }
  if (low > high) return kind === "log" ? [0.1, 1] : [0, 1];
  const space = high > low ? room * (high - low) : Math.abs(low) * 0.01 || 1;
  return [back(low - space), back(high + space)];
}

// The frame of a drawing: grid, ticks and titles of both axes. `box` has left, right, top and bottom.
function axesOf(box, x, y, labels) {
  const parts = [];
  const few = Math.max(2, Math.floor((box.right - box.left) / 75));
  const across = ticksOf(x, few);
  const names = labelsOf(across);
  across.forEach((value, i) => {
    const at = x.pixel(value);
    parts.push(svg("line", { x1: at, x2: at, y1: box.top, y2: box.bottom, class: "grid" }));
    parts.push(svg("text", { x: at, y: box.bottom + 16, "text-anchor": "middle" }, names[i]));
  });
  const up = ticksOf(y, Math.max(2, Math.floor((box.bottom - box.top) / 50)));
  const heights = labelsOf(up);
  up.forEach((value, i) => {
    const at = y.pixel(value);
    parts.push(svg("line", { x1: box.left, x2: box.right, y1: at, y2: at, class: "grid" }));
    parts.push(svg("text", { x: box.left - 6, y: at + 4, "text-anchor": "end" }, heights[i]));
  });
  const middle = (box.left + box.right) / 2;
  parts.push(svg("text", { x: middle, y: box.bottom + 34, "text-anchor": "middle", class: "label" }, labels[0]));
  parts.push(svg("text", { x: 4, y: box.top - 8, class: "label" }, labels[1]));
  return parts;
}

// A drawing of the width of its place, with a clipping region for the data.
function canvasOf(plot, title, height) {
  const width = Math.max(280, plot.clientWidth || 640);
  const box = { left: 64, right: width - 14, top: 24, bottom: height - 42 };
  const id = `clip-${plot.parentElement.id}`;
  const [w, h] = [box.right - box.left, box.bottom - box.top];
  const clip = svg("clipPath", { id }, svg("rect", { x: box.left, y: box.top, width: w, height: h }));
  const data = svg("g", { "clip-path": `url(#${id})` });
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title });
  drawing.append(svg("defs", {}, clip));
  return { drawing, data, box };
}

// Buttons that switch entries on and off; `hidden` is the set of names that are off.
function legendOf(entries, hidden, changed) {
  const buttons = entries.map(({ name, colour, dash, filled, kind }) => {
    const mark = kind === "points" ? svg("circle", { cx: 11, cy: 7, r: 4, fill: ink(colour) }) : filled
      ? svg("rect", { x: 0, y: 2, width: 22, height: 10, fill: ink(colour), "fill-opacity": 0.45 })
      : svg("line", { x1: 0, x2: 22, y1: 7, y2: 7, stroke: ink(colour), "stroke-width": 3, "stroke-dasharray": dash });
    const picture = svg("svg", { width: 22, height: 14, "aria-hidden": "true" }, mark);
    const button = make("button", { type: "button", "aria-pressed": String(!hidden.has(name)) }, [picture, name]);
    button.addEventListener("click", () => {
      if (!hidden.delete(name)) hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      changed();
    });
    return button;
  });
  return make("div", { class: "legend", role: "group", "aria-label": "Shown curves" }, buttons);
}

// A choice among names, as a labelled list.
function choiceOf(label, names, chosen, changed) {
  const options = names.map((name, i) => make("option", { value: i, selected: i === chosen ? "selected" : null }, name));
  const list = make("select", {}, options);
  list.addEventListener("change", () => changed(Number(list.value)));
  return { list, element: make("label", { class: "choice" }, [`${label} `, list]) };
}
