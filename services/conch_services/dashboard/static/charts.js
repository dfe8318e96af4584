// Lines over cycles or time: uPlot with the page's colours, a legend with buttons, keys, and cursors that go together.
import uPlot from "./vendor/uPlot.esm.min.js";
import { make, signed } from "./words.js";

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

/** Draw this chart again when the theme changes. */
export function themed(chart) {
  shown.add(chart);
}

const LEAST_DRAG = 8; // pixels
const COLOURS = ["c1", "c2", "c3", "c4", "c5", "c7", "c8", "c6"];

/**
 * What draws the charts of a page: {id of a figure: options of chart, or looks: of its lines one by one} gives a function
 * of {x, lines: {id: {name: values}}, colours: {name: 1 to 8}} that draws all of them; a chart whose lines are others than
 * before is made anew. Other charts keep their zoom, their hidden lines and their cursor.
 */
export function charts(all) {
  const made = new Map(); // figure's id -> {names, chart}
  return ({ x, lines, marks = [], colours = {} }) => {
    for (const [id, { looks = [], ...options }] of Object.entries(all)) {
      const named = lines[id] ?? {}, names = Object.keys(named);
      let there = made.get(id);
      if (there?.names !== names.join("\n")) {
        there?.chart.remove();
        const some = names.map((label, at) => ({ label, colour: colours[label] ? `c${colours[label]}` : COLOURS[at % COLOURS.length], ...looks[at % (looks.length || 1)] }));
        there = { names: names.join("\n"), chart: chart(document.getElementById(id), { series: some, ...options }) };
        made.set(id, there);
      }
      const any = names.some((name) => named[name].some((value) => value !== null));
      there.chart.set(any ? [x, ...Object.values(named)] : [[], ...names.map(() => [])], marks);
    }
  };
}

/**
 * A chart in `figure` (class chart, with a .plot and a .legend in it).
 *
 * series: [{label, colour: "c1", strength, width, fill, dash, hidden}]; range: [low, high] of y, else as the data have it and 0,
 * and values are written with their sign;
 * time: whether x are seconds since 1970 (else cycles); sync: charts with one key move their cursors together;
 * digits: of a value; unit: what an x is, the title of its axis; title: of the y axis; plain: values have no sign; pick(x): a
 * point was clicked, or Enter pressed on it; zoom(first, last): so much of the x axis was drawn over.
 * Gives {set(data, marks), remove()}: data as uPlot takes it, [xs, ys of the first series, …]; marks: vertical lines,
 * [{x, label, good}].
 */
export function chart(figure, { series, range = null, time = false, sync = null, digits = 3, unit = "cycle", plain = false, title = "", pick = null, zoom = null }) {
  let marked = [];
  const plot = figure.querySelector(".plot");
  const said = figure.appendChild(document.createElement("span"));
  said.className = "unseen";
  said.setAttribute("aria-live", "polite");
  const list = figure.querySelector(".legend");
  const values = legend(list, series, (place, show) => made.setSeries(place + 1, { show }));
  const write = (value) => (value == null ? "–" : range || plain ? value.toFixed(digits) : signed(value, digits));
  // Under the cursor, else the newest.
  const where = list.insertBefore(document.createElement("li"), list.firstChild);
  where.className = "where";
  const told = (u) => {
    const at = u.cursor.idx ?? u.data[0].length - 1, x = u.data[0][at];
    where.textContent = x == null ? "" : named(x);
    values((place) => write(u.data[place + 1]?.[at]));
  };
  const named = (x) => (time ? new Date(1000 * x).toLocaleString("en-GB") : `${unit} ${x.toLocaleString("en")}`);
  let dragged = false; // the click behind it picks nothing
  const chosen = (u) => {
    const { left, width } = u.select;
    if (!zoom || width < LEAST_DRAG || !u.data[0].length) return;
    dragged = true;
    const [first, last] = [left, left + width].map((at) => Math.round(u.posToVal(at, "x")));
    if (last > first) zoom(first, last);
  };
  const font = "11px Inter, system-ui, sans-serif";
  const axis = { stroke: () => colour("faint"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { show: false }, font };

  const made = new uPlot({
    width: plot.clientWidth || 300,
    height: plot.clientHeight,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: Boolean(zoom), y: false, setScale: false, dist: LEAST_DRAG }, points: { size: 6 }, sync: sync ? { key: sync, setSeries: false } : undefined },
    scales: { x: { time }, y: { range: range ? () => range : (_, low, high) => around(Math.min(low ?? 0, 0), Math.max(high ?? 0, 0)) } },
    axes: [
      { ...axis, ...(unit && !time ? { size: 26, label: unit, labelSize: 14, labelGap: 0, labelFont: font } : { size: 28 }), space: 70, ...(time ? { values: hours } : { values: (_, at) => at.map((x) => (Number.isInteger(x) ? `${x}` : "")), incrs: [1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 5000, 10000, 100000] }) },
      { ...axis, ...(title ? { size: 42, label: title, labelSize: 14, labelGap: 0, labelFont: font } : { size: 42 }), space: 36, values: (_, at) => at.map((y) => `${+y.toFixed(4)}`) },
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
    hooks: { setCursor: [told], setData: [told], setSelect: [chosen], draw: [(u) => drawMarks(u, marked)] },
  }, [[], ...series.map(() => [])], plot);
  shown.add(made);
  const sized = new ResizeObserver(() => made.setSize({ width: plot.clientWidth, height: plot.clientHeight }));
  sized.observe(plot);

  const at = () => made.data[0][made.cursor.idx ?? made.data[0].length - 1];
  plot.onclick = () => {
    if (dragged) dragged = false;
    else if (pick && made.cursor.idx != null) pick(at());
  };
  plot.onkeydown = (event) => {
    const xs = made.data[0];
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -xs.length, End: xs.length }[event.key];
    if (event.key === "Enter" && pick && xs.length) pick(at());
    if (!step || !xs.length) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(xs.length - 1, (made.cursor.idx ?? xs.length) + step));
    made.setCursor({ left: made.valToPos(xs[next], "x"), top: plot.clientHeight / 3 });
    said.textContent = `${named(xs[next])}: ${series.map((one, place) => `${one.label} ${write(made.data[place + 1][next])}`).join(", ")}`;
  };

  const table = behind(figure, () => [[time ? "time" : unit, ...series.map((one) => one.label)],
    made.data[0].map((x, place) => [time ? new Date(1000 * x).toLocaleString("en-GB") : `${x}`, ...series.map((_, at) => write(made.data[at + 1][place]))])]);

  return {
    set(data, marks = []) {
      marked = marks;
      figure.toggleAttribute("data-empty", data[0].length === 0);
      made.setData(data);
      table.draw();
    },
    remove() {
      table.remove();
      shown.delete(made);
      sized.disconnect();
      made.destroy();
      said.remove();
      where.remove();
    },
  };
}

const ROWS = 25; // newest values that stand in the table behind a chart

/** The values of a chart as a table, made once it is unfolded: for whom lines say nothing. */
function behind(figure, rows) {
  const fold = figure.appendChild(make("details", { class: "as-table" }, make("summary", {}, "As a table")));
  const draw = () => {
    if (!fold.open) return;
    const [head, body] = rows();
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...head.map((one) => make("th", { class: "num", scope: "col" }, one)))),
      make("tbody", {}, ...body.slice(-ROWS).reverse().map(([x, ...values]) => make("tr", {}, make("th", { class: "num", scope: "row" }, x), ...values.map((one) => make("td", { class: "num" }, one))))));
    fold.replaceChildren(fold.firstElementChild, make("div", { class: "wide tall-box", tabindex: "0", role: "region", "aria-label": "Values of the chart" }, table));
  };
  fold.addEventListener("toggle", draw);
  return { draw, remove: () => fold.remove() };
}

/** A line at each mark, with its label at the top: the labels of marks close together stand one below the other. */
function drawMarks(u, marks) {
  const { ctx, bbox } = u, scale = devicePixelRatio, line = 14 * scale;
  ctx.save();
  ctx.font = `${11 * scale}px Inter, system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  const taken = []; // right end of the labels in each row
  for (const { x, label, good } of marks) {
    const at = u.valToPos(x, "x", true);
    if (!(at >= bbox.left && at <= bbox.left + bbox.width)) continue;
    ctx.strokeStyle = ctx.fillStyle = colour(good ? "good" : "bad");
    ctx.setLineDash(good ? [] : [4 * scale, 3 * scale]);
    ctx.lineWidth = scale;
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    const wide = ctx.measureText(label).width + 10 * scale, left = Math.min(at + 4 * scale, bbox.left + bbox.width - wide);
    let row = taken.findIndex((end) => end < left);
    if (row < 0) row = taken.length;
    taken[row] = left + wide;
    ctx.fillText(label, left, bbox.top + line * (row + 1));
  }
  ctx.restore();
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
