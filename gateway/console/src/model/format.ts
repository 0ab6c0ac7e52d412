/** Texts for numbers. */

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** 1234567 becomes "1,234,567". */
export function count(value: number | bigint): string {
  return WHOLE.format(value);
}

/** 1 becomes "1 message", and 1234 becomes "1,234 messages" or "1,234 micro-batches". */
export function counted(value: number, thing: string): string {
  return `${count(value)} ${thing}${value === 1 ? "" : thing.endsWith("ch") ? "es" : "s"}`;
}

/** 0.53 becomes "0.5/s", and 1234.5 becomes "1,235/s". */
export function rate(perSecond: number): string {
  return `${perSecond > 0 && perSecond < 10 ? TENTHS.format(perSecond) : WHOLE.format(perSecond)}/s`;
}

/** 2048 becomes "2.0 KiB". */
export function bytes(value: number): string {
  let unit = 0;
  while (value >= 1024 && unit < BYTES.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && value < 10 ? TENTHS.format(value) : WHOLE.format(value)} ${BYTES[unit] ?? ""}`;
}

/** 65000 becomes "1m 05s", as the commands show it: test/durations.json has the cases that both are tested with. */
export function duration(ms: number): string {
  const whole = Math.max(0, Math.floor(ms));
  const seconds = Math.floor(whole / 1000);
  if (seconds < 1) return `${whole} ms`;
  if (seconds < 10) return `${seconds}.${Math.floor(whole / 100) % 10} s`;
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m ${padded(seconds % 60)}s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}h ${padded(minutes % 60)}m`;
  return `${Math.floor(hours / 24)}d ${padded(hours % 24)}h`;
}

function padded(value: number): string {
  return `${value}`.padStart(2, "0");
}

/** The local time of day of a moment, with the date if it is not of the day of `now`. */
export function timeOfDay(at: number, now: number): string {
  return new Date(at).toDateString() === new Date(now).toDateString() ? clockTime(at) : dateAndTime(at);
}

/** The local time of day, in the same form in every browser: 00:05:09; a dash for an empty text. */
export function clockTime(at: number | string): string {
  return at === "" ? "–" : new Date(at).toLocaleTimeString("en-GB");
}

/** The local date and time of day: 2026-01-31 00:05:09. */
export function dateAndTime(at: number | string): string {
  return `${new Date(at).toLocaleDateString("sv-SE")} ${clockTime(at)}`;
}

/** The first line of an error, and no more than a screen shows of it. */
export function firstLine(text: string): string {
  const line = text.split("\n", 1)[0] ?? "";
  return line.length > 300 ? `${line.slice(0, 299)}…` : line;
}
