// The list of cycles: new ones are announced, never shoved in; j and k go from row to row.
import { follow, on } from "./live.js";
import { onKey } from "./page.js";
import { isNews, rowFor } from "./rows.js";
import { localise } from "./words.js";

const { agent, query } = document.body.dataset;
const list = () => document.getElementById("list");
const fresh = new Set();

function announce() {
  const news = document.getElementById("news");
  if (!("first" in list().dataset)) return;
  for (const cycle of fresh) if (cycle <= Number(list().dataset.newest)) fresh.delete(cycle);
  news.hidden = fresh.size === 0;
  news.textContent = fresh.size === 1 ? "1 new cycle" : `${fresh.size} new cycles`;
}

// A row that is there is revised in place. What came while a page of the list was asked for is shown in it as well.
const MOST_KEPT = 1000;
const recorded = new Map(); // cycle -> the newest fact of it

function revise(fact) {
  const row = list().querySelector(`tr[data-cycle="${fact.cycle}"]`);
  if (row && isNews(fact, row)) put(rowFor(fact, query, true), row);
}

function put(row, there) {
  const focused = there.contains(document.activeElement);
  there.replaceWith(row);
  if (focused) row.querySelector("a").focus();
}

on("experience.recorded", (fact) => {
  recorded.delete(fact.cycle);
  recorded.set(fact.cycle, fact);
  if (recorded.size > MOST_KEPT) recorded.delete(recorded.keys().next().value);
  revise(fact);
  fresh.add(fact.cycle);
  announce();
});

document.addEventListener("htmx:afterSettle", () => {
  recorded.forEach(revise);
  announce();
});

// More than could be told: once it is over, the history says how the rows that are there stand now.
const CALM_MS = 3000;
let calm = null;
on("missed", () => {
  clearTimeout(calm);
  calm = setTimeout(again, CALM_MS);
});

async function again() {
  const address = new URL(location.href);
  address.searchParams.set("last", list().dataset.newest);
  const answer = await fetch(address).catch(() => null);
  if (!answer?.ok) return;
  const now = new DOMParser().parseFromString(await answer.text(), "text/html");
  localise(now);
  for (const row of now.querySelectorAll("#list tr[data-cycle]")) {
    const there = list().querySelector(`tr[data-cycle="${row.dataset.cycle}"]`);
    if (there && Number(there.dataset.revision) < Number(row.dataset.revision)) put(document.adoptNode(row), there);
  }
}

function move(step) {
  const links = [...list().querySelectorAll("tbody a")];
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at + step))]?.focus();
}
onKey("j", "down the list, to the older cycle; Enter opens it", () => move(1));
onKey("k", "up the list, to the newer cycle", () => move(-1));
onKey("/", "search in the texts", (event) => {
  event.preventDefault();
  document.querySelector("[name=text]").focus();
});

follow(Number(list().dataset.after), agent);
