// Lines over cycles or time: uPlot with the page's colours, a legend with buttons, keys, and cursors that go together.
import { along, around, colour, explore, upward } from "./plotting.js";
import uPlot from "./vendor/uPlot.esm.min.js";
import { fixed, make, signed } from "./words.js";

const COLOURS = ["c1", "c2", "c3", "c4", "c5", "c7", "c8", "c6"];
/** Lines may lie on each other: through the gaps of one the other is seen, and each is told by more than its colour. */
export const DASHES = [[], [8, 5], [3, 4], [12, 4, 3, 4], [2, 2], [16, 4]];

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
        const some = names.map((label, at) => ({ label, dash: DASHES[at % DASHES.length], colour: colours[label] ? `c${colours[label]}` : COLOURS[at % COLOURS.length], ...looks[at % (looks.length || 1)] }));
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
 * digits: of a value; unit: what an x is, the title of its axis; title: of the y axis; plain: values have no sign; newest: whether each
 * name has its newest value beside it while no point is under the cursor; pick(x): a
 * point was clicked, or Enter pressed on it; zoom(first, last): so much of the x axis was drawn over.
 * Gives {set(data, marks), remove()}: data as uPlot takes it, [xs, ys of the first series, …]; marks: vertical lines,
 * [{x, label, good}].
 */
export function chart(figure, { series, range = null, time = false, sync = null, digits = 3, unit = "cycle", plain = false, newest = true, title = "", pick = null, zoom = null }) {
  let marked = [];
  const plot = figure.querySelector(".plot");
  const values = legend(figure.querySelector(".legend"), series, (place, show) => made.setSeries(place + 1, { show }));
  const write = (value) => (value == null ? "–" : range || plain ? fixed(value, digits) : signed(value, digits));
  const named = (x) => (time ? new Date(1000 * x).toLocaleString("en-GB") : `${unit} ${x.toLocaleString("en")}`);
  // Behind each name its value under the cursor, else the newest.
  const told = (u) => values((place) => {
    const ys = u.data[place + 1] ?? [], at = u.cursor.idx;
    return at != null ? write(ys[at]) : newest ? write(ys.findLast((y) => y != null)) : "";
  });
  const lines = (at) => series.map(({ label }, place) => [`${label} ${write(made.data[place + 1][at])}`, ""]).filter((_, place) => made.series[place + 1].show);

  const made = new uPlot({
    width: plot.clientWidth || 300,
    height: plot.clientHeight,
    padding: [8, 8, 0, 0],
    cursor: { points: { size: 6 }, sync: sync ? { key: sync, setSeries: false } : undefined },
    scales: { x: { time }, y: { range: range ? () => range : around } },
    axes: [along(time ? "" : unit, time ? hours : null), upward(title)],
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
    plugins: [explore(figure, { name: named, lines, cycles: !time && unit === "cycle", pick, zoom, marks: () => marked })],
    hooks: { setCursor: [told], setData: [told] },
  }, [[], ...series.map(() => [])], plot);

  const table = behind(figure, () => [[time ? "time" : unit, ...series.map((one) => one.label)],
    made.data[0].map((x, place) => [time ? new Date(1000 * x).toLocaleString("en-GB") : `${x}`, ...series.map((_, at) => write(made.data[at + 1][place]))])]);

  return {
    set(data, marks = []) {
      marked = marks.map(({ x, label, good }) => ({ x, label, colour: good ? "good" : "bad", dashed: !good }));
      figure.toggleAttribute("data-empty", data[0].length === 0);
      made.setData(data);
      table.draw();
    },
    remove() {
      table.remove();
      made.destroy();
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
    fold.replaceChildren(fold.firstElementChild, make("div", { class: "wide tall-box", tabindex: "0", role: "group", "aria-label": "Values of the chart" }, table));
  };
  fold.addEventListener("toggle", draw);
  return { draw, remove: () => fold.remove() };
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
    swatch.className = `swatch${one.dash?.length ? ` dash${one.dash.join("-")}` : ""}`;
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
