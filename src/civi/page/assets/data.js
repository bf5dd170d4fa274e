"use strict";

// An element with attributes and children; `ns` is "svg" for parts of a drawing.
function make(name, attributes = {}, children = [], ns = "html") {
  const space = ns === "svg" ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const element = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== "") element.setAttribute(key, value);
  }
  element.append(...[children].flat());
  return element;
}

const svg = (name, attributes, children) => make(name, attributes, children, "svg");

// The numbers of an array that civi.page.data packed: 16-bit integers in base64 with their range; 65535 is a gap.
function numbers(packed) {
  const bytes = Uint8Array.from(atob(packed.base64), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const step = (packed.high - packed.low) / 65534;
  return Float64Array.from({ length: bytes.length / 2 }, (_, i) => {
    const whole = view.getUint16(2 * i, true);
    return whole === 65535 ? NaN : packed.low + step * whole;
  });
}

// A colour of a chart: as it is on a white ground, lighter on a dark one (--lift in page.css).
const MIXES = CSS.supports("color", "color-mix(in oklab, red, blue)");
const ink = (colour) => (MIXES ? `color-mix(in oklab, ${colour}, white var(--lift))` : colour);

// A number with about four digits.
function shown(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

// Labels of the ticks of an axis, with as many decimals as tell neighbours apart.
function labelsOf(ticks) {
  const labels = ticks.map(shown);
  if (new Set(labels).size === labels.length) return labels;
  const gap = Math.min(...ticks.slice(1).map((tick, i) => tick - ticks[i]));
  const decimals = Math.min(20, Math.max(0, Math.ceil(-Math.log10(gap) - 1e-9)));
  return ticks.map((tick) => tick.toFixed(decimals));
}

// The data of a figure; every array in it becomes numbers when it is first used.
const content = (figure) => JSON.parse(figure.querySelector("script.data").textContent);
