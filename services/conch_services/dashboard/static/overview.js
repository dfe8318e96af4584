// The overview, live: rows, figures and charts from the place in the stream that the page was drawn from.
import "./approving.js";
import { chart, movingMean } from "./charts.js";
import { actionsOf, executed, keyFigures, level, rowOf } from "./figures.js";
import { follow, on, paced, renew } from "./live.js";
import { post } from "./control.js";
import { say } from "./page.js";
import { isNews, rowFor } from "./rows.js";
import { colourOf } from "./strip.js";
import { given, make, percent, sentence } from "./words.js";

const { place, shown, distribution, rows: most, cycles } = given("given");
const { agent, prefix, query } = document.body.dataset;
const WINDOW = 25;
const byCycle = new Map(cycles.map((row) => [row.cycle, row])); // the order of cycles, as they were put in
const $ = (id) => document.getElementById(id);

// Charts. Their lines are known once there is a cycle; a component that comes later makes them anew.
const open = (cycle) => { location.href = `${prefix}/cycles/${cycle}${query}`; };
const charts = new Map(); // figure -> {names, chart}

function lines(name, names, options, data) {
  let there = charts.get(name);
  if (there?.names !== names.join()) {
    there?.chart.remove();
    there = { names: names.join(), chart: chart($(name), { sync: "cycles", pick: open, ...options }) };
    charts.set(name, there);
  }
  there.chart.set(data);
}

const COLOURS = ["c1", "c2", "c3", "c4", "c5", "c7", "c8", "c6"];
const each = (names) => names.map((label, place) => ({ label, colour: COLOURS[place % COLOURS.length] }));
const namesIn = (rows, field) => [...new Set(rows.flatMap((row) => Object.keys(row[field] ?? {})))];

function draw() {
  const rows = [...byCycle.values()];
  const xs = rows.map((row) => row.cycle), totals = rows.map((row) => row.total);
  const mean = movingMean(totals, WINDOW);
  lines("reward", ["total"], { series: [
    { label: "total", colour: "c1", strength: 0.35, width: 1 },
    { label: `mean of ${WINDOW}`, colour: "c1", width: 2, fill: 0.1 },
  ] }, [xs, totals, mean]);
  const parts = namesIn(rows, "parts"), needs = namesIn(rows, "needs");
  lines("parts", parts, { series: parts.map((label) => ({ label, colour: `c${colourOf(label)}` })) }, [xs, ...parts.map((name) => movingMean(rows.map((row) => row.parts[name] ?? 0), WINDOW))]);
  lines("needs", needs, { series: each(needs), range: [-0.02, 1.02], digits: 2 }, [xs, ...needs.map((name) => rows.map((row) => row.needs?.[name] ?? null))]);

  for (const [name, [value, note]] of Object.entries(keyFigures(rows))) {
    const card = $(`key-${name}`);
    card.querySelector("strong").textContent = value;
    if (note != null) card.querySelector("small").textContent = note;
  }
  sparks(rows, mean);
  bars($("actions"), actionsOf(rows.slice(-distribution)));
  $("actions").nextElementSibling.hidden = rows.length > 0;
  $("span").textContent = rows.length === 1 ? "1 cycle" : `last ${rows.length} cycles`;
}

function sparks(rows, mean) {
  const share = (held, of = () => true) => movingMean(rows.map((row) => (of(row) ? Number(held(row)) : null)), WINDOW);
  const skills = rows.map((_, at) => new Set(rows.slice(Math.max(0, at + 1 - WINDOW), at + 1).filter(executed).map((row) => row.skill)).size);
  spark("reward", mean);
  spark("format", share((row) => row.valid));
  spark("tools", share((row) => row.outcome === "success", executed));
  spark("needs", rows.map(level));
  spark("exploration", skills);
  spark("coverage", movingMean(rows.map((row) => row.coverage), WINDOW));
}

/** A line of these values, from the lowest to the highest of them. */
function spark(name, values) {
  const known = values.map((value, at) => [at, value]).filter(([, value]) => value != null);
  const low = Math.min(...known.map(([, value]) => value)), high = Math.max(...known.map(([, value]) => value));
  const x = (at) => ((100 * at) / Math.max(values.length - 1, 1)).toFixed(2);
  const y = (value) => (high - low < 1e-9 ? 13 : 24 - (22 * (value - low)) / (high - low)).toFixed(2);
  const line = known.length > 1 ? `M${known.map(([at, value]) => `${x(at)} ${y(value)}`).join("L")}` : "";
  const [under, over] = $(`key-${name}`).querySelectorAll("path");
  over.setAttribute("d", line);
  under.setAttribute("d", line && `${line}L${x(known.at(-1)[0])} 26L${x(known[0][0])} 26z`);
}

function bars(list, shares) {
  while (list.children.length > shares.length) list.lastElementChild.remove();
  shares.forEach(([name, part], at) => {
    const item = list.children[at] ?? list.appendChild(barItem());
    const [label, bar, said] = item.children;
    label.textContent = name;
    bar.firstElementChild.setAttribute("width", (100 * part).toFixed(2));
    bar.firstElementChild.setAttribute("class", name === "invalid" ? "bad" : "");
    said.textContent = percent(part, 0);
  });
}

function barItem() {
  const item = make("li", {}, make("span"));
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of Object.entries({ class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" })) drawn.setAttribute(name, value);
  drawn.append(document.createElementNS(drawn.namespaceURI, "rect"));
  drawn.firstElementChild.setAttribute("height", "8");
  item.append(drawn, make("b"));
  return item;
}

// The table: a row when the act was taken, its total once it is recorded, in place when that is revised.
const body = $("cycles");

function show(fact) {
  const there = body.querySelector(`[data-cycle="${fact.cycle}"]`);
  if (there && !isNews(fact, there)) return;
  const behind = [...body.children].find((row) => Number(row.dataset.cycle) < fact.cycle);
  if (!there && !behind && body.children.length >= most) return;
  const row = rowFor(fact, query);
  if (there) there.replaceWith(row);
  else body.insertBefore(row, behind ?? null);
  while (body.children.length > most) body.lastElementChild.remove();
  $("no-cycles").hidden = true;
}

function keep(fact) {
  const ordered = byCycle.has(fact.cycle) || fact.cycle > ([...byCycle.keys()].at(-1) ?? -1);
  byCycle.set(fact.cycle, rowOf(fact));
  if (!ordered) {
    const sorted = [...byCycle].sort(([a], [b]) => a - b);
    byCycle.clear();
    for (const [cycle, row] of sorted) byCycle.set(cycle, row);
  }
  while (byCycle.size > shown) byCycle.delete(byCycle.keys().next().value);
}

// Alarms, and what was said.
function alarm(fact) {
  const name = `${fact.alarm} ${fact.component ?? ""}`;
  const list = $("alarms");
  [...list.children].find((one) => one.dataset.alarm === name)?.remove();
  if (fact.active) {
    const said = make("p", { class: fact.severity === "serious" ? "banner bad" : "banner", "data-alarm": name }, make("strong", {}, fact.name), ` ${fact.what} `, make("span", { class: "bounds" }, `(${fact.bounds})`), " ");
    if (fact.begun != null) said.append(make("a", { href: `${prefix}/cycles/${fact.begun}${query}` }, `since cycle ${fact.begun}`));
    said.append(make("small", {}, fact.meaning));
    list.append(said);
  }
  list.hidden = list.children.length === 0;
  const card = $("key-alarms");
  card.removeAttribute("data-unknown");
  card.querySelector("strong").textContent = list.children.length;
  card.querySelector("small").textContent = list.children.length ? "go on" : "all is quiet";
}

const drawing = paced(draw);
const rows = new Map(); // what came since the last drawing, by cycle: rows of a burst are made once
const tables = paced(() => { for (const fact of rows.values()) show(fact); rows.clear(); });

function met(fact) {
  if (!rows.size && !document.hidden) show(fact);
  else rows.set(fact.cycle, fact);
  tables.touch();
}
on("action.taken", met);
on("experience.recorded", (fact) => { met(fact); keep(fact); drawing.touch(); });
on("alarm.raised", alarm);

// More than can be shown: the newest rows go on, and once it is over the history says what was left out.
const CALM_MS = 3000;
let calm = null;
on("missed", () => {
  clearTimeout(calm);
  calm = setTimeout(renew, CALM_MS);
});

// The goals: drawn again soon after one changes, and with the measures of new cycles now and then.
const GOALS_MS = 3000;
const GOALS_KEPT_MS = 2100; // the server keeps its list for 2 s
let goalsSoon = null;
function goalsAgain(ms) {
  goalsSoon ??= setTimeout(() => {
    goalsSoon = null;
    window.htmx.trigger($("goals"), "stale");
  }, ms);
}
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.goal) return;
  event.preventDefault();
  const verb = event.submitter.value, wrong = form.querySelector(".wrong");
  const answer = await post(`goal/${verb}`, { goal: form.dataset.goal }).catch(() => null);
  wrong.textContent = answer?.ok ? "" : answer ? await sentence(answer) : "The dashboard does not answer.";
  if (!answer?.ok) return;
  (verb === "accept" ? form : form.closest("li")).remove();
  say(verb === "accept" ? "The goal is accepted: it pays from now on." : "The goal is vetoed.");
});
for (const kind of ["goal.set", "goal.reached", "goal.dropped"]) on(kind, () => goalsAgain(250));
for (const kind of ["goal.accepted", "goal.dropped"]) on(kind, () => setTimeout(() => window.htmx.trigger($("goals"), "stale"), GOALS_KEPT_MS));
on("experience.recorded", () => goalsAgain(GOALS_MS));

// The costs: drawn again a while after a cycle that used tokens.
let costSoon = null;
on("experience.recorded", ({ tokens }) => {
  if (!tokens) return;
  costSoon ??= setTimeout(() => {
    costSoon = null;
    window.htmx.trigger($("cost"), "stale");
  }, GOALS_MS);
});

// What was not known while the bus was away the history does not have: it is asked for once the bus is there.
let gone = false;
on("state", ({ live }) => {
  if (live && gone && $("key-alarms").hasAttribute("data-unknown")) renew();
  gone = !live;
});

draw();
follow(place, agent);
