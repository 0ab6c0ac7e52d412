/** Bytes, or text that is sent as UTF-8. */
export type Bytes = Uint8Array | string;

/** The headers of a message: pairs of name and value, in order. A name may repeat. */
export type Headers = readonly (readonly [name: string, value: Bytes | null])[];

/**
 * A sequence in a stream: an integer from 0 to 2^63 - 1.
 *
 * The SDK always passes a `bigint`, because a sequence may exceed `Number.MAX_SAFE_INTEGER`. You may pass a
 * `number` as long as it is a safe integer, which is faster.
 */
export type Sequence = bigint | number;

/** A position in a stream: all messages up to and including it were received, and none after it. */
export interface Position {
  /** The generation of the stream's sequences; 0 for a replayable source. */
  readonly epoch: bigint;
  /** The sequence of the last message at or before this position. */
  readonly sequence: bigint;
  /**
   * The last cursor that the source supplied at or before this position. It may precede `sequence`: messages between the
   * two that the source yields again are dropped.
   */
  readonly cursor?: Uint8Array | undefined;
}

/** One message of a source. */
export interface Message {
  /** The payload; null for a tombstone. */
  readonly value: Bytes | null;
  /** The key. */
  readonly key?: Bytes | null | undefined;
  /** When it happened, in the years 1 to 9999: a `Date`, or microseconds since 1970-01-01 UTC as a `bigint`. */
  readonly eventTime?: Date | bigint | null | undefined;
  /** Its id in the source. */
  readonly messageId?: string | null | undefined;
  /** Its headers. */
  readonly headers?: Headers | null | undefined;
  /**
   * Its sequence in the source, greater than the sequence of the message before. If it is absent, the SDK counts up from the
   * position that {@link SourceBase.read} received. Redelivering sources omit it.
   */
  readonly sequence?: Sequence | undefined;
  /**
   * Where the source can seek to resume after this message; at most 64 KiB, or what the gateway allows.
   *
   * A query may resume after any message, and gets the cursor of the last frame that ended at or before it: none, if that is
   * in the middle of the first frame. If your source cannot seek by the sequence alone, set `endsFrame` on its first message.
   */
  readonly cursor?: Uint8Array | undefined;
  /** Whether the message is the last one of its frame, so that its own cursor is given to a query that resumes after it. */
  readonly endsFrame?: boolean | undefined;
}

/** A message of a redelivering source. */
export interface DeliveredMessage<Token> extends Message {
  /** The source needs it to acknowledge the message: a delivery tag, for instance. It is never sent. */
  readonly token?: Token | undefined;
  readonly sequence?: undefined;
}

/** The length that stands for null in {@link Packed}. */
export const NULL_LENGTH = 0xffff_ffff;

/** The event time that stands for null in columns, in microseconds since 1970-01-01 UTC: -2^63. */
export const NULL_TIME = -(2n ** 63n);

/** A packed column: the joined entries, and the length of each. */
export interface Packed {
  /** The joined entries. */
  readonly data: Uint8Array;
  /** The length of each entry in bytes; {@link NULL_LENGTH} for null, which adds nothing to `data`. */
  readonly lengths: Uint32Array;
}

/** Sequences with gaps. */
export interface Steps {
  /** The sequence of the first message. */
  readonly first: Sequence;
  /** The difference of each further sequence from the one before; one entry fewer than messages. Absent: all are 1. */
  readonly deltas?: Uint32Array | undefined;
}

/**
 * Consecutive messages of one partition in columns, for sources that have many messages at once.
 *
 * Every column has one entry for each message. A column that is absent is null throughout.
 */
export interface Batch {
  /** The payloads; null for a tombstone. */
  readonly values: readonly (Bytes | null)[] | Packed;
  /** The keys. */
  readonly keys?: readonly (Bytes | null)[] | Packed | undefined;
  /** When each message happened, in the years 1 to 9999; in a `BigInt64Array`, {@link NULL_TIME} stands for null. */
  readonly eventTimes?: readonly (Date | bigint | null)[] | BigInt64Array | undefined;
  /** The ids of the messages in the source. */
  readonly messageIds?: readonly (string | null)[] | undefined;
  /** The headers of each message. */
  readonly headers?: readonly (Headers | null)[] | undefined;
  /** The sequences, strictly increasing. If they are absent, the SDK counts. */
  readonly sequences?: readonly Sequence[] | Steps | undefined;
  /**
   * Where the source can seek to resume after the batch; as {@link Message.cursor}.
   *
   * A batch without messages, `{ values: [], cursor }`, moves the cursor alone: for instance past messages that the source leaves
   * out, or in quiet times. Queries record it with their next messages, or every ten seconds, and `acknowledged` gets it then.
   * The next message needs a sequence above 0. Only for replayable sources.
   */
  readonly cursor?: Uint8Array | undefined;
}

/** A batch of a redelivering source. */
export interface DeliveredBatch<Token> extends Batch {
  /** The source needs it to acknowledge each message. */
  readonly tokens?: readonly Token[] | undefined;
  readonly sequences?: undefined;
}

/** What remains in the source after the messages that `read` has yielded. Each figure is optional. */
export interface Backlog {
  /** The number of messages left. */
  readonly messages?: bigint | number | undefined;
  /** The size of the messages left, in bytes. */
  readonly bytes?: bigint | number | undefined;
  /** The largest sequence of any message that exists now. */
  readonly latestSequence?: Sequence | undefined;
}

/**
 * Yield it when there is nothing to read at the moment.
 *
 * The SDK then sends what it has gathered, reports that the source has caught up, and asks for the next item after
 * {@link SourceBase.idleMs}, or sooner if something was acknowledged.
 */
export const IDLE: unique symbol = Symbol("headrace.IDLE");

/** The last item of a `read` that releases its stream for now: for instance, an idle file makes room for another one. */
export const CLOSE: unique symbol = Symbol("headrace.CLOSE");

/**
 * The last item of a `read` whose partition was removed and will not be listed again.
 *
 * Once every query has committed all of it, the checkpoints and the gateway forget the partition. If `partitions` has
 * omitted the name in the meantime, a later partition of that name is a new one. The connector continues, and polls for
 * further partitions.
 */
export const GONE: unique symbol = Symbol("headrace.GONE");

/** What `read` yields. */
export type Item = Message | Batch | typeof IDLE | typeof CLOSE | typeof GONE;

/** What `read` of a redelivering source yields. */
export type DeliveredItem<Token> =
  DeliveredMessage<Token> | DeliveredBatch<Token> | typeof IDLE | typeof CLOSE | typeof GONE;
