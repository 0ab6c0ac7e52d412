/** Reads the gateway's documents without rounding. The gateway writes 64-bit integers as numbers of JSON. */

const LARGE = /"(epoch|sequence|after|end)":(-?\d{16,})(?=[,}])/g;
const NAMES = new Set(["epoch", "sequence", "after", "end"]);

/** As JSON.parse, but numbers of positions that a double does not hold are bigints. A quote before a colon is never in a string. */
export function parseExactly(text: string): unknown {
  // Large ones are rare, and to look at every value is slow.
  const marked = text.replace(LARGE, (whole, name: string, digits: string) =>
    Number.isSafeInteger(Number(digits)) ? whole : `"${name}":"${digits}"`,
  );
  if (marked === text) return JSON.parse(text);
  return JSON.parse(marked, (name, value: unknown) =>
    NAMES.has(name) && typeof value === "string" && /^-?\d{16,}$/.test(value) ? BigInt(value) : value,
  );
}
