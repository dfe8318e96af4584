// The story, live: what happens now from the facts as they come; the life and what needs a person drawn by the server.
import "./approving.js";
import "./control.js";
import { lifeChart } from "./lifechart.js";
import { away, follow, on } from "./live.js";
import { zoom } from "./ranges.js";
import { legendOf, stripOf } from "./strip.js";
import { given, make, signed } from "./words.js";

const { place } = given("given");
const { agent, prefix, query } = document.body.dataset;
const $ = (id) => document.getElementById(id);
const LIFE_MS = 10_000; // between two drawings of the life
const READING_MS = 700; // while the whole life is being read
const SOON_MS = 2_100; // the server keeps what it made for two seconds

const draw = lifeChart($("curve"), {
  zoom,
  open: (cycle) => { location.href = `${prefix}/cycles/${cycle}${query}`; },
  ask: async (cycle) => {
    if (away()) return {};
    const answer = await fetch(`${prefix}/story/cycle?number=${cycle}${query.replace("?", "&")}`).catch(() => null);
    return answer?.ok ? answer.json() : {};
  },
});

function drawLife() {
  draw(given("life-data"));
  if ("reading" in $("life").dataset) setTimeout(() => window.htmx.trigger($("life"), "stale"), READING_MS);
}
document.addEventListener("htmx:afterSettle", (event) => { if (event.detail.elt.id === "life" || event.target.id === "life") drawLife(); });

// A part is drawn again at most once in a while, once facts have come that it shows.
const soon = new Map();
function again(id, ms) {
  if (soon.has(id)) return;
  soon.set(id, setTimeout(() => {
    soon.delete(id);
    if (document.hidden) return again(id, ms);
    if (id === "needs-you" && $(id).querySelector("details[open]")) return again(id, ms);
    window.htmx.trigger($(id), "stale");
  }, ms));
}
on("experience.recorded", () => { again("life", $("curve").hasAttribute("data-empty") ? SOON_MS : LIFE_MS); again("needs-you", LIFE_MS); });
for (const kind of ["weights.set", "goal.reached"]) on(kind, () => again("life", SOON_MS));
for (const kind of ["alarm.raised", "consumer.failed", "act.asked", "act.approved", "act.denied", "goal.set"]) on(kind, () => again("needs-you", SOON_MS));
for (const kind of ["missed", "caught-up"]) on(kind, () => { again("life", SOON_MS); again("needs-you", SOON_MS); });

// Right now.
const PHASES = ["think", "act", "score", "rest"];
let since = null;

function phase(name) {
  $("phases").dataset.phase = name;
  since = Date.now();
  mark();
}

function mark() {
  const now = PHASES.indexOf($("phases").dataset.phase);
  [...$("phases").children].forEach((one, at) => {
    one.classList.toggle("done", at < now);
    one.classList.toggle("on", at === now);
    one.toggleAttribute("aria-current", at === now);
  });
}

function cycleIs(cycle) {
  $("now").dataset.cycle = cycle;
  for (const id of ["now-cycle", "at"]) $(id).textContent = `cycle ${cycle.toLocaleString("en")}`;
}

on("thought.formed", (fact) => {
  cycleIs(fact.cycle);
  $("thought").textContent = fact.thought || "–";
  $("does").textContent = "…";
  phase("act");
});
on("action.taken", (fact) => {
  cycleIs(fact.cycle);
  $("does").textContent = fact.action;
  phase("score");
});
on("experience.recorded", (fact) => {
  if (fact.cycle < Number($("now").dataset.cycle || 0)) return; // a late score of an earlier one
  cycleIs(fact.cycle);
  $("does").textContent = fact.action;
  $("last-total").textContent = signed(fact.total);
  $("last-reward").replaceChildren(stripOf(fact.adds, fact.total, "wide-strip"), legendOf(fact.adds));
  $("last-link").href = `${prefix}/cycles/${fact.cycle}${query}`;
  phase("rest");
});
on("agent", ({ state }) => {
  const words = { silent: "does not answer" };
  $("run-state").textContent = words[state] ?? state;
  $("run-state").classList.toggle("good", state === "running");
});
setInterval(() => {
  if (since != null && !document.hidden) $("clock").textContent = `${Math.round((Date.now() - since) / 1000)} s`;
}, 1000);

mark();
drawLife();
follow(place, agent);
