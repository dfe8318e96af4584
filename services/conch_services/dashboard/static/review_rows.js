// One row of training data at a time: a approves, r rejects with a reason, e edits, s skips, u goes back to the one before.
import { complain, complains, draw } from "./card.js";
import { onKey, say } from "./page.js";
import { sentence } from "./words.js";

const { agent, prefix, query } = document.body.dataset;
const card = document.getElementById("card");
const which = document.getElementById("which");
const box = document.getElementById("row-box");
const form = box.querySelector("form");
const MOST_SKIPPED = 200; // as many as the server takes
const seen = []; // rows that were decided on or skipped here, in that order
let busy = false, verb = "reject";

const article = () => card.querySelector("[data-row]");
const row = () => article()?.dataset.row;
const chosen = () => ({ format: which.elements.format.value, reviewer: which.elements.reviewer.value });

function show(parameters) {
  const address = new URLSearchParams({ agent, ...chosen(), ...(which.elements.blind.checked && { blind: "1" }), ...parameters });
  return draw(card, `${prefix}/review/rows?${address}`);
}

function next() {
  seen.push(row());
  return show({ without: seen.slice(-MOST_SKIPPED).join(",") });
}

async function decide(what, body) {
  const named = row();
  const answer = await fetch(`${prefix}/api/v1/reviews/${named}/${what}${query}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ...chosen(), ...body }),
  }).catch(() => null);
  if (!answer?.ok) return answer ? sentence(answer) : "The dashboard does not answer; nothing was decided.";
  const said = await answer.json();
  say(`Row ${named.slice(0, 12)} is ${said.decision}${said.preferred ? `: you preferred the ${said.preferred} reply` : ""}.`);
  return "";
}

async function settle(what, body) {
  const wrong = await decide(what, body);
  if (wrong) complain(card, wrong);
  else await next();
}

/** The whole reply as it is: what the card shows of it may be shortened. */
async function reply() {
  const address = new URLSearchParams({ agent, ...chosen(), row: row() });
  const answer = await fetch(`${prefix}/api/v1/reviews/next?${address}`).catch(() => null);
  if (answer?.ok) return (await answer.json()).card.replies[0].text;
  complain(card, answer ? await sentence(answer) : "The dashboard does not answer.");
  return null;
}

async function open(what) {
  const text = what === "edit" ? await reply() : "";
  if (text === null) return;
  verb = what;
  const edits = what === "edit", fields = form.elements;
  document.getElementById("row-title").textContent = `${edits ? "Edit" : "Reject"} row ${row().slice(0, 12)}`;
  form.querySelector(".main").textContent = edits ? "Save" : "Reject";
  document.getElementById("reply-field").hidden = !edits;
  fields.text.required = edits;
  fields.text.value = text;
  fields.reason.required = !edits;
  fields.reason.value = "";
  form.querySelector(".wrong").textContent = "";
  box.showModal();
}

const isBlind = () => article()?.dataset.blind === "1";
const deeds = {
  a: () => !isBlind() && settle("approve", {}),
  r: () => !isBlind() && open("reject"),
  e: () => !isBlind() && card.querySelector("#edit") && open("edit"),
  1: () => isBlind() && settle("prefer", { better: "first" }),
  2: () => isBlind() && settle("prefer", { better: "second" }),
  s: next,
  async u() {
    const before = seen.pop();
    if (before) await show({ row: before, without: seen.slice(-MOST_SKIPPED).join(",") });
    else complain(card, "There is no card before this one.");
  },
};

async function press(key) {
  if (busy || box.open || (key !== "u" && !row())) return;
  busy = true;
  await deeds[key]();
  busy = false;
}

const WORDS = {
  a: "approve the row", r: "reject it with a reason", e: "edit its reply", 1: "of a blind pair the first is better",
  2: "of a blind pair the second is better", s: "skip it", u: "back to the one before",
};
for (const key of Object.keys(WORDS)) onKey(key, WORDS[key], () => press(key));
card.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-key]");
  if (button) press(button.dataset.key);
});
box.querySelector("[data-close]").addEventListener("click", () => box.close());
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (busy) return;
  busy = true;
  const reason = form.elements.reason.value.trim();
  const wrong = await decide(verb, verb === "edit" ? { reason, text: form.elements.text.value } : { reason });
  form.querySelector(".wrong").textContent = wrong;
  if (!wrong) {
    box.close();
    await next();
  }
  busy = false;
});
const known = localStorage.getItem("conch-reviewer");
if (known && !new URLSearchParams(location.search).has("reviewer") && known !== which.elements.reviewer.value) {
  which.elements.reviewer.value = known;
  show({});
}
which.addEventListener("submit", () => localStorage.setItem("conch-reviewer", which.elements.reviewer.value));
complains(card);
