// One card at a time: a approves, r rejects with a reason, s skips, u goes back to the one before.
import { complain, complains, draw } from "./card.js";
import { onKey, say } from "./page.js";
import { sentence } from "./words.js";

const { agent, prefix, query } = document.body.dataset;
const card = document.getElementById("card");
const box = document.getElementById("review-box");
const form = box.querySelector("form");
const seen = []; // cycles that were judged or skipped here, in that order
let busy = false;

const cycle = () => card.querySelector("[data-cycle]")?.dataset.cycle;

function show(parameters) {
  return draw(card, `${prefix}/review?${new URLSearchParams({ agent, ...Object.fromEntries(new URLSearchParams(query)), ...parameters })}`);
}

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
});
complains(card);
