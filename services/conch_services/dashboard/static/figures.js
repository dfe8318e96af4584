// The key figures of some cycles in words: what figures.py makes of the history, made of the live rows.
import { percent, signed } from "./words.js";

const EXECUTED = new Set(["success", "error", "timeout", "blocked"]);
const MOST_ACTIONS = 8;
const TREND = 25;

/** What is known of a cycle from the fact that it was recorded; figures.py makes the same from the history. */
export function rowOf(fact) {
  return {
    cycle: fact.cycle, outcome: fact.outcome, skill: fact.skill, valid: fact.valid, total: fact.total,
    coverage: fact.coverage, complete: fact.complete && fact.scored === fact.parts, needs: fact.needs,
    parts: fact.adds,
  };
}

export const executed = (row) => EXECUTED.has(row.outcome);
export const toolOf = (row) => row.skill.split(".", 1)[0];

export function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

export const level = (row) => (row.needs ? mean(Object.values(row.needs)) : null);

/** name -> [value, note] of each key figure; a note of null stays as it is. */
export function keyFigures(rows) {
  const levels = rows.slice(-TREND).map(level).filter((one) => one != null);
  const tools = rows.filter(executed);
  const late = rows.filter((row) => !row.complete).length;
  const share = (some, held) => (some.length ? percent(some.filter(held).length / some.length) : "–");
  return {
    reward: [rows.length ? signed(mean(rows.map((row) => row.total))) : "–", `a cycle, of ${rows.length} scored`],
    format: [share(rows, (row) => row.valid), `of ${rows.length} replies seen`],
    tools: [share(tools, (row) => row.outcome === "success"), `of ${tools.length} tool calls seen`],
    needs: [levels.length > 1 ? signed((levels.at(-1) - levels[0]) / (levels.length - 1), 4) : "–", null],
    exploration: [`${new Set(tools.map((row) => row.skill)).size}`, `tool × operation, of ${tools.length} tool calls seen`],
    coverage: [rows.length ? percent(mean(rows.map((row) => row.coverage))) : "–", late ? `${late} of ${rows.length} lack a score` : "every score came"],
  };
}

/** [name, share] of each bar of the action distribution, the most frequent first. */
export function actionsOf(rows) {
  const counts = new Map();
  for (const row of rows) counts.set(toolOf(row), (counts.get(toolOf(row)) ?? 0) + 1);
  const ranked = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const rest = ranked.splice(MOST_ACTIONS).reduce((sum, [, count]) => sum + count, 0);
  if (rest) ranked.push(["others", rest]);
  return ranked.map(([name, count]) => [name, count / rows.length]);
}
