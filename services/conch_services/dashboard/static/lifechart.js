// The curve of a whole life: mean, band and ends of each group of cycles, with flags, vertical lines and a tooltip.
import { colour, themed } from "./charts.js";
import uPlot from "./vendor/uPlot.esm.min.js";
import { clock, day, make, signed } from "./words.js";

const LINES = { weights: "c4", policy: "c2", generation: "c7", pause: "c6", quiet: "c6" };
const LABEL_ROOM = 110; // pixels between two labels of lines
const ASK_MS = 150; // the cursor rests for so long before the act below it is asked for
const LEAST_DRAG = 8; // pixels
const MOST_ASKED = 200;
const font = "11px Inter, system-ui, sans-serif";

/** The chart in `figure`; `open(cycle)` is called for a click; `ask(cycle)` gives {cycle, time, act, total} or {};
 * `zoom(first, last)` is called with the cycles that were drawn over. */
export function lifeChart(figure, { open, ask, zoom }) {
  const plot = figure.querySelector(".plot"), tip = figure.querySelector(".tip");
  const said = figure.appendChild(make("span", { class: "unseen", "aria-live": "polite" }));
  const known = new Map(); // cycle -> what was said of it
  let data = null, asking = null;
  const axis = { stroke: () => colour("faint"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { show: false }, font };
  const bare = { stroke: null, width: 0, points: { show: false } };
  const made = new uPlot({
    width: plot.clientWidth || 300, height: plot.clientHeight || 210, padding: [18, 20, 0, 0], legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false, setScale: false, dist: 8 }, points: { show: false } },
    scales: { x: { time: false, range: () => (data ? [data.begin, Math.max(data.behind, data.begin + 1)] : [0, 1]) }, y: { range: (_, low, high) => around(Math.min(low ?? 0, 0), Math.max(high ?? 0, 0)) } },
    axes: [
      { ...axis, size: 26, label: "cycle", labelSize: 14, labelGap: 0, labelFont: font, space: 70, incrs: [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1e3, 2e3, 2500, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6], values: (_, at) => at.map((x) => x.toLocaleString("en")) },
      { ...axis, size: 42, label: "reward", labelSize: 14, labelGap: 0, labelFont: font, space: 36, values: (_, at) => at.map((y) => signed(y, at.some((one) => Math.abs(one * 10 - Math.round(one * 10)) > 1e-6) ? 2 : 1)) },
    ],
    series: [{}, { ...bare }, { ...bare }, { ...bare }, { ...bare }, { stroke: () => colour("c1"), width: 2, spanGaps: true, points: { show: (u) => u.data[0].length === 1 } }],
    bands: [{ series: [2, 1], fill: () => colour("c1", 0.1) }, { series: [4, 3], fill: () => colour("c1", 0.22) }],
    hooks: { draw: [drawn], setCursor: [() => moved()], setSelect: [chosen] },
  }, [[], [], [], [], [], []], plot);
  themed(made);
  new ResizeObserver(() => made.setSize({ width: plot.clientWidth, height: plot.clientHeight })).observe(plot);

  let dragged = false; // the click behind it opens nothing
  function chosen(u) {
    const { left, width } = u.select;
    if (width < LEAST_DRAG || !data) return;
    dragged = true;
    const first = Math.max(data.begin, Math.round(u.posToVal(left, "x"))), last = Math.min(data.behind - 1, Math.round(u.posToVal(left + width, "x")));
    if (last > first) zoom(first, last);
  }

  function drawn(u) {
    if (!data) return;
    const { ctx, bbox } = u, scale = devicePixelRatio;
    ctx.save();
    ctx.font = `${11 * scale}px Inter, system-ui, sans-serif`;
    if (data.baseline) {
      const [value, words] = data.baseline, y = u.valToPos(value, "y", true);
      line(ctx, bbox.left, y, bbox.left + bbox.width, y, colour("edge"));
      ctx.fillStyle = colour("faint");
      ctx.textAlign = "right";
      ctx.fillText(`${words} ${signed(value, 2)}`, bbox.left + bbox.width - 4 * scale, y + 13 * scale);
    }
    ctx.textAlign = "left";
    let free = -Infinity;
    for (const { kind, cycle, words } of data.moments) {
      const x = u.valToPos(cycle, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      line(ctx, x, bbox.top - 14 * scale, x, bbox.top + bbox.height, colour(LINES[kind]));
      if (x < free || x > bbox.left + bbox.width - LABEL_ROOM * scale / 2) continue;
      ctx.fillStyle = colour(LINES[kind]);
      ctx.fillText(words, x + 4 * scale, bbox.top - 5 * scale);
      free = x + Math.max(LABEL_ROOM * scale, ctx.measureText(words).width + 8 * scale);
    }
    ctx.fillStyle = colour("good");
    let taken = -Infinity;
    for (const [cycle] of data.flags) {
      const x = u.valToPos(cycle, "x", true), y = bbox.top + 2 * scale;
      if (x < taken) continue;
      taken = x + 7 * scale;
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(x + 9 * scale, y + 4 * scale);
      ctx.lineTo(x, y + 8 * scale);
      ctx.fill();
      ctx.fillRect(x - scale / 2, y, scale, 18 * scale);
    }
    ctx.restore();
  }

  function line(ctx, x, y, toX, toY, stroke) {
    ctx.strokeStyle = stroke;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(toX, toY);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  /** The cycle under the cursor: of a group of several the one at its place. */
  function under() {
    const at = made.cursor.idx;
    if (at == null || !data) return null;
    const first = data.x[at], number = Math.round(made.posToVal(made.cursor.left, "x"));
    return { at, cycle: Math.max(first, Math.min(number, first + data.width - 1, data.behind - 1)) };
  }

  function lines({ at, cycle }) {
    const told = known.get(cycle);
    const time = data.time[at] == null ? "" : ` · ${when(new Date(1000 * data.time[at]).toISOString())}`;
    const band = data.lower[at] == null ? "" : `; 8 of 10 between ${signed(data.lower[at], 2)} and ${signed(data.upper[at], 2)}`;
    const found = [];
    if (told?.cycle != null) found.push(["b", `cycle ${whole(told.cycle)} · ${when(told.time)} · ${signed(told.total)}`], ["span", told.act]);
    else found.push(["b", `cycle ${whole(cycle)}${time}`]);
    found.push(["span", `cycles ${whole(data.x[at])} to ${whole(Math.min(data.x[at] + data.width, data.behind) - 1)}: mean ${signed(data.mean[at])}, ${signed(data.low[at], 2)} to ${signed(data.high[at], 2)}${band}`]);
    for (const [number, why] of data.flags) if (number >= data.x[at] && number < data.x[at] + data.width) found.push(["span", `⚑ ${why}`, "flag"]);
    for (const one of data.moments) if (one.cycle >= data.x[at] && one.cycle < data.x[at] + data.width) found.push(["span", one.words]);
    return found.slice(0, 7);
  }

  function when(iso) {
    const old = Date.now() - new Date(iso) > 20 * 3600e3;
    return old ? day(iso) : clock(iso);
  }

  function moved(aloud = false) {
    const place = under();
    tip.hidden = place == null;
    clearTimeout(asking);
    if (!place) return;
    show(place, aloud);
    if (known.has(place.cycle)) return;
    asking = setTimeout(async () => {
      known.set(place.cycle, await ask(place.cycle));
      if (known.size > MOST_ASKED) known.delete(known.keys().next().value);
      if (under()?.cycle === place.cycle) show(place, false);
    }, ASK_MS);
  }

  function show(place, aloud) {
    const found = lines(place);
    tip.replaceChildren(...found.map(([tag, words, kind]) => make(tag, kind ? { class: kind } : {}, words)));
    const x = made.valToPos(place.cycle, "x") + 56, right = x > plot.clientWidth / 2;
    tip.style.left = right ? "auto" : `${x + 12}px`;
    tip.style.right = right ? `${plot.clientWidth - x + 12}px` : "auto";
    if (aloud) said.textContent = found.map(([, words]) => words).join("; ");
  }

  plot.onclick = () => {
    if (dragged) { dragged = false; return; }
    const place = under(); if (place) open(known.get(place.cycle)?.cycle ?? place.cycle);
  };
  plot.onblur = () => { made.setCursor({ left: -10, top: -10 }); };
  plot.onkeydown = (event) => {
    const xs = made.data[0], step = { ArrowLeft: -1, ArrowRight: 1, Home: -xs.length, End: xs.length }[event.key];
    const place = under();
    if (event.key === "Enter" && place) open(known.get(place.cycle)?.cycle ?? place.cycle);
    if (!step || !xs.length) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(xs.length - 1, (made.cursor.idx ?? xs.length) + step));
    made.setCursor({ left: made.valToPos(xs[next], "x"), top: plot.clientHeight / 3 });
    moved(true);
  };

  return (fresh) => {
    data = fresh;
    figure.toggleAttribute("data-empty", !data.x.length);
    made.setData([data.x, data.low, data.high, data.lower, data.upper, data.mean]);
  };
}

const whole = (number) => number.toLocaleString("en");

function around(low, high) {
  const room = Math.max(high - low, 0.02) * 0.06;
  return [low < 0 ? low - room : 0, high + room];
}
