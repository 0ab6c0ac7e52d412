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
  return kept
    .map((row) => ({ row, value: value(row), name: name(row) }))
    .sort((a, b) => direction * compare(a.value, b.value) || COLLATOR.compare(a.name, b.name))
    .map((entry) => entry.row);
}

// Natural order: orders/10 comes after orders/9.
const COLLATOR = new Intl.Collator("en", { numeric: true });

function compare(a: SortValue, b: SortValue): number {
  if (typeof a === "string" || typeof b === "string") return COLLATOR.compare(String(a), String(b));
  return a < b ? -1 : a > b ? 1 : 0;
}
