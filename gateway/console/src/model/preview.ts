/** The forms in which previews of messages are shown. */

import type { Preview } from "./documents";

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
