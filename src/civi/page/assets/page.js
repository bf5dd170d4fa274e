// Start of the page: charts, tables and the choice of light or dark.

const KINDS = { chart: CurveChart, contours: PlaneChart, joint: JointChart };

function start() {
  const charts = new Map();
  for (const figure of document.querySelectorAll("figure.chart")) {
    const spec = content(figure);
    charts.set(figure.id, new KINDS[spec.kind](figure, spec));
  }
  for (const place of document.querySelectorAll("div.table")) startTable(place, charts);
  const redraw = () => charts.forEach((chart) => chart.draw());
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) redraw();
    width = window.innerWidth;
  });
  const root = document.documentElement;
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  window.addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });
  root.dataset.ready = "yes";
}

start();
