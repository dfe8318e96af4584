// A cycle's row in a table, made of a live fact; parts.html makes the same of the history.
import { stripOf } from "./strip.js";
import { clock, day, fixed, make, signed } from "./words.js";

function chip(words, kind = "") {
  return make("span", { class: `chip ${kind}`.trim() }, words);
}

function outcome({ valid, outcome: status }) {
  if (!valid) return chip("invalid", "bad");
  if (status === "none") return chip("no tool");
  return chip(status, { success: "good", unknown: "warn" }[status] ?? "bad");
}

function total(fact) {
  if (fact.revision == null) return [chip("scoring…")];
  const kind = fact.total >= 0.0005 ? "good-text" : fact.total <= -0.0005 ? "bad-text" : "faint";
  const said = make("span", { class: kind }, signed(fact.total));
  return fact.complete && fact.scored === fact.parts ? [said] : [chip(`${fact.scored} of ${fact.parts} scored`, "warn"), " ", said];
}

/** Whether the fact, an act or its experience, says more of its cycle than this row. */
export function isNews(fact, row) {
  return row.dataset.action !== fact.action_id || Number(row.dataset.revision) < (fact.revision ?? 0);
}

/** The row of an act or its experience; with the day where `dated`. */
export function rowFor(fact, query, dated = false) {
  const acted = fact.acted_at ?? fact.time;
  return make("tr", { "data-cycle": fact.cycle, "data-revision": fact.revision ?? 0, "data-action": fact.action_id, class: "flash" },
    make("td", {}, make("a", { class: "mono", href: `${document.body.dataset.prefix}/cycles/${fact.cycle}${query}` }, `${fact.cycle}`)),
    make("td", { class: "less nowrap" }, make("time", { datetime: acted, ...(dated && { "data-date": "" }) }, dated ? day(acted) : clock(acted))),
    make("td", { class: "less nowrap" }, fact.need),
    make("td", { class: "mono" }, fact.action),
    make("td", {}, outcome(fact)),
    make("td", { class: "num less" }, fixed(fact.ms, 0)),
    make("td", { class: "why less" }, ...(fact.revision == null ? [] : [stripOf(fact.adds, fact.total)])),
    make("td", { class: "num" }, ...total(fact)));
}
