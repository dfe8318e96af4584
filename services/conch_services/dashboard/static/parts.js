// The parts of a page: drawn by the server alone, drawn again once facts have come that they show, and morphed in place, so
// that focus, selection, folds and scroll stay.
//
// A part has an id, data-on="kind kind …", hx-get with where it is drawn, hx-trigger="stale" and hx-swap="outerMorph";
// data-pace: least milliseconds between two drawings, else PACE_MS; data-every: drawn so often, facts or none; data-of: the
// cycles "first-last" whose facts count alone; data-still: not drawn while it is there. What scripts make (charts) stands in a
// figure of class chart or in [data-kept], which no drawing touches. The switch Live / Hold stops all of them.
import { away, follow, hear, on, tell } from "./live.js";
import { onKey, say } from "./page.js";
import { localise } from "./words.js";

const PACE_MS = 1000;
const KEPT_MS = 2500; // for so long the server may show what it made before: drawn once more when it is over
const TICK_MS = 100;
const drawn = new Map(); // part's id -> when it was drawn last
const stale = new Set(); // ids of the parts that facts have come for
const later = new Map(); // part's id -> the timer of its drawing once more
const knob = document.getElementById("hold");
let held = false, newest = 0, follows = false;
let soon = 0; // the timer of the drawing of what has just come
const waiting = new Set(); // cycles that came while the page was held

const parts = () => [...document.querySelectorAll("[data-on], [data-every]")];
const kinds = () => parts().flatMap(({ dataset: { on: some } }) => [...(some ?? "").split(" "), "experience.recorded"]); // it is counted while the page is held

/** Draw this part again now, after a press say, whatever the switch says. */
export function redraw(id) {
  const part = document.getElementById(id);
  if (!part) return;
  draw(part, true);
  if (!part.matches("[data-on], [data-every]")) return;
  clearTimeout(later.get(id)); // what the server kept from before the press is drawn over
  later.set(id, setTimeout(() => redrawn(id), KEPT_MS));
}

function redrawn(id) {
  const part = document.getElementById(id);
  if (part) draw(part, true);
}

function draw(part, pressed = false) {
  stale.delete(part.id);
  drawn.set(part.id, Date.now());
  window.htmx.trigger(part, "stale", { pressed });
}

function tick() {
  clearTimeout(soon);
  soon = 0;
  if (document.hidden || away()) return;
  const now = Date.now();
  for (const part of parts()) {
    const since = now - (drawn.get(part.id) ?? 0), { every, pace } = part.dataset;
    if (part.hasAttribute("data-still")) continue;
    if (every && !held && since >= Number(every)) draw(part);
    else if (stale.has(part.id) && !held && since >= Number(pace ?? PACE_MS)) {
      draw(part);
      clearTimeout(later.get(part.id));
      later.set(part.id, setTimeout(() => stale.add(part.id), KEPT_MS));
    }
  }
}

function concerns({ kind, cycle }, part) {
  if (!(part.dataset.on ?? "").split(" ").includes(kind)) return false;
  const [first, last] = (part.dataset.of ?? "").split("-").map(Number);
  return last === undefined || (cycle >= first && cycle <= last);
}

function hold(now) {
  held = now;
  waiting.clear();
  newest = Math.max(newest, ...[...document.querySelectorAll("[data-cycle]")].map((row) => Number(row.dataset.cycle)));
  show();
  tell("held", { held });
  say(held ? "The page stands still until you press Held." : "The page goes on.");
}

function show() {
  knob.setAttribute("aria-pressed", String(held));
  knob.textContent = !held ? "Live" : waiting.size ? `Held · ${waiting.size} new` : "Held";
}

on("*", (fact) => {
  for (const part of parts()) if (concerns(fact, part)) stale.add(part.id);
  soon ||= setTimeout(tick); // once all facts of this moment have been heard
  if (fact.kind !== "experience.recorded") return;
  if (!held) newest = Math.max(newest, fact.cycle);
  else if (fact.cycle > newest) waiting.add(fact.cycle);
  show();
});
for (const kind of ["missed", "caught-up"]) on(kind, () => { for (const part of parts()) if (part.dataset.on) stale.add(part.id); });
// What was asked for before the page was held is not drawn: its part is asked for again once the page goes on.
document.addEventListener("htmx:before:swap", (event) => {
  const { target, detail: { ctx } } = event;
  if (!held || ctx.sourceEvent?.detail?.pressed || !target.matches("[data-on], [data-every]")) return;
  event.preventDefault();
  stale.add(target.id);
});
document.addEventListener("htmx:after:swap", (event) => {
  localise(document);
  const { id } = event.detail?.ctx.target ?? event.target; // a form draws another part than itself
  if (id) tell("drawn", { id });
  if (follows) hear(kinds()); // a drawing may have parts that the page did not have
});
knob.addEventListener("click", () => hold(!held));
if (document.querySelector("main [data-on], main [data-every]")) {
  knob.hidden = false;
  onKey("h", "hold the page still, or let it go on", () => hold(!held));
}
show();
// Once every script of the page listens: it goes on behind the place in the stream that it was drawn from.
document.addEventListener("DOMContentLoaded", () => {
  const from = document.querySelector("[data-after]");
  follows = from !== null;
  if (follows) follow(Number(from.dataset.after), document.body.dataset.agent, kinds());
});
const begun = Date.now();
for (const { id } of parts()) drawn.set(id, begun); // as the server drew the page
setInterval(tick, TICK_MS);
