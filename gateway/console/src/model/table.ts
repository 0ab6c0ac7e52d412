/** Which rows a table shows, and in which order. */

export type SortValue = string | number | bigint;

/** Returns the rows whose name contains each word, sorted by a column; "-lag" sorts by lag, the largest first. */
export function arranged<Row>(
  rows: Row[],
  filter: string,
  sort: string,
  name: (row: Row) => string,
  columns: Record<string, (row: Row) => SortValue>,
): Row[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = rows.filter((row) => words.every((word) => name(row).toLowerCase().includes(word)));
  const descending = sort.startsWith("-");
  const value = columns[descending ? sort.slice(1) : sort] ?? name;
  const direction = descending ? -1 : 1;
  const ranks = ranksOf(kept.map(name));
  return kept
    .map((row, index) => ({ row, value: value(row), rank: ranks[index] ?? 0 }))
    .sort((a, b) => direction * compare(a.value, b.value) || a.rank - b.rank)
    .map((entry) => entry.row);
}

// Natural order: orders/10 comes after orders/9.
const COLLATOR = new Intl.Collator("en", { numeric: true });

let last: { names: string[]; ranks: number[] } = { names: [], ranks: [] };

/**
 * Returns the place of each name in their order. Most rows have the same lag as many others, so that the order of names
 * counts, and to compare two of them takes long; but an update seldom has other names than the one before.
 */
function ranksOf(names: string[]): number[] {
  const same = names.length === last.names.length && names.every((name, index) => name === last.names[index]);
  if (!same) {
    const ranks = new Array<number>(names.length);
    const order = names.map((_, index) => index);
    order.sort((a, b) => COLLATOR.compare(names[a] ?? "", names[b] ?? ""));
    order.forEach((index, rank) => (ranks[index] = rank));
    last = { names, ranks };
  }
  return last.ranks;
}

function compare(a: SortValue, b: SortValue): number {
  if (typeof a === "string" || typeof b === "string") return COLLATOR.compare(String(a), String(b));
  return a < b ? -1 : a > b ? 1 : 0;
}
