// What every page does: its theme, its keys and what they are for, and a word on what came of a press.
import { increments } from "./increments.js";
import { away } from "./live.js";
import "./standing.js";
import { localise, make } from "./words.js";

const root = document.documentElement;
const themes = ["auto", "light", "dark"];
const theme = document.getElementById("theme");
const SAID_MS = 8000; // for so long a word on what was done stands there

function turn() {
  const next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
  root.dataset.theme = next;
  localStorage.setItem("conch-theme", next);
  theme.textContent = `Theme: ${next}`;
}

const { prefix } = document.body.dataset;
if (prefix) localStorage.setItem("conch-prefix", prefix); // what an address without it is gone on from: session.js

theme.textContent = `Theme: ${root.dataset.theme}`;
theme.classList.remove("unready");
theme.addEventListener("click", turn);

// Where keys are typed, or choose: a checkbox and a slider take none of those that the page has.
const TYPED = "input:not([type=checkbox], [type=radio], [type=range], [type=button], [type=submit], [type=reset]), textarea, select, dialog, [contenteditable]";
const keys = new Map(); // key -> {words, press}

/** Have `press()` called when this key is pressed outside of fields and dialogs; the help says `words` of it. */
export function onKey(key, words, press) {
  keys.set(key, { words, press });
}

const help = document.getElementById("help");

function explain() {
  const named = [...keys].map(([key, { words }]) => [make("dt", {}, make("kbd", {}, key === "Escape" ? "Esc" : key)), make("dd", {}, words)]);
  help.querySelector("dl").replaceChildren(...named.flat());
  help.showModal();
}

onKey("?", "this help", explain);
onKey("t", "light, dark, or as the system has it", turn);
const asking = document.getElementById("keys");
asking.addEventListener("click", explain);
// The page's own script comes after this one, and this event after both: until then its keys are not known.
document.addEventListener("DOMContentLoaded", () => asking.classList.remove("unready"));

document.addEventListener("keydown", (event) => {
  if (event.target.closest(TYPED) || event.ctrlKey || event.metaKey || event.altKey) return;
  keys.get(event.key)?.press(event);
});
document.getElementById("agent")?.addEventListener("change", (event) => event.target.form.requestSubmit());
localise(document);
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// A command that a page names is copied by the button beside it.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy-command]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copyCommand);
    say("The command is copied.");
  } catch {
    say("This browser does not let pages copy here.", true);
  }
});

// The server's drawings are morphed in place: a time that is written by the clock here stays, and nothing is asked of a
// server that is away.
window.htmx.registerExtension("conch", {
  htmx_before_morph_node: (_, { oldNode, newNode }) => !(oldNode.tagName === "TIME" && oldNode.dateTime === newNode.dateTime),
  htmx_before_request: (_, { ctx }) => {
    if (!away() && !document.hidden) return true;
    if (ctx.sourceEvent?.isTrusted) say("The dashboard does not answer just now.", true);
    return false;
  },
  // Of a part that is drawn again only what changed is sent. Fields that say nothing stand in no address, and the same
  // address is pushed once.
  htmx_config_request: (elt, { ctx }) => {
    if (elt.matches("[data-on], [data-every]")) ctx.fetch = increments(elt.id);
    if (!elt.matches("form[role=search]")) return;
    for (const field of elt.querySelectorAll("input[type=datetime-local][name]")) if (field.value) ctx.request.body.set(field.name, new Date(field.value).toISOString());
    for (const [name, value] of [...ctx.request.body]) if (!value) ctx.request.body.delete(name);
  },
  htmx_before_history_update: (_, { history }) => history.path !== location.pathname + location.search,
});

const said = document.getElementById("said");
let over = null;

/** Say what came of a press, in a sentence: `bad` where nothing did. */
export function say(words, bad = false) {
  said.textContent = words;
  said.classList.toggle("bad", bad);
  clearTimeout(over);
  over = setTimeout(() => { said.textContent = ""; }, SAID_MS);
}
