// A conversation: what is said is sent and its answer followed as events of the AG-UI protocol; answers are rated.
import "./approving.js";
import { on } from "./live.js";
import { say } from "./page.js";
import { make, sentence, signed } from "./words.js";

const { agent, prefix, query } = document.body.dataset;
const list = document.getElementById("chat");
const form = document.getElementById("say");
const works = document.getElementById("works");
const box = document.getElementById("rate-box");
const rating = box.querySelector("form");
const api = `${prefix}/api/v1/agents/${encodeURIComponent(agent)}/chat`;
const DOES = { think: "thinks", decide: "decides", act: "acts", reflect: "reflects" };
const WAITS = {
  paused: "is paused.",
  approval: "waits for your approval of an act.",
  budget: "is paused by its budget.",
};
const KINDS = {
  satisfied: { button: "Right", words: "You were satisfied" },
  unsatisfied: { button: "Wrong…", words: "You were not satisfied", ask: "Why" },
  corrected: { button: "Correct…", words: "You corrected it to", ask: "The answer that would have been right" },
  stop: { button: "Stop…", words: "You suggested to stop", ask: "Why it should stop what it does" },
};
let open = false; // whether a turn is open
let rated = null; // {item, kind} of the dialog

/** An answer's line of buttons, once its cycle is known. */
function judge(item) {
  const line = item.querySelector(".judged");
  if (!item.dataset.cycle || line.querySelector("button")) return;
  for (const [kind, { button, ask }] of Object.entries(KINDS)) {
    const made = make("button", { type: "button" }, button);
    made.addEventListener("click", () => (ask ? asked(item, kind) : rate(item, kind, "")));
    line.append(made);
  }
}

function asked(item, kind) {
  rated = { item, kind };
  document.getElementById("rate-title").textContent = `Answer of cycle ${item.dataset.cycle}`;
  document.getElementById("rate-label").textContent = KINDS[kind].ask;
  rating.elements.text.required = kind === "corrected";
  rating.querySelector(".wrong").textContent = "";
  rating.reset();
  box.showModal();
}

async function rate(item, kind, text) {
  const answer = await post(`${api}/rating`, { cycle: Number(item.dataset.cycle), rating: kind, text });
  const wrong = !answer ? "The dashboard does not answer; nothing was rated." : answer.ok ? "" : await sentence(answer);
  if (!wrong) {
    const told = make("p", { class: "rating" }, KINDS[kind].words);
    if (text) told.append(": ", make("q", {}, text));
    item.querySelector(".judged").before(told);
    say(`The answer of cycle ${item.dataset.cycle} is rated.`);
  } else if (!box.open) say(wrong, true);
  return wrong;
}

function post(address, body) {
  return fetch(address, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  }).catch(() => null);
}

function answerItem() {
  const item = make("li", { class: "it" }, make("p", { class: "said" }), make("p", { class: "judged" },
    make("span", { class: "reward" }), make("span", { class: "mark" })));
  list.append(item);
  return item;
}

/** What was said of an act that waited, at its place in the conversation. */
function decided({ words, decision, by, why }) {
  const line = make("p", { class: "said faint" }, `${decision === "approved" ? "Approved" : "Denied"} ${by === "user" ? "by a person" : "as no decision came in time"}: `, make("code", {}, words));
  if (why) line.append(": ", make("q", {}, why));
  list.append(make("li", { class: "it decided" }, line));
}

/** Show the events of one turn; returns why it failed, or nothing. */
function shower() {
  let item = null, failed = "";
  const take = {
    TEXT_MESSAGE_START() {
      if (item && !item.dataset.cycle) item.remove(); // a draft that no answer came of
      item = answerItem();
    },
    TEXT_MESSAGE_CONTENT({ delta }) { item.querySelector(".said").append(delta); },
    RUN_ERROR({ message }) { failed = message; },
    CUSTOM({ name, value }) {
      if (name === "conch.works") {
        const why = value.state === "budget" && value.why ? `is paused by its budget: ${value.why}` : null;
        works.textContent = `${agent} ${why ?? WAITS[value.state] ?? `${DOES[value.phase] ?? "works"}…`}`;
      } else if (name === "conch.answer") {
        item.dataset.cycle = value.cycle;
        item.querySelector(".reward").textContent = "reward not known yet";
        item.querySelector(".judged").append(make("a", { href: `${prefix}/cycles/${value.cycle}${query}`, "data-peek": `${prefix}/cycles/${value.cycle}/peek${query}` }, `cycle ${value.cycle}`));
        works.textContent = "";
        judge(item);
      } else if (name === "conch.decided") decided(value);
      else if (name === "conch.reward") {
        item.querySelector(".reward").textContent = `reward ${signed(value.total)}${value.complete ? "" : " so far"}`;
      } else if (name === "conch.mark") item.querySelector(".mark").textContent = `mark ${value.sequence}`;
    },
  };
  return (event) => {
    take[event.type]?.(event);
    list.scrollTop = list.scrollHeight;
    return failed;
  };
}

async function turn(text) {
  const run = crypto.randomUUID();
  const answer = await post(api, { threadId: list.dataset.session, runId: run, messages: [{ id: run, role: "user", content: text }] });
  if (!answer?.ok) return answer ? sentence(answer) : "The dashboard does not answer; nothing was said.";
  list.append(make("li", { class: "me" }, text));
  form.reset();
  const show = shower();
  let failed = "", left = "", ended = false;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read().catch(() => ({ done: true }));
    if (done) break;
    const parts = (left + value.replaceAll("\r", "")).split("\n\n");
    left = parts.pop();
    for (const part of parts.filter((one) => one.startsWith("data: "))) {
      const event = JSON.parse(part.slice(6));
      ended ||= event.type === "RUN_FINISHED" || event.type === "RUN_ERROR";
      failed = show(event);
    }
  }
  return failed || (ended ? "" : "The connection was lost: the answer stands here when the page is loaded again.");
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = form.elements.text.value.trim();
  if (open || !text) return;
  open = true;
  form.querySelector("button").disabled = true;
  form.querySelector(".wrong").textContent = "";
  form.querySelector(".wrong").textContent = await turn(text);
  works.textContent = "";
  form.querySelector("button").disabled = false;
  open = false;
  form.elements.text.focus();
});
form.elements.text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
box.querySelector("[data-close]").addEventListener("click", () => box.close());
rating.addEventListener("submit", async (event) => {
  event.preventDefault();
  const wrong = await rate(rated.item, rated.kind, rating.elements.text.value.trim());
  rating.querySelector(".wrong").textContent = wrong;
  if (!wrong) box.close();
});
function judgeAll() {
  for (const item of document.querySelectorAll("#chat .it[data-cycle]")) judge(item);
}
judgeAll();
on("drawn", ({ id }) => { if (id === "chat") judgeAll(); });
list.scrollTop = list.scrollHeight;
