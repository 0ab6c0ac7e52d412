import { fromBinary } from "@bufbuild/protobuf";

import { InvalidMessageError } from "./errors.js";
import type { Frame } from "./gen/headrace/protocol/v1/frame_pb.js";
import { IngestRequestSchema } from "./gen/headrace/protocol/v1/source_pb.js";
import { NULL_LENGTH, NULL_TIME, type Message, type Packed } from "./message.js";
import type { Part } from "./transaction.js";
import { Columns } from "./wire/columns.js";
import { cutAll, encodeCut } from "./wire/frame.js";
import { words } from "./wire/words.js";

/** A message that a sink receives. */
export interface Row {
  /** The payload; null if there is none. */
  readonly value: Buffer | null;
  /** The key; null if there is none. */
  readonly key: Buffer | null;
  /** When it happened, in microseconds since 1970-01-01 UTC; undefined if it is unknown. */
  readonly eventTime: bigint | undefined;
  /** Its id in the source; undefined if it has none. */
  readonly messageId: string | undefined;
  /** Its headers, in order. */
  readonly headers: readonly (readonly [name: string, value: Buffer | null])[];
  /** Its place in its part, counted from 0. */
  readonly sequence: bigint;
}

const NO_HEADERS: Row["headers"] = [];

/**
 * Consecutive messages of one part. Iterate over them one by one, or use whole columns, which is faster.
 *
 *     for (const { value } of rows) ...
 */
export class Rows implements Iterable<Row> {
  readonly #frame: Frame;
  #values: Packed | undefined;

  /**
   * Wraps a frame.
   *
   * @param part - The part of the rows, in {@link AtLeastOnceSink.write}; undefined elsewhere.
   * @internal
   */
  constructor(
    frame: Frame,
    readonly part?: Part,
  ) {
    this.#frame = frame;
  }

  /** Makes rows from messages, for tests. Their places count from 0, regardless of their sequences. */
  static of(...messages: Message[]): Rows {
    if (messages.length === 0) throw new InvalidMessageError("rows contain no message: give at least one");
    return new Rows(frameOf(messages.map((message, place) => ({ ...message, sequence: BigInt(place) }))));
  }

  /**
   * The rows without the ones at some places in the part; undefined if none is left.
   *
   * @internal
   */
  without(places: ReadonlySet<bigint>): Rows | undefined {
    const left = [...this].filter(({ sequence }) => !places.has(sequence));
    return left.length === 0 ? undefined : new Rows(frameOf(left), this.part);
  }

  /** The number of messages. */
  get length(): number {
    return this.#frame.count;
  }

  /** The place of the first message in the part, counted from 0. */
  get first(): bigint {
    return this.#frame.firstSequence;
  }

  /**
   * The frame as received.
   *
   * @internal
   */
  get frame(): Frame {
    return this.#frame;
  }

  /** The values, joined. */
  get values(): Packed {
    return (this.#values ??= { data: this.#frame.values, lengths: words(this.#frame.valueLengths) });
  }

  /** The keys, joined; undefined if no message has one. */
  get keys(): Packed | undefined {
    return packed(this.#frame.keys, this.#frame.keyLengths);
  }

  /** The ids of the messages in UTF-8, joined; undefined if no message has one. */
  get messageIds(): Packed | undefined {
    return packed(this.#frame.messageIds, this.#frame.messageIdLengths);
  }

  /** The event times in microseconds since 1970-01-01 UTC, {@link NULL_TIME} if unknown; undefined if no message has one. */
  get eventTimes(): BigInt64Array | undefined {
    const { eventTimes } = this.#frame;
    if (eventTimes.length === 0) return undefined;
    const view = new DataView(eventTimes.buffer, eventTimes.byteOffset, eventTimes.byteLength);
    return BigInt64Array.from({ length: eventTimes.length / 8 }, (_, i) => view.getBigInt64(i * 8, true));
  }

  /** The messages one by one. */
  *[Symbol.iterator](): Iterator<Row> {
    const frame = this.#frame;
    const value = entriesOf(this.values);
    const key = entriesOf(this.keys);
    const id = entriesOf(this.messageIds);
    const times = this.eventTimes;
    const headers = headersOf(frame);
    const deltas = words(frame.sequenceDeltas);
    let sequence = frame.firstSequence;
    for (let i = 0; i < frame.count; i++) {
      if (i > 0) sequence += BigInt(deltas[i - 1] ?? 1);
      const time = times?.[i];
      yield {
        value: value(i),
        key: key(i),
        eventTime: time === NULL_TIME ? undefined : time,
        messageId: id(i)?.toString(),
        headers: headers(i),
        sequence,
      };
    }
  }
}

/** Returns a function that returns the entries of a column, which must be asked for in order. */
function entriesOf(column: Packed | undefined): (index: number) => Buffer | null {
  if (column === undefined) return () => null;
  const { lengths } = column;
  const data = Buffer.from(column.data.buffer, column.data.byteOffset, column.data.byteLength);
  let at = 0;
  return (index) => {
    const length = lengths[index];
    return length === NULL_LENGTH ? null : data.subarray(at, (at += length));
  };
}

function headersOf(frame: Frame): (index: number) => Row["headers"] {
  if (frame.headerCounts.length === 0) return () => NO_HEADERS;
  const counts = words(frame.headerCounts);
  const name = entriesOf(packed(frame.headerNames, frame.headerNameLengths));
  const value = entriesOf(packed(frame.headerValues, frame.headerValueLengths));
  let at = 0;
  return (index) =>
    Array.from({ length: counts[index] }, () => {
      const header = [name(at)?.toString() ?? "", value(at)] as const;
      at += 1;
      return header;
    });
}

function packed(data: Uint8Array, lengths: Uint8Array): Packed | undefined {
  return lengths.length === 0 ? undefined : { data, lengths: words(lengths) };
}

/** Packs messages, which have sequences, into a frame. */
function frameOf(messages: readonly (Message & { sequence: bigint })[]): Frame {
  const columns = new Columns({ rows: messages.length, keyBytes: 64, valueBytes: 64 }, true);
  for (const message of messages) columns.add(message, message.sequence);
  const { message } = fromBinary(IngestRequestSchema, encodeCut(columns, 1, cutAll(columns, 1)));
  return message.value as Frame;
}
