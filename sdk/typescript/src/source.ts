import type { InvalidMessageError } from "./errors.js";
import type { Backlog, DeliveredItem, Item, Message, Position } from "./message.js";

/** What `read` receives besides the partition. */
export interface ReadContext {
  /**
   * Where to resume: after this sequence. Undefined means from the first message that exists. A source may go back to
   * `position.cursor` and yield some messages again. A redelivering source yields what is not acknowledged, whatever the
   * position: it is the last one in a checkpoint, of an earlier epoch, and undefined if no checkpoint has one. Its cursor can
   * tell whether the system behind the source is still the same.
   */
  readonly position: Position | undefined;
  /**
   * Is aborted when the SDK needs no more messages of this `read`. Pass it to whatever you wait for. Later errors are ignored.
   */
  readonly signal: AbortSignal;
}

/** What both kinds of sources have in common. */
export interface SourceBase<Yielded> {
  /** The source part of stream names: partition `0` of `orders` is the stream `orders/0`. Letters, digits and `._-`. */
  readonly name: string;
  /** The connector's name, shown with its sessions. Default: `name`. */
  readonly connector?: string;
  /** The connector's version, shown with its sessions. Default: `0`. */
  readonly version?: string;
  /**
   * Set it if the streams end, or are closed for now with {@link CLOSE}, so that more partitions than the gateway allows
   * streams can take turns.
   */
  readonly takesTurns?: boolean;
  /** How long the SDK waits after {@link IDLE} before it asks for the next item, in milliseconds. Default: 10. */
  readonly idleMs?: number;

  /**
   * Lists the partitions that exist now. Default: one, named `0`.
   *
   * Called at the start of a session and every few seconds after, so partitions may appear while the connector runs. A
   * partition that is no longer listed continues until its `read` ends. The connector ends when every partition has ended
   * and is acknowledged, and no new one is listed.
   */
  partitions?(): readonly string[] | Promise<readonly string[]>;

  /**
   * Yields what comes after `context.position`, in order. Write it as a generator, or as an async generator, that opens
   * what it needs and closes it in `finally`.
   *
   * Called when a query waits for the partition, and again after each reconnect; the iterator before is closed first.
   * Returning means that the partition has ended for ever. A source that does not end yields {@link IDLE} whenever it has
   * caught up: without it, a bounded query does not know that it has everything.
   *
   * @throws {@link PositionLostError} if the source no longer has what comes after the position. Any other error ends the
   *   connector with {@link SourceFailedError}.
   */
  read(partition: string, context: ReadContext): AsyncIterable<Yielded> | Iterable<Yielded>;

  /**
   * Everything at or before `position` is in the checkpoint of every query that reads the stream. Only now may the source
   * forget those messages.
   *
   * Called at most once for a position, and never with an older one in the same session. Positions may be skipped. Also
   * called before `read`, with what was acknowledged earlier. It may run while `read` waits. A source that cannot act on it
   * must throw, which ends the connector.
   */
  acknowledged?(partition: string, position: Position): void | Promise<void>;

  /**
   * Decides about a message that the gateway cannot take. Default: throws `error`, which ends the connector.
   *
   * Called for a message that makes a frame above the gateway's limit ({@link MessageTooLargeError}), whose event time does
   * not fit into 64 bits, and the like. Messages before it are on their way; those after it wait. Return to leave it out,
   * after having kept or counted it. It may be called again for the same message after a restart. A sequence that does not
   * increase always ends the connector.
   */
  unsendable?(partition: string, message: Message, error: InvalidMessageError): void | Promise<void>;

  /**
   * Returns what is left after what `read` has yielded, for monitoring lag. Called about once a second, so make it cheap.
   * Undefined means that it is unknown; {@link IDLE} is then reported as nothing left.
   */
  backlog?(partition: string): Backlog | undefined | Promise<Backlog | undefined>;

  /**
   * Releases what the source holds, such as connections. Called once, at the end of the connector, after every other method has
   * returned: also after an error, and even if the gateway was never reached. Its errors are logged. If a method does not
   * return within `closeMs`, `close` is not called; if `close` does not, the connector ends without it.
   */
  close?(): void | Promise<void>;
}

/**
 * A source whose positions always yield the same messages: a file, a log.
 *
 * A growing key of a table is no position where several writers commit out of order: row 42 may be visible before row 41, and
 * a source that has passed 42 never reads 41. Stop at a missing key until all transactions that were open when the gap was
 * met have ended, or read only rows that are older than the longest transaction.
 */
export interface ReplayableSource extends SourceBase<Item> {
  /** The same position always yields the same messages. The default. */
  readonly kind?: "replayable";
  /**
   * Returns where partitions begin for a query that is new to the source. Absent: with their first message.
   *
   * The positions are written into the query's checkpoint before any message, so nothing that arrives afterwards is missed.
   * Called once, for all partitions together, and again only for a query that is new later. A partition that appears while
   * the connector runs begins with its first message, and so does one that the answer omits.
   */
  starts?(partitions: readonly string[]): Starts | Promise<Starts>;
}

/** Where partitions begin, by name: each with the first message after the position. */
export type Starts = Readonly<Record<string, Pick<Position, "sequence" | "cursor">>>;

/** A source that delivers unacknowledged messages again, in no guaranteed order: a classic queue. */
export interface RedeliveringSource<Token = unknown> extends SourceBase<DeliveredItem<Token>> {
  /** Messages that were not acknowledged are delivered again. */
  readonly kind: "redelivering";
  /**
   * Acknowledges messages at the system behind the source, by their tokens.
   *
   * Called with the tokens of every message that is newly in the checkpoints, in the order in which they were yielded, each
   * exactly once. For a system that acknowledges cumulatively, the last token is enough. Tokens of a lost session are never
   * passed: its messages come again. Nor is the token of a message that `unsendable` left out.
   */
  settle(partition: string, tokens: readonly Token[]): void | Promise<void>;
}

/** A source in which everything follows a cursor, but not the same messages again: a change feed. */
export interface ResumableSource extends SourceBase<Item> {
  /**
   * Everything follows a cursor, but not the same messages, nor the same boundaries. Messages and batches have no sequences: they
   * are counted. The bytes of cursors must have the order of their places.
   */
  readonly kind: "resumable";
}

/** A source: an object, or an instance of a class, with at least `name` and `read`. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- a source of any token is a source
export type Source = ReplayableSource | RedeliveringSource<any> | ResumableSource;
