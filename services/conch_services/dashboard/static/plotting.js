// What all charts have alike: colours of the theme, axes with titles, and one plug-in of uPlot for what stands under the
// cursor, zoom, keys, markers and bands.
import { away } from "./live.js";
import { clock, day, make, signed } from "./words.js";

const FONT = "11px Inter, system-ui, sans-serif";
const STEPS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1e3, 2e3, 2500, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];
const probe = document.body.appendChild(document.createElement("span"));
probe.hidden = true;
let painted = new Map(); // colour's name and strength -> what a canvas takes, in the theme of now
const shown = new Set();

/** A colour of app.css, `c1` say, as a canvas takes it; `strength` 0..1 is how much covers what is below. */
export function colour(name, strength = 1) {
  const key = `${name} ${strength}`;
  if (!painted.has(key)) {
    probe.style.color = strength < 1 ? `color-mix(in srgb, var(--${name}) ${100 * strength}%, transparent)` : `var(--${name})`;
    painted.set(key, getComputedStyle(probe).color);
  }
  return painted.get(key);
}

function themeChanged() {
  painted = new Map();
  for (const one of shown) one.redraw(false, false);
}
new MutationObserver(themeChanged).observe(document.documentElement, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);

/** The axis of x with its title; numbers are whole, `values` writes others. */
export function along(title, values = null) {
  const write = values ?? ((_, at) => at.map((x) => (Number.isInteger(x) ? x.toLocaleString("en") : "")));
  return { ...axis(), ...titled(title, 26, 28), space: 70, values: write, ...(values ? {} : { incrs: STEPS }) };
}

/** The axis of y with its title. */
export function upward(title, values = (_, at) => at.map((y) => `${+y.toFixed(4)}`.replace("-", "\u2212"))) {
  return { ...axis(), ...titled(title, 42, 42), space: 36, values };
}

const axis = () => ({ stroke: () => colour("faint"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { show: false }, font: FONT });
const titled = (title, size, bare) => (title ? { size, label: title, labelSize: 14, labelGap: 0, labelFont: FONT } : { size: bare });

/** The range of y: what there is and 0, with some room. */
export function around(_, low, high) {
  const least = Math.min(low ?? 0, 0), most = Math.max(high ?? 0, 0), room = Math.max(most - least, 0.02) * 0.06;
  return [least < 0 ? least - room : 0, most + room];
}

const ASK_MS = 150; // the cursor rests for so long before the act below it is asked for
const DASH = [4, 3];
const LEAST_DRAG = 8; // pixels
const MOST_ASKED = 200;
const LABEL_ROWS = 3; // labels of markers one below the other; the last one counts those that have no room
const acts = new Map(); // cycle -> {cycle, time, act, total} of the nearest act, or {}

async function ask(cycle) {
  if (!acts.has(cycle) && !away()) {
    const { prefix, query } = document.body.dataset;
    const answer = await fetch(`${prefix}/story/cycle?number=${cycle}${query.replace("?", "&")}`).catch(() => null);
    acts.set(cycle, answer?.ok ? await answer.json() : {});
    if (acts.size > MOST_ASKED) acts.delete(acts.keys().next().value);
  }
  return acts.get(cycle) ?? {};
}

/**
 * The plug-in for the chart in `figure` (class chart, with a .plot in it).
 *
 * under(u): the {at, x} under the cursor, else null: at is the place in the data; name(x, at): what an x is, in words;
 * lines(at, x): [[words, class or empty], …], said below it; cycles: whether an x is a cycle, whose act is then asked for and
 * told; pick(x): a point was clicked, or Enter pressed on it; zoom(first, last): so much of the x axis was drawn over;
 * marks(): vertical lines, [{x, label, colour, dashed}]; head: pixels at the top that their labels leave free; bands: [{series: [upper, lower], fill}], as uPlot takes them.
 */
export function explore(figure, { name, lines, under = nearest, cycles = false, pick = null, zoom = null, marks = () => [], head = 0, bands = [] }) {
  const plot = figure.querySelector(".plot");
  const tip = figure.appendChild(make("div", { class: "tip", hidden: "" }));
  const said = figure.appendChild(make("span", { class: "unseen", "aria-live": "polite" }));
  let dragged = false; // the click behind it picks nothing
  let asking = null, u = null;

  const cycle = (place) => acts.get(place.x)?.cycle ?? place.x;
  const here = () => u.over.matches(":hover") || plot === document.activeElement; // charts with one key move cursors together

  function told({ at, x }) {
    const act = cycles ? acts.get(x) : null;
    const head = act?.cycle == null ? [[name(x, at), ""]] : [[`cycle ${act.cycle.toLocaleString("en")} · ${when(act.time)} · ${signed(act.total)}`, ""], [act.act, ""]];
    return [...head, ...lines(at, x)].slice(0, 10);
  }

  function show(place, aloud) {
    const found = told(place);
    tip.replaceChildren(...found.map(([words, kind], at) => make(at ? "span" : "b", kind ? { class: kind } : {}, words)));
    tip.hidden = false;
    const x = u.valToPos(place.x, "x") + 56, right = x > plot.clientWidth / 2;
    tip.style.left = right ? "auto" : `${x + 12}px`;
    tip.style.right = right ? `${plot.clientWidth - x + 12}px` : "auto";
    if (!aloud) return;
    const act = acts.get(place.x), more = act?.cycle == null ? [] : [act.act, signed(act.total), when(act.time)];
    said.textContent = `${name(place.x, place.at)}: ${[...lines(place.at, place.x).map(([words]) => words), ...more].join(", ")}`;
  }

  function moved(aloud = false) {
    const place = here() ? under(u) : null;
    tip.hidden = place == null;
    clearTimeout(asking);
    if (!place) return;
    show(place, aloud);
    if (!cycles || acts.has(place.x)) return;
    asking = setTimeout(async () => {
      await ask(place.x);
      if (!tip.hidden && under(u)?.x === place.x) show(place, aloud);
    }, ASK_MS);
  }

  function chosen() {
    const { left, width } = u.select;
    if (!zoom || width < LEAST_DRAG || !u.data[0].length) return;
    dragged = true;
    const [first, last] = [left, left + width].map((at) => Math.round(u.posToVal(at, "x")));
    if (last > first) zoom(first, last);
  }

  function ready(made) {
    u = made;
    shown.add(u);
    plot.onclick = () => {
      const place = under(u);
      if (dragged) dragged = false;
      else if (pick && place) pick(cycle(place));
    };
    plot.onblur = () => u.setCursor({ left: -10, top: -10 });
    plot.onkeydown = (event) => {
      const xs = u.data[0], place = under(u);
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -xs.length, End: xs.length }[event.key];
      if (event.key === "Enter" && pick && xs.length) pick(place ? cycle(place) : xs.at(-1));
      if (!step || !xs.length) return;
      event.preventDefault();
      const next = Math.max(0, Math.min(xs.length - 1, (u.cursor.idx ?? xs.length) + step));
      u.setCursor({ left: u.valToPos(xs[next], "x"), top: plot.clientHeight / 3 });
      moved(true);
    };
  }

  const sized = new ResizeObserver(() => u?.setSize({ width: plot.clientWidth, height: plot.clientHeight }));
  return {
    opts: (_, options) => {
      options.legend = { show: false };
      options.bands = bands;
      options.cursor = { ...options.cursor, y: false, drag: { x: Boolean(zoom), y: false, setScale: false, dist: LEAST_DRAG } };
    },
    hooks: {
      ready: (made) => { ready(made); sized.observe(plot); },
      setCursor: () => { if (u) moved(); },
      setSelect: () => { if (u) chosen(); },
      draw: (made) => drawMarks(made, marks(), head),
      destroy: () => {
        shown.delete(u);
        sized.disconnect();
        clearTimeout(asking);
        plot.onclick = plot.onblur = plot.onkeydown = null;
        tip.remove();
        said.remove();
      },
    },
  };
}

function nearest(u) {
  const at = u.cursor.idx;
  return at == null ? null : { at, x: u.data[0][at] };
}

/** A time of today by the clock, an older one with its day. */
export function when(iso) {
  return Date.now() - new Date(iso) > 20 * 3600e3 ? day(iso) : clock(iso);
}

/** A dashed or whole line from one place of a canvas to another. */
export function stroke(ctx, [x, y], [toX, toY], paint, dash = DASH) {
  ctx.strokeStyle = paint;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash(dash.map((length) => length * devicePixelRatio));
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(toX, toY);
  ctx.stroke();
  ctx.setLineDash([]);
}

/** Words of a canvas on a plate of the card's ground, so that no line or band behind them runs through them. */
function written(ctx, words, x, y, paint) {
  const wide = ctx.measureText(words).width, scale = devicePixelRatio;
  ctx.fillStyle = colour("card");
  ctx.fillRect(x - 2 * scale, y - 10 * scale, wide + 4 * scale, 13 * scale);
  ctx.fillStyle = paint;
  ctx.fillText(words, x, y);
}

/** A line at each mark, with its label at the top: the labels of marks close together stand one below the other. */
function drawMarks(u, marks, head) {
  const { ctx, bbox } = u, scale = devicePixelRatio, row = 14 * scale;
  ctx.save();
  ctx.font = `${11 * scale}px Inter, system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  const taken = []; // right end of the labels in each row
  const placed = marks.map((mark) => ({ ...mark, at: u.valToPos(mark.x, "x", true) })).filter(({ at }) => at >= bbox.left && at <= bbox.left + bbox.width);
  for (const { at, colour: name, dashed } of placed) stroke(ctx, [at, bbox.top], [at, bbox.top + bbox.height], colour(name), dashed ? DASH : []);
  const labels = [];
  // Beside its line, on the right of it where there is room: a label stands at no other line.
  const room = (text, at) => {
    const wide = ctx.measureText(text).width + 10 * scale;
    return { left: at + wide > bbox.left + bbox.width ? at - wide + 6 * scale : at + 4 * scale, wide };
  };
  const fitting = (text, at) => {
    const most = Math.max(at - bbox.left, bbox.left + bbox.width - at) - 10 * scale;
    let said = text;
    while (said.length > 2 && ctx.measureText(said).width > most) said = `${said.slice(0, -2)}…`;
    return said;
  };
  for (const { at, label: whole, colour: name } of placed) {
    const label = fitting(whole, at), { left, wide } = room(label, at);
    let place = taken.findIndex((end) => end < left);
    if (place < 0) place = taken.length;
    if (place >= LABEL_ROWS) {
      labels.findLast((one) => one.place === LABEL_ROWS - 1).more += 1;
      continue;
    }
    taken[place] = left + wide;
    labels.push({ at, label, name, place, more: 0 });
  }
  for (const { at, label, name, place, more } of labels) {
    const text = fitting(more ? `${more + 1} changes: ${label}` : label, at);
    written(ctx, text, room(text, at).left, bbox.top + head * scale + row * (place + 1), colour(name));
  }
  ctx.restore();
}
