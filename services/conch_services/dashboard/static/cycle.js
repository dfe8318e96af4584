// One cycle: keys, copies, a person's word, and its story told again.
import { on } from "./live.js";
import { onKey, say } from "./page.js";
import { redraw } from "./parts.js";
import { sentence } from "./words.js";

const MOST_MS = 2500; // of one phase while it is told again
const { prefix, query } = document.body.dataset;
const number = Number(cycle().dataset.number);
let telling = null; // aborts the telling

function cycle() {
  return document.getElementById("cycle");
}

// A cycle behind this one has come: the way to it.
on("experience.recorded", (fact) => { if (fact.cycle > number && !document.querySelector("a[rel=next]")) redraw("cycle"); });

// Keys: to the neighbours, down the list and up again, and telling it again.
const go = (rel) => () => document.querySelector(`a[rel=${rel}]`)?.click();
onKey("j", "the cycle before: older, down the list", go("prev"));
onKey("k", "the cycle after: newer, up the list", go("next"));
onKey("r", "tell the cycle again in its own pace", replay);
onKey("Escape", "end the telling", () => telling?.abort());

document.addEventListener("click", async ({ target }) => {
  const button = target.closest("button");
  if (button?.dataset.copy) copy(button, fetch(button.dataset.copy).then((answer) => answer.text()));
  if (button?.hasAttribute("data-copy-link")) copy(button, Promise.resolve(location.href.replace(prefix, "")));
  if (button?.hasAttribute("data-replay")) replay();
  if (button?.dataset.review) review(button.dataset.review);
});

async function copy(button, text) {
  const words = button.textContent;
  try {
    await navigator.clipboard.writeText(await text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "This browser does not let pages copy here";
  }
  setTimeout(() => { button.textContent = words; }, 2000);
}

// Its story, told again in the pace it had.
async function replay() {
  if (telling) return telling.abort();
  telling = new AbortController();
  const { signal } = telling;
  const told = [...document.querySelectorAll(".step, .fall tbody tr")];
  const button = document.querySelector("[data-replay]");
  const rest = (ms) => new Promise((done) => {
    const waited = setTimeout(done, ms);
    signal.addEventListener("abort", () => { clearTimeout(waited); done(); });
  });
  cycle().toggleAttribute("data-still", true);
  button.textContent = "Stop";
  for (const one of told) one.classList.add("later");
  for (const one of told) {
    one.classList.remove("later");
    one.classList.add("telling");
    if (!signal.aborted) one.scrollIntoView({ block: "nearest", behavior: "smooth" });
    await rest(one.dataset.ms ? Math.min(Number(one.dataset.ms), MOST_MS) : 200);
    one.classList.remove("telling");
  }
  cycle().removeAttribute("data-still");
  button.textContent = "Replay";
  telling = null;
}

// A person's word on it.
const box = document.getElementById("review-box");
const form = box.querySelector("form");

function review(verb) {
  const word = verb === "approve" ? "Approve" : "Reject";
  box.dataset.verb = verb;
  document.getElementById("review-title").textContent = `${word} this cycle`;
  form.querySelector(".main").textContent = word;
  form.elements.reason.required = verb === "reject";
  form.querySelector(".wrong").textContent = "";
  box.showModal();
}

box.querySelector("[data-close]").addEventListener("click", () => box.close());
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch(`${prefix}/api/v1/cycles/${number}/${box.dataset.verb}${query}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ reason: form.elements.reason.value }),
  }).catch(() => null);
  form.querySelector(".wrong").textContent = answer?.ok ? "" : answer ? await sentence(answer) : "The dashboard does not answer.";
  if (answer?.ok) {
    form.reset();
    box.close();
    say(`Cycle ${number} is ${box.dataset.verb === "approve" ? "approved" : "rejected"}: a score of yours, with its own mark.`);
    redraw("cycle");
  }
});

