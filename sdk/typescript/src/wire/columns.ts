import { InvalidMessageError } from "../errors.js";
import {
  NULL_TIME,
  type Batch,
  type Bytes,
  type Headers,
  type Message,
  type Packed,
  type Sequence,
} from "../message.js";
import { ByteColumn } from "./byte_column.js";
import { distance, plus } from "./sequence.js";

/** The largest distance between two sequences of one frame. */
export const MAX_DELTA = 0xffff_ffff;
/** The largest cursor at a gateway that announces none. */
export const UNANNOUNCED_CURSOR_BYTES = 4096;

const NULL_HIGH = -0x8000_0000;
/** The first microsecond of the year 1, the earliest event time. */
const MIN_TIME = -62_135_596_800_000_000n;
/** The last microsecond of the year 9999, the latest event time. */
const MAX_TIME = 253_402_300_799_999_999n;

/** How much columns have room for at first. */
export interface Capacity {
  readonly rows: number;
  readonly keyBytes: number;
  readonly valueBytes: number;
}

/** Gathers the messages of one stream in columns, from which frames are cut. Rows are counted from 0. */
export class Columns {
  rows = 0;
  /** The rows that were taken by frames. */
  at = 0;
  /** The sequence of the row `at`. */
  firstSequence: Sequence = 0;
  lastSequence: Sequence = 0;
  /** Whether any distance between two sequences is not 1. */
  hasGaps = false;
  /** The distance of each row's sequence from the one before; the first entry has no meaning. */
  deltas: Uint32Array;
  readonly values: ByteColumn;
  keys: ByteColumn | undefined;
  messageIds: ByteColumn | undefined;
  /** Event times in microseconds, as pairs of 32-bit words: low, high. */
  times: Int32Array | undefined;
  headerCounts: Uint32Array | undefined;
  headerNames: ByteColumn | undefined;
  headerValues: ByteColumn | undefined;
  headers = 0;
  /** The headers that were taken by frames. */
  headersTaken = 0;
  /** Cursors, each with its row. */
  readonly cursors: [row: number, cursor: Uint8Array][] = [];

  /** @param anyTime - Whether event times may be outside the years 1 to 9999, as in the rows of a sink. */
  constructor(
    private readonly capacity: Capacity,
    private readonly anyTime = false,
  ) {
    this.deltas = new Uint32Array(capacity.rows);
    this.values = new ByteColumn(capacity.rows, capacity.valueBytes);
  }

  /** The bytes of the messages that were not taken. */
  get bytes(): number {
    const left = (column: ByteColumn | undefined): number => (column ? column.used - column.taken : 0);
    return (
      left(this.values) + left(this.keys) + left(this.messageIds) + left(this.headerNames) + left(this.headerValues)
    );
  }

  /**
   * Appends a message.
   *
   * @throws {@link InvalidMessageError} if it cannot be sent; the columns are then as before.
   */
  add(message: Message, sequence: Sequence): void {
    const undo = this.#mark();
    try {
      const row = this.rows;
      this.values.set(row, message.value, "value");
      if (message.key !== undefined || this.keys !== undefined) this.#key(row, message.key);
      if (message.eventTime !== undefined || this.times !== undefined) this.#time(row, message.eventTime);
      if (message.messageId !== undefined || this.messageIds !== undefined) this.#messageId(row, message.messageId);
      if (message.headers !== undefined || this.headerCounts !== undefined) this.#headers(row, message.headers);
      if (message.cursor !== undefined) this.#cursor(row, message.cursor);
      this.#sequence(row, sequence);
      this.rows = row + 1;
    } catch (error) {
      undo();
      throw error;
    }
  }

  /**
   * Appends the messages of a batch, whose columns have `count` entries.
   *
   * @param sequences - The sequence of the first, and the distance of each further one from the one before; undefined: 1.
   * @throws {@link InvalidMessageError} if a message cannot be sent; the columns are then as before.
   */
  addBatch(batch: Batch, count: number, first: Sequence, deltas: Uint32Array | undefined): void {
    const undo = this.#mark();
    try {
      const row = this.rows;
      this.#column(this.values, row, batch.values, "value");
      if (batch.keys !== undefined) this.#column(this.#keyColumn(row), row, batch.keys, "key");
      else this.keys?.fillNull(row, row + count);
      for (let i = 0; i < count; i++) {
        if (batch.eventTimes !== undefined || this.times !== undefined) this.#time(row + i, batch.eventTimes?.[i]);
        if (batch.messageIds !== undefined || this.messageIds !== undefined) {
          this.#messageId(row + i, batch.messageIds?.[i]);
        }
        if (batch.headers !== undefined || this.headerCounts !== undefined) this.#headers(row + i, batch.headers?.[i]);
      }
      if (batch.cursor !== undefined) this.#cursor(row + count - 1, batch.cursor);
      this.#sequence(row, first);
      this.#steps(row, count, first, deltas);
      this.rows = row + count;
    } catch (error) {
      undo();
      throw error;
    }
  }

  #mark(): () => void {
    const { values, keys, messageIds, headerNames, headerValues, headers, firstSequence, lastSequence, hasGaps } = this;
    const value = values.used;
    const key = keys?.used ?? 0;
    const id = messageIds?.used ?? 0;
    const name = headerNames?.used ?? 0;
    const headerValue = headerValues?.used ?? 0;
    const cursors = this.cursors.length;
    return () => {
      values.used = value;
      if (this.keys !== undefined) this.keys.used = key;
      if (this.messageIds !== undefined) this.messageIds.used = id;
      if (this.headerNames !== undefined) this.headerNames.used = name;
      if (this.headerValues !== undefined) this.headerValues.used = headerValue;
      this.headers = headers;
      this.cursors.length = cursors;
      this.firstSequence = firstSequence;
      this.lastSequence = lastSequence;
      this.hasGaps = hasGaps;
    };
  }

  #column(column: ByteColumn, row: number, values: readonly (Bytes | null)[] | Packed, what: string): void {
    if ("lengths" in values) {
      column.setPacked(row, values);
    } else {
      for (let i = 0; i < values.length; i++) column.set(row + i, values[i], what);
    }
  }

  #keyColumn(row: number): ByteColumn {
    if (this.keys === undefined) {
      this.keys = new ByteColumn(this.deltas.length, this.capacity.keyBytes);
      this.keys.fillNull(0, row);
    }
    return this.keys;
  }

  #key(row: number, key: Bytes | null | undefined): void {
    if (this.keys === undefined && (key === null || key === undefined)) return;
    this.#keyColumn(row).set(row, key, "key");
  }

  #messageId(row: number, id: string | null | undefined): void {
    if (id !== null && id !== undefined) {
      checkText(id, "message id");
      if (this.messageIds === undefined) {
        this.messageIds = new ByteColumn(this.deltas.length, this.deltas.length * 16);
        this.messageIds.fillNull(0, row);
      }
    }
    this.messageIds?.set(row, id, "message id");
  }

  #time(row: number, time: Date | bigint | null | undefined): void {
    if (this.times === undefined) {
      if (time === null || time === undefined) return;
      this.times = new Int32Array(this.deltas.length * 2);
      for (let i = 0; i < row; i++) this.times[2 * i + 1] = NULL_HIGH;
    }
    const at = row * 2;
    if (at >= this.times.length) {
      const grown = new Int32Array(at * 2);
      grown.set(this.times);
      this.times = grown;
    }
    const times = this.times;
    if (time === null || time === undefined) {
      times[at] = 0;
      times[at + 1] = NULL_HIGH;
    } else {
      const micros = typeof time === "bigint" ? time : microseconds(time);
      if (!this.anyTime && micros !== NULL_TIME && (micros < MIN_TIME || micros > MAX_TIME)) {
        throw new InvalidMessageError(`event time ${micros} is not within the years 1 to 9999, in microseconds`);
      }
      if (typeof micros === "number") {
        times[at] = micros | 0;
        times[at + 1] = Math.floor(micros / 2 ** 32);
      } else {
        times[at] = Number(BigInt.asIntN(32, micros));
        times[at + 1] = Number(micros >> 32n);
      }
    }
  }

  #headers(row: number, headers: Headers | null | undefined): void {
    const count = headers?.length ?? 0;
    if (this.headerCounts === undefined) {
      if (count === 0) return;
      this.headerCounts = new Uint32Array(this.deltas.length);
      this.headerNames = new ByteColumn(this.deltas.length, this.deltas.length * 8);
      this.headerValues = new ByteColumn(this.deltas.length, this.deltas.length * 8);
    }
    if (row >= this.headerCounts.length) {
      const grown = new Uint32Array(row * 2);
      grown.set(this.headerCounts);
      this.headerCounts = grown;
    }
    this.headerCounts[row] = count;
    for (const [name, value] of headers ?? []) {
      checkText(name, "header name");
      this.headerNames!.set(this.headers, name, "header name");
      this.headerValues!.set(this.headers, value, "header value");
      this.headers += 1;
    }
  }

  /** Sets the cursor after the last row. */
  moveCursor(cursor: Uint8Array): void {
    this.#cursor(this.rows - 1, cursor);
  }

  #cursor(row: number, cursor: Uint8Array): void {
    if (!(cursor instanceof Uint8Array)) throw new InvalidMessageError("a cursor must be a Uint8Array");
    // Of several cursors after one row, the latest counts: a source may move its cursor often while it has no credit.
    if (this.cursors.at(-1)?.[0] === row) this.cursors.pop();
    this.cursors.push([row, cursor]);
  }

  #sequence(row: number, sequence: Sequence): void {
    if (row === 0) {
      this.firstSequence = sequence;
    } else {
      const delta = distance(this.lastSequence, sequence);
      if (row >= this.deltas.length) this.#growDeltas(row + 1);
      this.deltas[row] = delta;
      if (delta !== 1) this.hasGaps = true;
    }
    this.lastSequence = sequence;
  }

  #steps(row: number, count: number, first: Sequence, deltas: Uint32Array | undefined): void {
    if (row + count > this.deltas.length) this.#growDeltas(row + count);
    if (deltas === undefined) {
      this.deltas.fill(1, row + 1, row + count);
      this.lastSequence = plus(first, count - 1);
      return;
    }
    this.deltas.set(deltas, row + 1);
    let sum = 0;
    for (const delta of deltas) {
      if (delta !== 1) this.hasGaps = true;
      sum += delta;
    }
    this.lastSequence = plus(first, sum);
  }

  #growDeltas(needed: number): void {
    const grown = new Uint32Array(Math.max(needed, this.deltas.length * 2));
    grown.set(this.deltas);
    this.deltas = grown;
  }
}

function checkText(text: unknown, what: string): void {
  if (typeof text !== "string") throw new InvalidMessageError(`a ${what} is ${typeof text}, and must be a string`);
  if (!isWellFormed(text)) throw new InvalidMessageError(`the ${what} ${JSON.stringify(text)} is not valid Unicode`);
}

function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

/** A date in microseconds: a number if it is a safe integer. */
function microseconds(date: Date): number | bigint {
  const ms = date instanceof Date ? date.getTime() : Number.NaN;
  if (Number.isNaN(ms)) throw new InvalidMessageError("an event time is neither a valid Date nor a bigint");
  const micros = ms * 1000;
  return Number.isSafeInteger(micros) ? micros : BigInt(ms) * 1000n;
}
