// The curve of a whole life: mean, band and ends of each group of cycles, with flags, vertical lines and a tooltip.
import { along, around, colour, explore, stroke, upward, when } from "./plotting.js";
import uPlot from "./vendor/uPlot.esm.min.js";
import { signed } from "./words.js";

const LINES = { weights: "c4", policy: "c2", generation: "c7", start: "c6", pause: "c6", quiet: "c6" };

const LEVELS = [[4, 3], [1, 3]]; // dashes of the first cycles, and of blind choice or the first policy
const FLAGS = 20; // pixels at the top where the flags stand

/** The chart in `figure`; `open(cycle)` is called for a click; `zoom(first, last)` with the cycles that were drawn over. */
export function lifeChart(figure, { open, zoom }) {
  const plot = figure.querySelector(".plot");
  let data = null;
  const bare = { stroke: null, width: 0, points: { show: false } };
  const explored = explore(figure, {
    under,
    cycles: true,
    name: (cycle, at) => `cycle ${whole(cycle)}${data.time[at] == null ? "" : ` · ${when(new Date(1000 * data.time[at]).toISOString())}`}`,
    lines,
    pick: open,
    zoom: (first, last) => zoom(Math.max(data.begin, first), Math.min(data.behind - 1, last)),
    marks: () => (data?.moments ?? []).map(({ kind, cycle, words }) => ({ x: cycle, label: words, colour: LINES[kind], dashed: true })),
    head: FLAGS,
    bands: [{ series: [2, 1], fill: () => colour("c1", 0.1) }, { series: [4, 3], fill: () => colour("c1", 0.18) }],
  });
  const made = new uPlot({
    width: plot.clientWidth || 300, height: plot.clientHeight || 210, padding: [8, 20, 0, 0],
    cursor: { points: { show: false } },
    scales: { x: { time: false, range: () => (data ? [data.begin, Math.max(data.behind, data.begin + 1)] : [0, 1]) }, y: { range: around } },
    axes: [along("cycle"), upward("reward", (_, at) => at.map((y) => signed(y, at.some((one) => Math.abs(one * 10 - Math.round(one * 10)) > 1e-6) ? 2 : 1)))],
    series: [{}, { ...bare }, { ...bare }, { ...bare }, { ...bare }, { stroke: () => colour("c1"), width: 2, spanGaps: true, points: { show: (u) => u.data[0].length === 1 } }],
    plugins: [explored],
    hooks: { draw: [drawn] },
  }, [[], [], [], [], [], []], plot);

  /** The levels that the curve is held against, and a flag for each goal that was reached. */
  function drawn(u) {
    if (!data) return;
    const { ctx, bbox } = u, scale = devicePixelRatio;
    ctx.save();
    for (const [at, [value]] of data.baselines.entries()) {
      const y = u.valToPos(value, "y", true);
      stroke(ctx, [bbox.left, y], [bbox.left + bbox.width, y], colour("edge"), LEVELS[at]);
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

  /** The cycle under the cursor: of a group of several the one at its place. */
  function under(u) {
    if (u.cursor.idx == null || !data) return null; // its group is the one whose begin is nearest: perhaps the next
    const value = u.posToVal(u.cursor.left, "x"), number = Math.round(value);
    const near = u.posToVal(u.cursor.left + 1, "x") - value; // keys put the cursor on a begin, to a pixel
    const behind = data.x.findIndex((first) => first > Math.max(number, value + near / 2));
    const at = behind < 0 ? data.x.length - 1 : Math.max(0, behind - 1), first = data.x[at];
    return { at, x: Math.max(first, Math.min(number, first + data.width - 1, data.behind - 1)) };
  }

  function lines(at) {
    const begin = data.x[at], behind = Math.min(begin + data.width, data.behind);
    const band = data.lower[at] == null ? "" : `; 8 of 10 between ${signed(data.lower[at], 2)} and ${signed(data.upper[at], 2)}`;
    const found = [[`cycles ${whole(begin)} to ${whole(behind - 1)}: mean ${signed(data.mean[at])}, ${signed(data.low[at], 2)} to ${signed(data.high[at], 2)}${band}`, ""]];
    const end = at === data.x.length - 1 ? data.behind + 1 : behind; // what comes after the last group is told with it
    for (const [cycle, why] of data.flags) if (cycle >= begin && cycle < end) found.push([`⚑ ${why}`, "flag"]);
    for (const one of data.moments) if (one.cycle >= begin && one.cycle < end) found.push([`${one.words} · cycle ${whole(one.cycle)}`, ""]);
    return found;
  }

  return (fresh) => {
    data = fresh;
    figure.toggleAttribute("data-empty", !data.x.length);
    made.setData([data.x, data.low, data.high, data.lower, data.upper, data.mean]);
  };
}

const whole = (number) => number.toLocaleString("en");
