// A total as a strip, made of a live fact; strip.py and strip.html make the same of the history.
import { make, signed } from "./words.js";

const OWN = { execution: 2, format: 1, goal: 8, needs: 3, exploration: 4, repetition: 5, progress: 7 };
const COLOURS = 8;
const LEAST = 0.0005;
const SVG = "http://www.w3.org/2000/svg";

/** The colour of a part, 1 to 8, by its name alone. */
export function colourOf(name) {
  return OWN[name] ?? 1 + (crc32(name) % COLOURS);
}

function crc32(text) {
  let crc = -1;
  for (const byte of new TextEncoder().encode(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (0xedb88320 & -(crc & 1));
  }
  return (crc ^ -1) >>> 0;
}

function sorted(adds) {
  const all = Object.entries(adds);
  return [all.filter(([, one]) => one >= LEAST).sort((a, b) => b[1] - a[1]), all.filter(([, one]) => one <= -LEAST).sort((a, b) => a[1] - b[1])];
}

const sum = (some) => some.reduce((all, [, one]) => all + Math.abs(one), 0);

/** The strip of {name: amount}, which add up to the total. */
export function stripOf(adds, total, kind = "") {
  const [paid, taken] = sorted(adds);
  const longest = Math.max(1, sum(paid), sum(taken));
  const words = [...paid, ...taken].map(([name, one]) => `${name} ${signed(one)}`).join(", ") || "nothing was paid";
  const drawn = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ class: `adds ${kind}`, viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": `${words} = ${signed(total)}` })) drawn.setAttribute(name, value);
  const title = drawn.appendChild(document.createElementNS(SVG, "title"));
  title.textContent = `${words} = ${signed(total)}`;
  rects(drawn, paid, longest, 0, taken.length ? 6 : 10, "");
  rects(drawn, taken, longest, 7, 3, " taken");
  return drawn;
}

function rects(drawn, some, longest, y, height, kind) {
  let x = 0;
  for (const [name, amount] of some) {
    const width = (100 * Math.abs(amount)) / longest;
    const one = drawn.appendChild(document.createElementNS(SVG, "rect"));
    for (const [key, value] of Object.entries({ class: `of${colourOf(name)}${kind}`, x: x.toFixed(2), width: width.toFixed(2), y, height })) one.setAttribute(key, value);
    x += width;
  }
}

/** The amounts as a list, each with its colour. */
export function legendOf(adds) {
  return make("ul", { class: "adds-list" }, ...sorted(adds).flat().map(([name, one]) =>
    make("li", {}, make("i", { class: `swatch of${colourOf(name)}${one < 0 ? " taken" : ""}` }), make("span", {}, name), make("b", {}, signed(one)))));
}
