// Lines over cycles or time: uPlot with the page's colours, a legend with buttons, keys, and cursors that go together.
import uPlot from "./vendor/uPlot.esm.js";
import { signed } from "./words.js";

const probe = document.body.appendChild(document.createElement("span"));
probe.hidden = true;
let known = new Map(); // colour's name and strength -> what a canvas takes, in the theme of now
const shown = new Set();

/** A colour of app.css, `c1` say, as a canvas takes it; `strength` 0..1 is how much covers what is below. */
export function colour(name, strength = 1) {
  const key = `${name} ${strength}`;
  if (!known.has(key)) {
    probe.style.color = strength < 1 ? `color-mix(in srgb, var(--${name}) ${100 * strength}%, transparent)` : `var(--${name})`;
    known.set(key, getComputedStyle(probe).color);
  }
  return known.get(key);
}

function themeChanged() {
  known = new Map();
  for (const one of shown) one.redraw(false, false);
}
new MutationObserver(themeChanged).observe(document.documentElement, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);

/** Means of the last `window` values up to each place; null values are left out, without any it is null. */
export function movingMean(values, window) {
  let sum = 0, count = 0;
  return values.map((value, place) => {
    if (value != null) { sum += value; count += 1; }
    const gone = place >= window ? values[place - window] : null;
    if (gone != null) { sum -= gone; count -= 1; }
    return count ? sum / count : null;
  });
}

/**
 * A chart in `figure` (class chart, with a .plot and a .legend in it).
 *
 * series: [{label, colour: "c1", strength, width, fill, dash, hidden}]; range: [low, high] of y, else as the data have it and 0,
 * and values are written with their sign;
 * time: whether x are seconds since 1970 (else cycles); sync: charts with one key move their cursors together;
 * digits: of a value; pick(x): a point was clicked, or Enter pressed on it.
 * Gives {set(data), remove()}: data as uPlot takes it, [xs, ys of the first series, …].
 */
export function chart(figure, { series, range = null, time = false, sync = null, digits = 3, pick = null }) {
  const plot = figure.querySelector(".plot");
  const said = figure.appendChild(document.createElement("span"));
  said.className = "unseen";
  said.setAttribute("aria-live", "polite");
  const list = figure.querySelector(".legend");
  const values = legend(list, series, (place, show) => made.setSeries(place + 1, { show }));
  const write = (value) => (value == null ? "–" : range ? value.toFixed(digits) : signed(value, digits));
  // Under the cursor, else the newest.
  const told = (u) => values((place) => write(u.data[place + 1]?.[u.cursor.idx ?? u.data[0].length - 1]));
  const font = "11px Inter, system-ui, sans-serif";
  const axis = { stroke: () => colour("faint"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { show: false }, font };

  const made = new uPlot({
    width: plot.clientWidth || 300,
    height: plot.clientHeight,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 }, sync: sync ? { key: sync, setSeries: false } : undefined },
    scales: { x: { time }, y: { range: range ? () => range : (_, low, high) => around(Math.min(low ?? 0, 0), Math.max(high ?? 0, 0)) } },
    axes: [
      { ...axis, size: 28, space: 70, ...(time ? { values: hours } : { values: (_, at) => at.map((x) => (Number.isInteger(x) ? `${x}` : "")), incrs: [1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 5000, 10000, 100000] }) },
      { ...axis, size: 42, space: 36, values: (_, at) => at.map((y) => `${+y.toFixed(4)}`) },
    ],
    series: [{}, ...series.map((one) => ({
      label: one.label,
      stroke: () => colour(one.colour, one.strength ?? 1),
      fill: one.fill ? () => colour(one.colour, one.fill) : undefined,
      width: one.width ?? 1.5,
      dash: one.dash,
      show: !one.hidden,
      spanGaps: true,
      points: { show: (u) => u.data[0].length === 1, size: 5 },
    }))],
    hooks: { setCursor: [told], setData: [told] },
  }, [[], ...series.map(() => [])], plot);
  shown.add(made);
  const sized = new ResizeObserver(() => made.setSize({ width: plot.clientWidth, height: plot.clientHeight }));
  sized.observe(plot);

  const at = () => made.data[0][made.cursor.idx ?? made.data[0].length - 1];
  plot.onclick = () => pick && made.cursor.idx != null && pick(at());
  plot.onkeydown = (event) => {
    const xs = made.data[0];
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -xs.length, End: xs.length }[event.key];
    if (event.key === "Enter" && pick && xs.length) pick(at());
    if (!step || !xs.length) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(xs.length - 1, (made.cursor.idx ?? xs.length) + step));
    made.setCursor({ left: made.valToPos(xs[next], "x"), top: plot.clientHeight / 3 });
    const name = time ? new Date(1000 * xs[next]).toLocaleString("en-GB") : `cycle ${xs[next]}`;
    said.textContent = `${name}: ${series.map((one, place) => `${one.label} ${write(made.data[place + 1][next])}`).join(", ")}`;
  };

  return {
    set(data) {
      figure.toggleAttribute("data-empty", data[0].length === 0);
      made.setData(data);
    },
    remove() {
      shown.delete(made);
      sized.disconnect();
      made.destroy();
      said.remove();
    },
  };
}

function around(low, high) {
  const room = Math.max(high - low, 0.02) * 0.06;
  return [low < 0 ? low - room : 0, high + room];
}

function hours(_, at) {
  return at.map((seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }));
}

/** A button a series, which shows and hides it; gives what writes a value behind each. */
function legend(list, series, toggle) {
  list.replaceChildren();
  const cells = series.map((one, place) => {
    const button = document.createElement("button");
    const swatch = document.createElement("i");
    const value = document.createElement("b");
    swatch.className = "swatch";
    swatch.style.setProperty("--of", colourRule(one));
    button.type = "button";
    button.setAttribute("aria-pressed", String(!one.hidden));
    button.append(swatch, one.label, value);
    button.addEventListener("click", () => {
      const show = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(show));
      toggle(place, show);
    });
    const item = document.createElement("li");
    item.append(button);
    list.append(item);
    return value;
  });
  return (of) => cells.forEach((cell, place) => { cell.textContent = of(place); });
}

function colourRule({ colour: name, strength = 1 }) {
  return strength < 1 ? `color-mix(in srgb, var(--${name}) ${100 * strength}%, var(--card))` : `var(--${name})`;
}
