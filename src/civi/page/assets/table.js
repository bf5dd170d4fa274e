// Tables: a click on a title sorts, the search field filters, the name of a row can select the view of a chart.

function sortBy(table, column, button) {
  const cell = button.closest("th");
  const falls = cell.getAttribute("aria-sort") === "ascending";
  for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", falls ? "descending" : "ascending");
  const key = (row) => {
    const text = row.cells[column].textContent.trim();
    return text === "-" ? NaN : Number.isNaN(Number(text)) ? text : Number(text);
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return (Number.isNaN(a) ? 1 : 0) - (Number.isNaN(b) ? 1 : 0) || a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((a, b) => (falls ? -1 : 1) * compare(key(a), key(b)));
  body.append(...rows);
}

function filterRows(place, words) {
  const rows = [...place.querySelectorAll("tbody tr")];
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
  }
  place.querySelector(".found").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
}

function startTable(place, charts) {
  const table = place.querySelector("table");
  table.querySelectorAll("thead button").forEach((button, column) => {
    button.addEventListener("click", () => sortBy(table, column, button));
  });
  place.querySelector("input")?.addEventListener("input", (event) => filterRows(place, event.target.value));
  for (const button of table.querySelectorAll("[data-shows]")) {
    button.addEventListener("click", () => {
      const chart = charts.get(button.dataset.shows);
      const i = chart.spec.views.findIndex(({ name }) => name === button.textContent);
      if (i >= 0) chart.show(i);
      chart.figure.scrollIntoView({ block: "nearest" });
    });
  }
}
