/** distance counts the insertions, deletions, replacements and swaps of neighbours that turn one text into
 * another. */
export function distance(a: string, b: string): number {
  let [older, old]: [number[], number[]] = [[], Array.from({length: b.length + 1}, (_, i) => i)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let best = Math.min(row[j - 1]! + 1, old[j]! + 1, old[j - 1]! + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) best = Math.min(best, older[j - 2]! + 1);
      row.push(best);
    }
    [older, old] = [old, row];
  }
  return old[b.length]!;
}

/** nearest returns the names that somebody who typed a wrong one may have meant, the most likely first: those
 * with few other letters, and those that contain it. */
export function nearest(typed: string, names: string[], most = 5): string[] {
  const wanted = typed.toLowerCase();
  const allowed = Math.max(1, Math.floor(wanted.length / 3));
  return names
    .map((name) => {
      const small = name.toLowerCase();
      const away = Math.abs(small.length - wanted.length) > allowed ? Infinity : distance(wanted, small);
      const contains = wanted.length >= 3 && (small.includes(wanted) || (small.length >= 3 && wanted.includes(small)));
      return {name, rank: away <= allowed ? away : contains ? allowed + 1 : Infinity};
    })
    .filter(({rank}) => rank < Infinity)
    .sort((a, b) => a.rank - b.rank || (a.name < b.name ? -1 : 1))
    .slice(0, most)
    .map(({name}) => name);
}
