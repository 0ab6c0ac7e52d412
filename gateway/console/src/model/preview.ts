/** Previews of messages as the gateway sends them, and the forms in which they are shown. */

import type { Large } from "./documents";

export interface Preview {
  text: string | null;
  base64: string;
  size: number;
}

/** How the parts of a message begin. */
export interface Content {
  event_time: string | null;
  key: Preview | null;
  value: Preview | null;
  headers: { name: string; value: Preview | null }[];
  headers_in_all: number;
}

export interface MessagePreview extends Content {
  epoch: Large;
  sequence: Large;
}

export interface DeadLetter extends Content {
  pipeline: string;
  batch: number;
  committed_at: string;
  reason: string;
  /** The sink that has refused it. */
  sink: string | null;
  /** The step whose function has failed. */
  step: string | null;
  stream: string | null;
  sequence: Large | null;
}

export interface DeadLetters {
  sinks: { sink: string; count: number; letters: DeadLetter[] }[];
  /** Whether the gateway keeps any. */
  kept: boolean;
  /** The command that replays them. */
  replay: string;
}

export interface Sample {
  messages: MessagePreview[];
  not_shown: number;
}

export const FORMS = ["auto", "text", "json", "hex"] as const;
export type Form = (typeof FORMS)[number];

const HEX_WIDTH = 16;

/** Returns bytes in a form; what is not in that form is shown in another one. */
export function shownAs(preview: Preview, form: Form): string {
  if (form === "hex" || preview.text === null) return hex(preview.base64);
  return (form === "text" ? null : laidOut(preview.text)) ?? preview.text;
}

/** Returns bytes as one line. */
export function line(preview: Preview | null): string {
  if (!preview) return "null";
  return preview.text ?? hex(preview.base64).replaceAll("\n", " ");
}

/** JSON laid out for people; null if the text is no JSON, is cut off, or may have numbers that would be rounded. */
function laidOut(text: string): string | null {
  if (/\d{16}/.test(text)) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

function hex(base64: string): string {
  const all = Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
  const rows: string[] = [];
  for (let at = 0; at < all.length; at += HEX_WIDTH) {
    const row = Array.from(all.slice(at, at + HEX_WIDTH));
    const codes = row.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((one) => (one >= 0x20 && one < 0x7f ? String.fromCharCode(one) : ".")).join("");
    rows.push(`${at.toString(16).padStart(4, "0")}  ${codes.padEnd(3 * HEX_WIDTH - 1)}  ${letters}`);
  }
  return rows.join("\n");
}
