/** Positions as text. */

import type { Position } from "./documents";
import { count } from "./format";

/** The sequence, after the epoch if there is one. */
export function place(position: Position | null): string {
  if (!position) return "–";
  return position.epoch ? `${position.epoch}:${count(position.sequence)}` : count(position.sequence);
}

/** The cursor as text if its connector made it of text, and as hexadecimal digits otherwise. */
export function cursor(position: Position | null): string {
  if (!position?.cursor) return "–";
  const data = Uint8Array.from(atob(position.cursor), (char) => char.charCodeAt(0));
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(data);
    if (!/\p{Cc}/u.test(text)) return text;
  } catch {
    // It is not UTF-8.
  }
  return `0x${Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
