import { InvalidMessageError, MessageTooLargeError } from "../errors.js";
import {
  NULL_LENGTH,
  type Batch,
  type Bytes,
  type DeliveredBatch,
  type Headers,
  type Message,
  type Packed,
  type Sequence,
} from "../message.js";
import { Columns, MAX_DELTA, type Capacity } from "../wire/columns.js";
import { cutOne } from "../wire/frame.js";
import { checkSequence, distance, plus } from "../wire/sequence.js";

/** How many full frames a stream holds before its source has to wait. */
const CAPACITY_IN_FRAMES = 3;
const SMALL: Capacity = { rows: 64, keyBytes: 512, valueBytes: 4096 };

/** How large a frame should be, and may be. */
export interface FrameLimits {
  /** The size at which a frame is sent without waiting for more, in bytes and in messages. */
  readonly targetBytes: number;
  readonly targetMessages: number;
  /** The largest frame that the gateway accepts, in bytes. */
  readonly maxBytes: number;
  /** The largest cursor that the gateway accepts, in bytes. */
  readonly maxCursorBytes: number;
}

/** The messages that a stream has read and not sent yet, in columns. It is bounded: its reader stops while it is full. */
export class Gather {
  #open: Columns | undefined;
  #sealed: Columns[] = [];
  #capacity = SMALL;
  #next: Sequence;
  #last: Sequence | undefined;
  #cursor: Uint8Array | undefined;

  /**
   * @param streamId - The id of the stream in frames.
   * @param next - The sequence of the first message, if the source does not name one.
   */
  constructor(
    private readonly streamId: number,
    private readonly limits: FrameLimits,
    next: Sequence,
  ) {
    this.#next = next;
  }

  /** Whether there is anything to send. */
  get isEmpty(): boolean {
    return this.#open === undefined && this.#sealed.length === 0;
  }

  /** Whether a whole frame waits. */
  get hasFrame(): boolean {
    return this.#sealed.length > 0;
  }

  /** Whether the reader must wait. */
  get isFull(): boolean {
    return this.#sealed.length >= CAPACITY_IN_FRAMES;
  }

  /** The number of messages, and their size in bytes. */
  get content(): { messages: number; bytes: number } {
    let messages = 0;
    let bytes = 0;
    for (const columns of this.#open ? [...this.#sealed, this.#open] : this.#sealed) {
      messages += columns.rows - columns.at;
      bytes += columns.bytes;
    }
    return { messages, bytes };
  }

  /** The sequence of the message that was added last. */
  get lastAdded(): Sequence | undefined {
    return this.#last;
  }

  /** The columns from which the next frame is cut. Later messages do not change them. */
  front(): Columns | undefined {
    if (this.#sealed.length === 0) this.#seal();
    return this.#sealed[0];
  }

  /** Removes the columns at the front, all of which were sent. */
  shift(): void {
    this.#sealed.shift();
  }

  /** Takes a cursor that has moved since the last message; undefined if none has. */
  takeCursor(): Uint8Array | undefined {
    const cursor = this.#cursor;
    this.#cursor = undefined;
    return cursor;
  }

  /** Drops everything. */
  clear(): void {
    this.#cursor = undefined;
    this.#open = undefined;
    this.#sealed = [];
  }

  /**
   * Adds a message.
   *
   * @returns What is wrong with the message, if it cannot be sent; it is then left out.
   * @throws {@link InvalidMessageError} if its sequence is wrong, which no later message can mend.
   */
  add(message: Message): InvalidMessageError | undefined {
    const sequence = this.#sequenceOf(message.sequence);
    this.#last = sequence;
    this.#next = plus(sequence, 1);
    this.#cursor = undefined;
    try {
      if (message.cursor) this.#checkCursor(message.cursor);
      if (weight(message) > this.limits.maxBytes / 2) this.#addLarge(message, sequence);
      else this.#columnsFor(sequence).add(message, sequence);
    } catch (error) {
      if (this.#open?.rows === 0) this.#open = undefined;
      if (error instanceof InvalidMessageError) return error;
      throw error;
    }
    if (message.endsFrame === true) this.#seal();
    else this.#sealIfEnough();
    return undefined;
  }

  /**
   * Adds a batch, unless one of its messages cannot be sent: it must then be added message by message.
   *
   * @returns Whether it was added.
   * @throws {@link InvalidMessageError} if its columns differ in length, or a sequence is wrong.
   */
  addBatch(batch: Batch): boolean {
    const count = countOf(batch);
    if (count === 0) {
      if (batch.cursor) this.#moveCursor(batch.cursor);
      return true;
    }
    const steps = stepsOf(batch, count);
    if (steps === "wide" || hasLarge(batch.values, this.limits.maxBytes / 4)) return false;
    if (batch.keys !== undefined && hasLarge(batch.keys, this.limits.maxBytes / 4)) return false;
    const first = this.#sequenceOf(steps?.first);
    const columns = this.#columnsFor(first);
    this.#cursor = undefined;
    try {
      if (batch.cursor) this.#checkCursor(batch.cursor);
      columns.addBatch(batch, count, first, steps?.deltas);
    } catch (error) {
      if (columns.rows === 0) this.#open = undefined;
      if (error instanceof InvalidMessageError) return false;
      throw error;
    }
    this.#last = columns.lastSequence;
    this.#next = plus(this.#last, 1);
    this.#sealIfEnough();
    return true;
  }

  /** Adds a cursor after the last message, or keeps it until the sender takes it if that message was taken. */
  #moveCursor(cursor: Uint8Array): void {
    this.#checkCursor(cursor);
    // Nothing may follow with the sequence after which it stands.
    this.#last ??= plus(this.#next, -1);
    const columns = this.#open ?? this.#sealed.at(-1);
    if (columns === undefined) this.#cursor = cursor;
    else columns.moveCursor(cursor);
  }

  #checkCursor(cursor: Uint8Array): void {
    const { maxCursorBytes } = this.limits;
    if (cursor.length <= maxCursorBytes) return;
    const after = this.#last ?? plus(this.#next, -1);
    throw new InvalidMessageError(
      `the cursor of sequence ${after} has ${cursor.length} bytes, and the gateway accepts at most ${maxCursorBytes}`,
    );
  }

  #sequenceOf(given: Sequence | undefined): Sequence {
    const sequence = given ?? this.#next;
    checkSequence(sequence);
    if (this.#last !== undefined && sequence <= this.#last) {
      throw new InvalidMessageError(`sequence ${sequence} comes after ${this.#last}: sequences must strictly increase`);
    }
    return sequence;
  }

  #columnsFor(sequence: Sequence): Columns {
    if (this.#open !== undefined && distance(this.#open.lastSequence, sequence) > MAX_DELTA) this.#seal();
    return (this.#open ??= new Columns(this.#capacity));
  }

  /** A large message has columns of its own, so that its size is exactly its frame's. */
  #addLarge(message: Message, sequence: Sequence): void {
    const columns = new Columns({ ...SMALL, rows: 1 });
    columns.add(message, sequence);
    const { size } = cutOne(columns, this.streamId);
    if (size > this.limits.maxBytes) {
      throw new MessageTooLargeError(
        `message ${sequence} makes a frame of ${size} bytes, and the gateway accepts at most ${this.limits.maxBytes}; ` +
          "raise its limits.max_frame_bytes, or leave the message out",
      );
    }
    this.#seal();
    this.#sealed.push(columns);
  }

  #sealIfEnough(): void {
    const open = this.#open;
    if (open && (open.bytes >= this.limits.targetBytes || open.rows >= this.limits.targetMessages)) this.#seal();
  }

  #seal(): void {
    const open = this.#open;
    if (open === undefined) return;
    this.#open = undefined;
    this.#sealed.push(open);
    this.#capacity = {
      rows: Math.max(SMALL.rows, open.rows),
      keyBytes: Math.max(SMALL.keyBytes, open.keys?.used ?? 0),
      valueBytes: Math.max(SMALL.valueBytes, open.values.used),
    };
  }
}

/** The messages of a batch, one by one, each with its place. */
export function* messagesOf(batch: Batch): Generator<[place: number, message: Message]> {
  const count = countOf(batch);
  const values = entries(batch.values);
  const keys = batch.keys && entries(batch.keys);
  const sequences = batch.sequences && [...sequencesOf(batch.sequences, count)];
  for (let i = 0; i < count; i++) {
    yield [
      i,
      {
        value: values[i]!,
        key: keys?.[i],
        eventTime: batch.eventTimes?.[i],
        messageId: batch.messageIds?.[i],
        headers: batch.headers?.[i],
        sequence: sequences?.[i],
        cursor: i === count - 1 ? batch.cursor : undefined,
      },
    ];
  }
}

/** The number of messages; throws {@link InvalidMessageError} if the columns do not add up. */
function countOf(batch: DeliveredBatch<unknown> | Batch): number {
  const lengthOf = (column: readonly unknown[] | BigInt64Array | Packed): number =>
    "lengths" in column ? column.lengths.length : column.length;
  const count = lengthOf(batch.values);
  const { keys, eventTimes, messageIds, headers } = batch;
  const tokens = "tokens" in batch ? batch.tokens : undefined;
  for (const [name, column] of Object.entries({ keys, eventTimes, messageIds, headers, tokens })) {
    if (column !== undefined && lengthOf(column) !== count) {
      throw new InvalidMessageError(
        `${name} of a batch: ${count} expected, as many as values, ${lengthOf(column)} given`,
      );
    }
  }
  checkPacked("values", batch.values);
  if (keys) checkPacked("keys", keys);
  return count;
}

function checkPacked(name: string, column: readonly (Bytes | null)[] | Packed): void {
  if (!("lengths" in column)) return;
  let sum = 0;
  for (const length of column.lengths) if (length !== NULL_LENGTH) sum += length;
  if (sum !== column.data.length) {
    throw new InvalidMessageError(
      `the lengths of the packed ${name} add up to ${sum}, and the size of the data is ${column.data.length}`,
    );
  }
}

/** Sequences as steps; "wide" if a distance is too large for one frame. */
function stepsOf(batch: Batch, count: number): Steps | "wide" | undefined {
  const { sequences } = batch;
  if (sequences === undefined) return undefined;
  if (!isList(sequences)) {
    const { first, deltas } = sequences;
    if (deltas && deltas.length !== count - 1) {
      throw new InvalidMessageError(
        `deltas of a batch: ${count - 1} expected, one fewer than values, ${deltas.length} given`,
      );
    }
    if (deltas?.includes(0))
      throw new InvalidMessageError("a batch has a sequence delta of 0: sequences must increase");
    return { first, deltas };
  }
  if (sequences.length !== count) {
    throw new InvalidMessageError(
      `sequences of a batch: ${count} expected, as many as values, ${sequences.length} given`,
    );
  }
  const deltas = new Uint32Array(count - 1);
  for (let i = 1; i < count; i++) {
    checkSequence(sequences[i]);
    const delta = distance(sequences[i - 1], sequences[i]);
    if (delta < 1) {
      throw new InvalidMessageError(
        `sequence ${sequences[i]} comes after ${sequences[i - 1]}: sequences must strictly increase`,
      );
    }
    if (delta > MAX_DELTA) return "wide";
    deltas[i - 1] = delta;
  }
  return { first: sequences[0], deltas };
}

interface Steps {
  first: Sequence;
  deltas: Uint32Array | undefined;
}

function isList(sequences: NonNullable<Batch["sequences"]>): sequences is readonly Sequence[] {
  return Array.isArray(sequences);
}

function* sequencesOf(sequences: NonNullable<Batch["sequences"]>, count: number): Generator<Sequence> {
  if (isList(sequences)) {
    yield* sequences;
    return;
  }
  let sequence = sequences.first;
  yield sequence;
  for (let i = 1; i < count; i++) yield (sequence = plus(sequence, sequences.deltas?.[i - 1] ?? 1));
}

function entries(column: readonly (Bytes | null)[] | Packed): readonly (Bytes | null)[] {
  if (!("lengths" in column)) return column;
  let at = 0;
  return Array.from(column.lengths, (length) =>
    length === NULL_LENGTH ? null : column.data.subarray(at, (at += length)),
  );
}

/** Whether a single entry might be too large for a frame. */
function hasLarge(column: readonly (Bytes | null)[] | Packed, bytes: number): boolean {
  if ("lengths" in column) {
    return column.data.length > bytes && column.lengths.some((length) => length !== NULL_LENGTH && length > bytes);
  }
  return column.some((entry) => most(entry) > bytes);
}

/** The most bytes that a message adds to a frame. */
function weight(message: Message): number {
  let bytes = most(message.value) + most(message.key);
  if (message.messageId) bytes += message.messageId.length * 3;
  if (message.headers) bytes += headersWeight(message.headers);
  return bytes;
}

function headersWeight(headers: Headers): number {
  let bytes = 0;
  for (const [name, value] of headers) bytes += most(name) + most(value) + 8;
  return bytes;
}

function most(entry: Bytes | null | undefined): number {
  if (entry === null || entry === undefined) return 0;
  return typeof entry === "string" ? entry.length * 3 : entry.length;
}
