import type { Sequence } from "../message.js";
import type { Columns } from "./columns.js";
import { plus } from "./sequence.js";
import { IS_BIG_ENDIAN } from "./words.js";

/**
 * A run of rows at the front of columns, for a frame. Frames are written by hand: a protobuf library copies each
 * column more often, and takes five times as long.
 */
export interface Cut {
  readonly start: number;
  readonly stop: number;
  /** The size of the serialized `Frame`, in bytes. */
  readonly size: number;
  /** The sequence of the last message. */
  readonly last: Sequence;
  readonly ends: Ends;
}

/** Where a cut ends in each column of entries, in bytes, and how many headers are before it. */
interface Ends {
  values: number;
  keys: number;
  messageIds: number;
  headers: number;
  headerNames: number;
  headerValues: number;
}

const NULL = 0xffff_ffff;
/** The number of the field `cursor`. */
const CURSOR = 17;
/** The bytes that tags, lengths and numbers of a frame take at most. */
const FIXED = 16 * 7 + 30;

/** Returns the largest cut at the front that fits, or undefined if not even one message does. */
export function cutFitting(columns: Columns, streamId: number, maxBytes: number, maxRows: number): Cut | undefined {
  const left = columns.rows - columns.at;
  if (left <= maxRows) {
    const whole = cutAll(columns, streamId);
    if (whole.size <= maxBytes) return whole;
  }
  const most = Math.min(left, maxRows);
  const ends = endsBefore(columns);
  let rows = 0;
  let fixedPerRow = 4 + (columns.hasGaps ? 4 : 0) + (columns.keys ? 4 : 0) + (columns.messageIds ? 4 : 0);
  fixedPerRow += (columns.times ? 8 : 0) + (columns.headerCounts ? 4 : 0);
  // First with a bound, which is cheap, then exactly: only the last messages make a difference.
  const began = total(ends);
  const headers = ends.headers;
  while (rows < most) {
    const before = { ...ends };
    advance(columns, columns.at + rows, ends);
    const bytes = total(ends) - began + (ends.headers - headers) * 8 + (rows + 1) * fixedPerRow + FIXED;
    if (bytes > maxBytes) {
      Object.assign(ends, before);
      break;
    }
    rows += 1;
  }
  let cut = rows === 0 ? undefined : finish(columns, streamId, rows, { ...ends });
  while (rows < most) {
    advance(columns, columns.at + rows, ends);
    const longer = finish(columns, streamId, rows + 1, { ...ends });
    if (longer.size > maxBytes) break;
    cut = longer;
    rows += 1;
  }
  return cut;
}

/** Returns the cut of a single message. */
export function cutOne(columns: Columns, streamId: number): Cut {
  const ends = endsBefore(columns);
  advance(columns, columns.at, ends);
  return finish(columns, streamId, 1, ends);
}

/** Returns the cut of all rows that are left. */
export function cutAll(columns: Columns, streamId: number): Cut {
  return finish(columns, streamId, columns.rows - columns.at, {
    values: columns.values.used,
    keys: columns.keys?.used ?? 0,
    messageIds: columns.messageIds?.used ?? 0,
    headers: columns.headers,
    headerNames: columns.headerNames?.used ?? 0,
    headerValues: columns.headerValues?.used ?? 0,
  });
}

/** Notes that the rows of a cut were sent, or left out. */
export function take(columns: Columns, cut: Cut): void {
  const { ends } = cut;
  columns.at = cut.stop;
  columns.values.taken = ends.values;
  if (columns.keys) columns.keys.taken = ends.keys;
  if (columns.messageIds) columns.messageIds.taken = ends.messageIds;
  if (columns.headerNames) columns.headerNames.taken = ends.headerNames;
  if (columns.headerValues) columns.headerValues.taken = ends.headerValues;
  columns.headersTaken = ends.headers;
  if (cut.stop < columns.rows) {
    columns.firstSequence = plus(cut.last, columns.hasGaps ? columns.deltas[cut.stop] : 1);
  }
}

/** Serializes a cut as an `IngestRequest`. */
export function encodeCut(columns: Columns, streamId: number, cut: Cut): Buffer {
  const out = Buffer.allocUnsafe(1 + varintSize(cut.size) + cut.size);
  out[0] = 0x1a; // IngestRequest.frame
  let at = varint(out, 1, cut.size);
  out[at++] = 0x08;
  at = varint(out, at, streamId);
  const first = columns.firstSequence;
  if (first > 0) {
    out[at++] = 0x10;
    at = varint(out, at, first);
  }
  out[at++] = 0x18;
  at = varint(out, at, cut.stop - cut.start);
  for (const { number, bytes, words } of fields(columns, cut)) {
    // Only a cursor has a presence of its own.
    if (bytes.length === 0 && number !== CURSOR) continue;
    at = varint(out, at, number * 8 + 2);
    at = varint(out, at, bytes.length);
    out.set(bytes, at);
    if (IS_BIG_ENDIAN && words) out.subarray(at, at + bytes.length).swap32();
    at += bytes.length;
  }
  return out;
}

interface Field {
  readonly number: number;
  readonly bytes: Uint8Array;
  /** Whether the bytes are 32-bit integers. */
  readonly words: boolean;
}

function fields(columns: Columns, cut: Cut): Field[] {
  const { start, stop, ends } = cut;
  const found: Field[] = [];
  const words = (number: number, array: Uint32Array | Int32Array, from: number, to: number): void => {
    found.push({
      number,
      bytes: new Uint8Array(array.buffer, array.byteOffset + from * 4, (to - from) * 4),
      words: true,
    });
  };
  const bytes = (number: number, data: Uint8Array): void => {
    found.push({ number, bytes: data, words: false });
  };
  if (columns.hasGaps) words(4, columns.deltas, start + 1, stop);
  if (columns.keys) {
    bytes(5, columns.keys.data.subarray(columns.keys.taken, ends.keys));
    words(6, columns.keys.lengths, start, stop);
  }
  bytes(7, columns.values.data.subarray(columns.values.taken, ends.values));
  words(8, columns.values.lengths, start, stop);
  if (columns.times) words(9, columns.times, start * 2, stop * 2);
  if (columns.messageIds) {
    bytes(10, columns.messageIds.data.subarray(columns.messageIds.taken, ends.messageIds));
    words(11, columns.messageIds.lengths, start, stop);
  }
  if (columns.headerCounts && columns.headerNames && columns.headerValues && ends.headers > columns.headersTaken) {
    words(12, columns.headerCounts, start, stop);
    bytes(13, columns.headerNames.data.subarray(columns.headerNames.taken, ends.headerNames));
    words(14, columns.headerNames.lengths, columns.headersTaken, ends.headers);
    bytes(15, columns.headerValues.data.subarray(columns.headerValues.taken, ends.headerValues));
    words(16, columns.headerValues.lengths, columns.headersTaken, ends.headers);
  }
  const cursor = cursorOf(columns, cut);
  if (cursor) bytes(CURSOR, cursor);
  return found;
}

/** The last cursor of the rows of a cut. */
function cursorOf(columns: Columns, { start, stop }: Pick<Cut, "start" | "stop">): Uint8Array | undefined {
  return columns.cursors.findLast(([row]) => row >= start && row < stop)?.[1];
}

function finish(columns: Columns, streamId: number, rows: number, ends: Ends): Cut {
  const start = columns.at;
  const stop = start + rows;
  let span = rows - 1;
  if (columns.hasGaps) {
    span = 0;
    for (let row = start + 1; row < stop; row++) span += columns.deltas[row];
  }
  const { keys, values, messageIds, headerNames, headerValues } = columns;
  const headers = ends.headers - columns.headersTaken;
  const first = columns.firstSequence;
  let size = 1 + varintSize(streamId) + 1 + varintSize(rows) + (first > 0 ? 1 + varintSize(first) : 0);
  if (columns.hasGaps) size += field(1, (rows - 1) * 4);
  if (keys) size += field(1, ends.keys - keys.taken) + field(1, rows * 4);
  size += field(1, ends.values - values.taken) + field(1, rows * 4);
  if (columns.times) size += field(1, rows * 8);
  if (messageIds) size += field(1, ends.messageIds - messageIds.taken) + field(1, rows * 4);
  if (headerNames && headerValues && headers > 0) {
    size += field(1, rows * 4) + field(1, ends.headerNames - headerNames.taken) + field(1, headers * 4);
    size += field(1, ends.headerValues - headerValues.taken) + field(2, headers * 4);
  }
  const cursor = cursorOf(columns, { start, stop });
  if (cursor) size += 2 + varintSize(cursor.length) + cursor.length;
  return { start, stop, size, last: plus(first, span), ends };
}

function endsBefore(columns: Columns): Ends {
  return {
    values: columns.values.taken,
    keys: columns.keys?.taken ?? 0,
    messageIds: columns.messageIds?.taken ?? 0,
    headers: columns.headersTaken,
    headerNames: columns.headerNames?.taken ?? 0,
    headerValues: columns.headerValues?.taken ?? 0,
  };
}

function total(ends: Ends): number {
  return ends.values + ends.keys + ends.messageIds + ends.headerNames + ends.headerValues;
}

/** Moves the ends past one more row. */
function advance(columns: Columns, row: number, ends: Ends): void {
  ends.values += lengthAt(columns.values.lengths, row);
  if (columns.keys) ends.keys += lengthAt(columns.keys.lengths, row);
  if (columns.messageIds) ends.messageIds += lengthAt(columns.messageIds.lengths, row);
  if (columns.headerCounts && columns.headerNames && columns.headerValues) {
    for (const until = ends.headers + columns.headerCounts[row]; ends.headers < until; ends.headers++) {
      ends.headerNames += lengthAt(columns.headerNames.lengths, ends.headers);
      ends.headerValues += lengthAt(columns.headerValues.lengths, ends.headers);
    }
  }
}

function lengthAt(lengths: Uint32Array, at: number): number {
  const length = lengths[at];
  return length === NULL ? 0 : length;
}

/** The size of a field of bytes, which is left out if it is empty. */
function field(tagSize: number, length: number): number {
  return length === 0 ? 0 : tagSize + varintSize(length) + length;
}

function varintSize(value: Sequence): number {
  if (typeof value === "number") {
    if (value < 0x80) return 1;
    if (value < 0x4000) return 2;
    if (value < 0x20_0000) return 3;
    if (value < 0x1000_0000) return 4;
  }
  let size = 1;
  for (let left = BigInt(value) >> 7n; left > 0n; left >>= 7n) size += 1;
  return size;
}

function varint(out: Buffer, at: number, value: Sequence): number {
  if (typeof value === "number" && value < 2 ** 31) {
    for (; value > 0x7f; value >>>= 7) out[at++] = (value & 0x7f) | 0x80;
    out[at++] = value;
    return at;
  }
  let left = BigInt(value);
  for (; left > 0x7fn; left >>= 7n) out[at++] = Number(left & 0x7fn) | 0x80;
  out[at++] = Number(left);
  return at;
}
