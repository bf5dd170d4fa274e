// Charts of curves: lines, areas, bands and points, with values under the pointer and zoom along x.

class CurveChart {
  constructor(figure, spec) {
    Object.assign(this, { figure, spec, view: 0, zoom: null, hidden: new Set(), cursor: null });
    this.plot = figure.querySelector(".plot");
    this.reading = figure.querySelector(".reading");
    this.controls = figure.querySelector(".controls");
    this.decoded = new Map();
    this.addControls();
    this.addPointer();
    this.draw();
  }

  // The view that is shown, with its numbers; a view is decoded when it is first shown.
  get current() {
    if (!this.decoded.has(this.view)) {
      const view = this.spec.views[this.view];
      const series = view.series.map((one) => ({
        ...one, x: numbers(one.x), y: numbers(one.y), high: one.high && numbers(one.high),
      }));
      this.decoded.set(this.view, { ...view, series });
    }
    return this.decoded.get(this.view);
  }

  get visible() {
    return this.current.series.filter(({ name }) => !this.hidden.has(name));
  }

  addControls() {
    const names = this.spec.views.map(({ name }) => name);
    if (names.length > 1) {
      const { list, element } = choiceOf(this.spec.choice, names, 0, (i) => this.show(i));
      this.list = list;
      this.controls.append(element);
    }
    this.legend = make("div");
    this.reset = make("button", { type: "button", class: "reset", hidden: "hidden" }, "Whole range");
    this.reset.addEventListener("click", () => this.zoomTo(null));
    this.controls.append(this.legend, this.reset);
  }

  // Show the view of this number.
  show(i) {
    Object.assign(this, { view: i, zoom: null, cursor: null });
    if (this.list) this.list.value = String(i);
    this.draw();
  }

  zoomTo(range) {
    this.zoom = range;
    this.cursor = null;
    this.draw();
  }

  draw() {
    const { box, drawing, data } = canvasOf(this.plot, this.spec.title, this.plot.clientWidth < 500 ? 260 : 340);
    const view = this.current;
    const scales = this.scales(box, view);
    for (const [at, label] of view.levels) this.addLevel(data, box, scales, at, label);
    const order = ["area", "band", "points", "line"];
    const sorted = [...this.visible].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
    data.append(...sorted.map((series) => this.curve(series, scales)));
    for (const [at, label] of view.marks) this.addMark(data, box, scales, at, label);
    const axes = axesOf(box, scales.x, scales.y, [view.x_label, view.y_label]);
    this.pointer = svg("g");
    drawing.append(...axes, data, this.pointer);
    Object.assign(this, { box, scale: scales });
    this.plot.replaceChildren(drawing);
    this.reset.hidden = this.zoom === null;
    this.updateLegend(view);
    if (this.cursor === null) this.reading.textContent = "";
  }

  // The legend is made anew only if its entries change, so that a pressed button keeps the focus.
  updateLegend(view) {
    const entries = new Map();
    for (const { name, colour, dash, kind } of view.series) {
      const filled = kind === "area" || kind === "band";
      if (!entries.has(name) || !filled) entries.set(name, { name, colour, dash, filled, kind });
    }
    const key = [...entries.keys()].join("\n");
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.legend.replaceChildren(legendOf([...entries.values()], this.hidden, () => this.draw()));
  }

  scales(box, view) {
    const all = this.visible.flatMap(({ x }) => [...x]);
    const [low, high] = this.zoom ?? limitsOf(all.concat(view.marks.map(([at]) => at)), view.x_scale, 0.01);
    let range = this.zoom ? null : view.y_range;
    if (!range) {
      const seen = this.visible.flatMap(({ x, y, high: top, kind }) => {
        const inside = (_, i) => x[i] >= low && x[i] <= high;
        return [...y.filter(inside), ...(top ? top.filter(inside) : []), ...(kind === "area" ? [0] : [])];
      });
      range = limitsOf(seen, view.y_scale);
    }
    return {
      x: scaleOf(view.x_scale, low, high, box.left, box.right),
      y: scaleOf(view.y_scale, range[0], range[1], box.bottom, box.top),
    };
  }

  curve({ kind, x, y, high, colour, dash, width }, scales) {
    const at = (i, values) => `${scales.x.pixel(x[i]).toFixed(1)},${scales.y.pixel(values[i]).toFixed(1)}`;
    const usable = [...x.keys()].filter((i) => !at(i, y).includes("NaN") && !(high && at(i, high).includes("NaN")));
    if (kind === "points") {
      const d = usable.map((i) => `M${at(i, y)}h0`).join("");
      return svg("path", { d, stroke: ink(colour), class: usable.length < 100 ? "points few" : "points" });
    }
    const runs = [];
    usable.forEach((i, k) => (k > 0 && usable[k - 1] === i - 1 ? runs.at(-1).push(i) : runs.push([i])));
    if (kind === "line") {
      const d = runs.map((run) => `M${run.map((i) => at(i, y)).join("L")}`).join("");
      return svg("path", { d, stroke: ink(colour), "stroke-width": width, "stroke-dasharray": dash, class: "line" });
    }
    const base = y.map(() => (scales.y.kind === "log" ? scales.y.low : 0));
    const d = runs.map((run) => {
      const back = [...run].reverse().map((i) => at(i, kind === "band" ? y : base));
      return `M${run.map((i) => at(i, kind === "band" ? high : y)).join("L")}L${back.join("L")}Z`;
    });
    return svg("path", { d: d.join(""), fill: ink(colour), class: kind });
  }

  addMark(data, box, scales, at, label) {
    const x = scales.x.pixel(at);
    const left = x + 7 * label.length > box.right;
    data.append(svg("line", { x1: x, x2: x, y1: box.top, y2: box.bottom, class: "mark" }));
    const place = { x: x + (left ? -5 : 5), y: box.top + 14, "text-anchor": left ? "end" : "start", class: "note" };
    data.append(svg("text", place, label));
  }

  addLevel(data, box, scales, at, label) {
    const y = scales.y.pixel(at);
    data.append(svg("line", { x1: box.left, x2: box.right, y1: y, y2: y, class: "mark" }));
    data.append(svg("text", { x: box.right - 5, y: y - 5, "text-anchor": "end", class: "note" }, label));
  }

  addPointer() {
    let start = null;
    const xOf = (event) => event.clientX - this.plot.getBoundingClientRect().left;
    this.plot.addEventListener("pointerdown", (event) => { start = xOf(event); });
    this.plot.addEventListener("pointermove", (event) => this.pointAt(xOf(event), start));
    this.plot.addEventListener("pointerup", (event) => {
      const end = xOf(event);
      if (start !== null && Math.abs(end - start) > 12) {
        this.zoomTo([start, end].sort((a, b) => a - b).map((at) => this.scale.x.value(at)));
      }
      start = null;
    });
    this.plot.addEventListener("pointerleave", () => { start = null; this.pointAt(null); });
    this.plot.addEventListener("dblclick", () => this.zoomTo(null));
    this.plot.addEventListener("keydown", (event) => this.onKey(event));
  }

  // Arrows move the reading line, + zooms in around it, Escape shows the whole range.
  onKey(event) {
    const { left, right } = this.box;
    const at = this.cursor ?? (left + right) / 2;
    const moves = { ArrowLeft: -12, ArrowRight: 12 };
    if (event.key in moves) this.pointAt(Math.min(right, Math.max(left, at + moves[event.key])));
    else if (event.key === "+") this.zoomTo([at - (right - left) / 4, at + (right - left) / 4].map(this.scale.x.value));
    else if (event.key === "Escape") this.zoomTo(null);
    else return;
    event.preventDefault();
  }

  // Show the values of all curves at this pixel, and the range that is being chosen.
  pointAt(at, start = null) {
    const { left, right, top, bottom } = this.box;
    this.cursor = at === null || at < left || at > right ? null : at;
    this.pointer.replaceChildren();
    if (this.cursor === null) {
      this.reading.textContent = "";
      return;
    }
    if (start !== null) {
      const [a, b] = [Math.min(start, at), Math.max(start, at)];
      this.pointer.append(svg("rect", { x: a, y: top, width: b - a, height: bottom - top, class: "chosen" }));
    }
    this.pointer.append(svg("line", { x1: at, x2: at, y1: top, y2: bottom, class: "cursor" }));
    const parts = this.visible.filter(({ kind }) => kind !== "band").map((series) => this.valueAt(series, at));
    const where = `${this.current.x_label || "x"} ${shown(this.scale.x.value(at))}`;
    this.reading.textContent = [where, ...parts.filter(Boolean)].join(" · ");
  }

  valueAt({ name, x, y, labels }, at) {
    let best = -1;
    let distance = 25;
    x.forEach((value, i) => {
      const away = Math.abs(this.scale.x.pixel(value) - at);
      if (away < distance && Number.isFinite(y[i])) [best, distance] = [i, away];
    });
    if (best < 0) return "";
    const place = { cx: this.scale.x.pixel(x[best]), cy: this.scale.y.pixel(y[best]), r: 3.5, class: "dot" };
    if (Number.isFinite(place.cy)) this.pointer.append(svg("circle", place));
    return `${labels ? labels[best] : name} ${shown(y[best])}`;
  }
}
