// One card at a time: a approves, r rejects with a reason, s skips, u goes back to the one before.
import { complain, draw } from "./card.js";
import { away, follow, on } from "./live.js";
import { onKey, say } from "./page.js";
import { sentence } from "./words.js";

const { agent, prefix, query } = document.body.dataset;
const card = document.getElementById("card");
const box = document.getElementById("review-box");
const form = box.querySelector("form");
const seen = []; // cycles that were judged or skipped here, in that order
const changed = new Map(); // cycle -> place in the stream of the last fact on it
let upto = 0; // everything up to this place came before the card was asked for
let told = 0; // place of the last fact
let asked = 0; // how often a card was asked for: only the one asked for last is shown
let busy = false;

const cycle = () => card.querySelector("[data-cycle]")?.dataset.cycle;

async function show(parameters) {
  const address = new URLSearchParams({ agent, ...parameters });
  const before = told, mine = ++asked;
  if (!(await draw(card, `${prefix}/review?${address}`, () => mine === asked))) return;
  upto = before;
  look();
}

// The card that is open is drawn again once more is known of its cycle, a person's half-typed words stay; where there
// is no card, one may be there after the next cycle.
const AGAIN_MS = 500; // behind the fact: the history has its mark by then
const NONE_MS = 2500; // for so long the server says what it found before
const MOST_KEPT = 1000;
let soon = null;

function look() {
  if (cycle() ? (changed.get(Number(cycle())) ?? 0) <= upto : told <= upto) return;
  soon ??= setTimeout(again, cycle() ? AGAIN_MS : NONE_MS);
}

async function again() {
  soon = null;
  if (busy || document.hidden || away()) return;
  const open = [...card.querySelectorAll("details")].map((fold) => fold.open);
  const shown = cycle();
  await show({ ...(shown && { cycle: shown }), without: seen.join(",") });
  if (shown === cycle()) card.querySelectorAll("details").forEach((fold, place) => { fold.open = open[place] ?? false; });
}

function heard(fact) {
  told = fact.seq;
  changed.delete(fact.cycle);
  changed.set(fact.cycle, fact.seq);
  if (changed.size > MOST_KEPT) changed.delete(changed.keys().next().value);
  look();
}
for (const kind of ["experience.recorded", "mark.witnessed"]) on(kind, heard);
on("missed", () => {
  upto = -1;
  changed.set(Number(cycle()), told);
  look();
});
on("caught-up", look);
document.addEventListener("visibilitychange", look);

function next() {
  seen.push(cycle());
  return show({ without: seen.join(",") });
}

async function judge(verb, reason) {
  const number = cycle();
  const answer = await fetch(`${prefix}/api/v1/cycles/${number}/${verb}${query}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ reason }),
  }).catch(() => null);
  if (answer?.ok) say(`Cycle ${number} is ${verb === "approve" ? "approved" : "rejected"}.`);
  return answer?.ok ? "" : answer ? sentence(answer) : "The dashboard does not answer; nothing was said.";
}

const deeds = {
  async a() {
    const wrong = await judge("approve", "");
    if (wrong) complain(card, wrong);
    else await next();
  },
  async r() {
    document.getElementById("review-title").textContent = `Reject cycle ${cycle()}`;
    form.querySelector(".main").textContent = "Reject";
    form.elements.reason.required = true;
    form.querySelector(".wrong").textContent = "";
    box.showModal();
  },
  s: next,
  async u() {
    const before = seen.pop();
    if (before) await show({ cycle: before, without: seen.join(",") });
    else complain(card, "There is no card before this one.");
  },
};

async function press(key) {
  if (busy || box.open || (key !== "u" && !cycle())) return;
  busy = true;
  await deeds[key]();
  busy = false;
  look();
}

const WORDS = { a: "approve the cycle", r: "reject it with a reason", s: "skip it", u: "back to the one before" };
for (const key of Object.keys(deeds)) onKey(key, WORDS[key], () => press(key));
card.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-key]");
  if (button) press(button.dataset.key);
});
box.querySelector("[data-close]").addEventListener("click", () => box.close());
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  busy = true;
  const wrong = await judge("reject", form.elements.reason.value.trim());
  form.querySelector(".wrong").textContent = wrong;
  if (!wrong) {
    form.reset();
    box.close();
    await next();
  }
  busy = false;
  look();
});
follow(Number(card.dataset.after ?? 0), agent);
