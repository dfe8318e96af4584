// One card at a time: a approves, r rejects with a reason, s skips, u goes back to the one before.
import { follow } from "./live.js";
import { onKey } from "./page.js";
import { localise, sentence } from "./words.js";

const { agent, query } = document.body.dataset;
const card = document.getElementById("card");
const box = document.getElementById("review-box");
const form = box.querySelector("form");
const seen = []; // cycles that were judged or skipped here, in that order
let busy = false;

const cycle = () => card.querySelector("[data-cycle]")?.dataset.cycle;

async function show(parameters) {
  const address = new URLSearchParams({ agent, ...parameters });
  const answer = await fetch(`/review?${address}`, { headers: { "HX-Request": "true" } }).catch(() => null);
  if (!answer?.ok) return complain(answer ? await sentence(answer) : "The dashboard does not answer.");
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  card.replaceChildren(...[...fresh.body.childNodes].map((node) => document.adoptNode(node)));
  localise(card);
}

function complain(words) {
  let place = card.querySelector(".wrong");
  if (!place) {
    place = document.createElement("p");
    place.className = "wrong";
    place.setAttribute("role", "alert");
    card.append(place);
  }
  place.textContent = words;
}

function next() {
  seen.push(cycle());
  return show({ without: seen.join(",") });
}

async function say(verb, reason) {
  const answer = await fetch(`/api/v1/cycles/${cycle()}/${verb}${query}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ reason }),
  }).catch(() => null);
  return answer?.ok ? "" : answer ? sentence(answer) : "The dashboard does not answer; nothing was said.";
}

const deeds = {
  async a() {
    const wrong = await say("approve", "");
    if (wrong) complain(wrong);
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
    else complain("There is no card before this one.");
  },
};

async function press(key) {
  if (busy || box.open || (key !== "u" && !cycle())) return;
  busy = true;
  await deeds[key]();
  busy = false;
}

for (const key of Object.keys(deeds)) onKey(key, () => press(key));
card.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-key]");
  if (button) press(button.dataset.key);
});
box.querySelector("[data-close]").addEventListener("click", () => box.close());
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const wrong = await say("reject", form.elements.reason.value.trim());
  form.querySelector(".wrong").textContent = wrong;
  if (wrong) return;
  form.reset();
  box.close();
  await next();
});
follow(Number(card.dataset.after ?? 0), agent);
