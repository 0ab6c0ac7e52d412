/** Texts for numbers. */

const UNITS = ["", " k", " M", " G", " T"];

function scaled(value: number, step: number): [number, number] {
  let unit = 0;
  while (Math.abs(value) >= step && unit < UNITS.length - 1) {
    value /= step;
    unit += 1;
  }
  return [value, unit];
}

function digits(value: number): string {
  return value < 10 && !Number.isInteger(value) ? value.toFixed(1) : String(Math.round(value));
}

/** 1234 becomes "1.2 k". */
export function count(value: number): string {
  const [amount, unit] = scaled(value, 1000);
  return digits(amount) + (UNITS[unit] ?? "");
}

/** 2048 becomes "2 KiB". */
export function bytes(value: number): string {
  const [amount, unit] = scaled(value, 1024);
  return `${digits(amount)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit] ?? ""}`;
}

/** 65000 becomes "1 min 5 s". */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 10) return `${(ms / 1000).toFixed(1)} s`;
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d`;
}

export function rate(perSecond: number): string {
  return `${count(perSecond)}/s`;
}

/** The first line of an error, and no more than a screen shows of it. */
export function firstLine(text: string): string {
  const line = text.split("\n", 1)[0] ?? "";
  return line.length > 300 ? `${line.slice(0, 299)}…` : line;
}
