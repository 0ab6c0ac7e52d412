import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import type { Message } from "../src/message.js";
import { Rows } from "../src/rows.js";
import { checkFrame } from "../src/wire/check.js";
import type { Frame } from "./generated.js";

const FOLDER = join(dirname(fileURLToPath(import.meta.url)), "../../../../conformance/vectors");

/** A file of conformance/vectors. */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the shape of the file
export function readVectors<T>(name: string): T {
  return JSON.parse(readFileSync(join(FOLDER, `${name}.json`), "utf8")) as T;
}

/** Bytes, as the vectors write them. */
export const hex = (text: string | null | undefined): Buffer | null =>
  typeof text === "string" ? Buffer.from(text, "hex") : null;

/** The messages of a frame, as the vectors write them. A list that is left out is null for every message. */
export interface FrameColumns {
  readonly stream_id?: number;
  readonly sequences: string[];
  readonly values: (string | null)[];
  readonly keys?: (string | null)[];
  readonly event_times?: (string | null)[];
  readonly message_ids?: (string | null)[];
  readonly headers?: [string, string | null][][];
  readonly cursor?: string | null;
}

/** The columns of a frame, all of them; throws if they contradict each other. */
export function columnsOf(frame: Frame): Required<FrameColumns> {
  checkFrame(frame);
  const rows = [...new Rows(frame)];
  const text = (bytes: Uint8Array | null): string | null =>
    bytes === null ? null : Buffer.from(bytes).toString("hex");
  return {
    stream_id: frame.streamId,
    sequences: rows.map(({ sequence }) => sequence.toString()),
    values: rows.map(({ value }) => text(value)),
    keys: rows.map(({ key }) => text(key)),
    event_times: rows.map(({ eventTime }) => eventTime?.toString() ?? null),
    message_ids: rows.map(({ messageId }) => messageId ?? null),
    headers: rows.map(({ headers }) => headers.map(([name, value]) => [name, text(value)])),
    cursor: frame.cursor?.length ? text(frame.cursor) : null,
  };
}

/** The messages of columns; the last one has the cursor. */
export function messagesOf(columns: FrameColumns): Message[] {
  return columns.sequences.map((sequence, i) => {
    const time = columns.event_times?.[i] ?? null;
    const isLast = i === columns.sequences.length - 1;
    return {
      sequence: BigInt(sequence),
      value: hex(columns.values[i]),
      key: hex(columns.keys?.[i]),
      eventTime: time === null ? null : BigInt(time),
      messageId: columns.message_ids?.[i] ?? null,
      headers: (columns.headers?.[i] ?? []).map(([name, value]) => [name, hex(value)] as const),
      cursor: (isLast ? hex(columns.cursor) : null) ?? undefined,
    };
  });
}
