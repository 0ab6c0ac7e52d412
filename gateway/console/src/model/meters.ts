/** The counters and histograms of an application, as texts. */

import type { Series } from "./documents";
import { count } from "./format";

/** How many bounds of a histogram are listed: the first ones. */
const MAX_BOUNDS = 12;
const SIX_DIGITS = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 });

export interface Meter {
  name: string;
  /** The value of its label; a dash if it has none. */
  label: string;
  count: string;
  /** The mean of the numbers of a histogram; a dash for a counter, and before the first number. */
  mean: string;
  /** The share of the numbers of a histogram up to each bound. */
  shares: string[];
  /** How many bounds there are besides. */
  further: number;
}

/** A counter or a histogram for one value of its label. */
export function meterOf({ metric, value, count: numbers, sum, bounds, buckets }: Series): Meter {
  const listed = numbers && sum !== null ? bounds.slice(0, MAX_BOUNDS) : [];
  return {
    name: metric,
    label: value || "–",
    count: count(numbers),
    mean: numbers && sum !== null ? sixDigits(sum / numbers) : "–",
    shares: listed.map((bound, index) => `${percent(buckets[index] ?? 0, numbers)} ≤ ${sixDigits(bound)}`),
    further: listed.length ? bounds.length - listed.length : 0,
  };
}

/** 12345.678 becomes "12,345.7", and 0.00000123 becomes "1.23e-6". */
function sixDigits(value: number): string {
  const size = Math.abs(value);
  return size === 0 || (size >= 1e-4 && size < 1e15)
    ? SIX_DIGITS.format(value)
    : Number(value.toPrecision(6)).toExponential();
}

/** "0 %" is none, and "100 %" is all: a share between them is never rounded to one of them. */
function percent(part: number, all: number): string {
  const rounded = Math.round((100 * part) / all);
  if (part > 0 && rounded === 0) return "< 1 %";
  if (part < all && rounded === 100) return "> 99 %";
  return `${rounded} %`;
}
