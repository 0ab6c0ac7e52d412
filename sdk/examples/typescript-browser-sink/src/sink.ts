import { isUtf8 } from "node:buffer";

import { WRITTEN, type AtLeastOnceSink, type Outcomes, type Part, type Row, type Rows } from "@headrace/sdk";

import type { Ring } from "./ring.js";

/** Puts rows into a ring, from which browsers get them. */
export class BrowserSink implements AtLeastOnceSink {
  readonly mode = "at-least-once";
  readonly connector = "browser-sink";
  readonly version = "0.1.0";

  constructor(
    readonly name: string,
    private readonly ring: Ring,
  ) {}

  async write(rows: Rows): Promise<Outcomes> {
    const data = [...rows].map((row) => dataOf(row, rows.part));
    const most = this.ring.maxDataBytes;
    const sizes = data.map((one) => Buffer.byteLength(one));
    await this.ring.append(data.filter((_, i) => sizes[i] <= most));
    return sizes.map((size) =>
      size <= most ? WRITTEN : { refused: `it makes an event of ${size} bytes, and the ring takes at most ${most}` },
    );
  }

  flush(): Promise<void> {
    return this.ring.sync();
  }
}

/** A row as one line of JSON. It omits absent and null fields, except the value. */
export function dataOf(row: Row, part: Part | undefined): string {
  const { value, key, eventTime, messageId, headers, sequence } = row;
  const transaction = part?.transaction;
  return JSON.stringify({
    ...bytes("value", value),
    ...(key !== null && bytes("key", key)),
    ...(eventTime !== undefined && { time: timeOf(eventTime) }),
    ...(messageId !== undefined && { message_id: messageId }),
    ...(headers.length > 0 && { headers: headers.map(([name, content]) => ({ name, ...bytes("value", content) })) }),
    // The same when the row comes again, so that a page can leave out what it has.
    ...(transaction && { row: `${transaction.pipeline}/${transaction.batch}/${part.partition}/${sequence}` }),
  });
}

/** Bytes as text, or in base64 if they are none. */
function bytes(name: string, content: Buffer | null): Record<string, string | null> {
  if (content === null) return { [name]: null };
  return isUtf8(content) ? { [name]: content.toString() } : { [`${name}_base64`]: content.toString("base64") };
}

/** A time in ISO 8601, or its microseconds if it is outside of what a `Date` can hold. */
function timeOf(micros: bigint): string {
  const date = new Date(Number(micros / 1000n));
  return Number.isNaN(date.getTime()) ? micros.toString() : date.toISOString();
}
