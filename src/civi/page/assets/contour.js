// Contours of densities in a plane.

// Directed edges of marching squares by the corners inside (8 top left, 4 top right, 2 bottom right, 1 bottom left).
const CROSSINGS = [
  "", "LB", "BR", "LR", "RT", "LB RT", "BT", "LT", "TL", "TB", "TL BR", "TR", "RL", "RB", "BL", "",
].map((pairs) => pairs.split(" ").filter(Boolean));

// Closed curves around the region where the values exceed a level; grid = { values, columns, rows }.
function ringsOf(grid, level) {
  const { columns, rows } = grid;
  const value = (i, j) => (i < 0 || j < 0 || i >= columns || j >= rows ? -Infinity : grid.values[j * columns + i]);
  const share = (a, b) => (Number.isFinite(a) && Number.isFinite(b) ? (level - a) / (b - a) : a > b ? 0 : 1);
  const next = new Map();
  for (let j = -1; j < rows; j += 1) {
    for (let i = -1; i < columns; i += 1) {
      const [bl, br, tl, tr] = [value(i, j), value(i + 1, j), value(i, j + 1), value(i + 1, j + 1)];
      const inside = 8 * (tl > level) + 4 * (tr > level) + 2 * (br > level) + (bl > level);
      const edges = {
        T: [`h${i},${j + 1}`, () => [i + share(tl, tr), j + 1]],
        B: [`h${i},${j}`, () => [i + share(bl, br), j]],
        L: [`v${i},${j}`, () => [i, j + share(bl, tl)]],
        R: [`v${i + 1},${j}`, () => [i + 1, j + share(br, tr)]],
      };
      for (const [from, to] of CROSSINGS[inside]) next.set(edges[from][0], [edges[to][0], edges[from][1]()]);
    }
  }
  const rings = [];
  while (next.size) {
    const ring = [];
    let [key] = next.keys();
    while (next.has(key)) {
      const [after, point] = next.get(key);
      next.delete(key);
      ring.push(point);
      key = after;
    }
    rings.push(ring);
  }
  return rings;
}

// Levels above which the grid holds these fractions of its mass.
function levelsOf(values, masses) {
  const falling = [...values].filter((value) => value > 0).sort((a, b) => b - a);
  const total = falling.reduce((sum, value) => sum + value, 0);
  return masses.map((mass) => {
    let held = 0;
    return falling.find((value) => (held += value) >= mass * total) ?? Infinity;
  });
}

// The draws as a smooth density on a grid; draws outside of the limits are left out.
function gridOf(x, y, weights, limits, side = 56) {
  const [[x0, x1], [y0, y1]] = limits;
  const counts = new Float64Array(side * side);
  for (let k = 0; k < x.length; k += 1) {
    const i = Math.floor(((x[k] - x0) / (x1 - x0)) * side);
    const j = Math.floor(((y[k] - y0) / (y1 - y0)) * side);
    if (i >= 0 && j >= 0 && i < side && j < side) counts[j * side + i] += weights ? weights[k] : 1;
  }
  const smooth = blurred(blurred(counts, side, 1), side, side);
  const half = [(x1 - x0) / side / 2, (y1 - y0) / side / 2];
  return {
    values: smooth, columns: side, rows: side,
    x: [x0 + half[0], x1 - half[0]], y: [y0 + half[1], y1 - half[1]],
  };
}

// A Gaussian blur of 1.8 cells along one axis of a square grid; `step` is 1 along rows and `side` along columns.
function blurred(values, side, step) {
  const kernel = Array.from({ length: 13 }, (_, k) => Math.exp(-0.5 * ((k - 6) / 1.8) ** 2));
  const across = step === 1 ? side : 1;
  return values.map((_, place) => {
    const at = Math.floor(place / step) % side;
    const line = Math.floor(place / across) % side;
    let sum = 0;
    kernel.forEach((weight, k) => {
      const other = at + k - 6;
      if (other >= 0 && other < side) sum += weight * values[other * step + line * across];
    });
    return sum;
  });
}

class PlaneChart {
  constructor(figure, spec) {
    Object.assign(this, { figure, spec, hidden: new Set() });
    this.plot = figure.querySelector(".plot");
    this.reading = figure.querySelector(".reading");
    this.controls = figure.querySelector(".controls");
    this.setUp();
    this.plot.addEventListener("pointermove", (event) => this.pointAt(event));
    this.plot.addEventListener("pointerleave", () => { this.reading.textContent = ""; });
    this.draw();
  }

  setUp() {
    this.layers = this.spec.grids.map((grid) => {
      const [rows, columns] = grid.values.shape;
      return { ...grid, grid: { values: numbers(grid.values), columns, rows, x: grid.x, y: grid.y } };
    });
    this.points = this.spec.points.map((one) => ({ ...one, x: numbers(one.x), y: numbers(one.y) }));
    this.labels = this.spec.labels;
    this.limits = [this.spec.grids[0].x, this.spec.grids[0].y];
    this.addLegend([...this.layers, ...this.points]);
  }

  addLegend(entries) {
    this.controls.append(legendOf(entries, this.hidden, () => this.draw()));
  }

  draw() {
    const width = this.plot.clientWidth || 640;
    const { box, drawing, data } = canvasOf(this.plot, this.spec.title, Math.min(520, Math.max(300, width * 0.75)));
    const x = scaleOf("linear", ...this.limits[0], box.left, box.right);
    const y = scaleOf("linear", ...this.limits[1], box.bottom, box.top);
    const seen = this.layers.filter(({ name }) => !this.hidden.has(name));
    seen.sort((a, b) => Number(b.filled) - Number(a.filled));
    const points = this.points.filter(({ name }) => !this.hidden.has(name)).map((one) => {
      const d = [...one.x.keys()].map((i) => `M${x.pixel(one.x[i]).toFixed(1)},${y.pixel(one.y[i]).toFixed(1)}h0`);
      return svg("path", { d: d.join(""), stroke: ink(one.colour), class: "points" });
    });
    const filled = seen.filter((layer) => layer.filled).flatMap((layer) => this.contours(layer, x, y));
    const lines = seen.filter((layer) => !layer.filled).flatMap((layer) => this.contours(layer, x, y));
    data.append(...filled, ...points, ...lines);
    drawing.append(...axesOf(box, x, y, this.labels), data);
    this.scale = { x, y };
    this.plot.replaceChildren(drawing);
  }

  contours({ grid, masses, filled, colour, dash }, x, y) {
    const place = ([i, j]) => {
      const at = (share, [low, high]) => low + Math.min(1, Math.max(0, share)) * (high - low);
      const px = x.pixel(at(i / (grid.columns - 1), grid.x));
      return `${px.toFixed(1)},${y.pixel(at(j / (grid.rows - 1), grid.y)).toFixed(1)}`;
    };
    return levelsOf(grid.values, masses).map((level) => {
      const d = ringsOf(grid, level).map((ring) => `M${ring.map(place).join("L")}Z`).join("");
      if (filled) return svg("path", { d, fill: ink(colour), class: "region" });
      return svg("path", { d, stroke: ink(colour), "stroke-dasharray": dash, class: "line", "stroke-width": 1.8 });
    });
  }

  pointAt(event) {
    const box = this.plot.getBoundingClientRect();
    const x = this.scale.x.value(event.clientX - box.left);
    const y = this.scale.y.value(event.clientY - box.top);
    this.reading.textContent = `${this.labels[0]} ${shown(x)} · ${this.labels[1]} ${shown(y)}`;
  }
}

// The joint distribution of two variables that the reader chooses.
class JointChart extends PlaneChart {
  setUp() {
    this.chosen = [...this.spec.chosen];
    this.columns = new Map();
    this.sources = this.spec.sources.map((one) => ({ ...one, weights: one.weights && numbers(one.weights) }));
    ["x", "y"].forEach((axis, k) => {
      const changed = (i) => { this.chosen[k] = i; this.choose(); this.draw(); };
      this.controls.append(choiceOf(axis, this.spec.variables, this.chosen[k], changed).element);
    });
    this.addLegend(this.sources);
    this.points = [];
    this.choose();
  }

  column(source, variable) {
    const key = `${source} ${variable}`;
    if (!this.columns.has(key)) this.columns.set(key, numbers(this.spec.arrays[source][variable]));
    return this.columns.get(key);
  }

  choose() {
    this.labels = this.chosen.map((variable) => this.spec.variables[variable]);
    this.limits = this.chosen.map((variable) => {
      const ends = this.sources.flatMap(({ draws }) => {
        const sorted = Float64Array.from(this.column(draws, variable)).sort();
        return [sorted[Math.floor(0.01 * sorted.length)], sorted[Math.ceil(0.99 * sorted.length) - 1]];
      });
      return limitsOf(ends, "linear", 0.25);
    });
    this.layers = this.sources.map((source) => {
      const [x, y] = this.chosen.map((variable) => this.column(source.draws, variable));
      return { ...source, masses: [0.9, 0.5], grid: gridOf(x, y, source.weights, this.limits) };
    });
  }
}
