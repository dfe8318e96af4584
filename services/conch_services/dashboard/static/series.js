// Columns over one axis that grow by what the server sends of them: only what is new goes over the wire.

/**
 * What takes {x: […], lines: {group: {name: […]}}}, whole at first and then from some x on, and gives all of it together:
 * at most `most` values of x, those from the first x of the new ones on taken from these. What is told `whole` stands for all.
 */
export function series(most) {
  let kept = { x: [], lines: {} };
  return (fresh) => {
    if (fresh.whole) kept = { x: fresh.x, lines: fresh.lines };
    if (fresh.whole || !fresh.x.length) return kept;
    const begin = kept.x.findIndex((x) => x >= fresh.x[0]);
    const stay = begin < 0 ? kept.x.length : begin;
    const from = Math.max(0, stay + fresh.x.length - most);
    const join = (old, some) => [...(old ?? Array(stay).fill(null)).slice(from, stay), ...some];
    const lines = {};
    for (const [group, named] of Object.entries(fresh.lines)) {
      const names = new Set([...Object.keys(kept.lines[group] ?? {}), ...Object.keys(named)]);
      const missing = Array(fresh.x.length).fill(null);
      lines[group] = Object.fromEntries([...names].map((name) => [name, join(kept.lines[group]?.[name], named[name] ?? missing)]));
      for (const [name, values] of Object.entries(lines[group])) if (values.every((one) => one === null) && !(name in named)) delete lines[group][name];
    }
    kept = { x: [...kept.x.slice(from, stay), ...fresh.x], lines };
    return kept;
  };
}
