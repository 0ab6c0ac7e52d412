import type { Rows } from "./rows.js";
import type { Part, Transaction } from "./transaction.js";

/** The outcome of a message that is written, or staged. */
export const WRITTEN: unique symbol = Symbol("headrace.WRITTEN");

/** The outcome of a message that the sink will never accept. It becomes a dead letter; nothing of it may be written. */
export interface Refused {
  /** The reason, in plain text. */
  readonly refused: string;
}

/** One outcome for each message, in order. Undefined: all of them are written. */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- a method without `return` returns void
export type Outcomes = readonly (typeof WRITTEN | Refused)[] | undefined | void;

/** What every sink declares. */
export interface SinkBase {
  /** Its name in Spark: `df.writeStream.format("headrace").option("sink", name)`. Letters, digits and `._-`. */
  readonly name: string;
  /** The connector's name, shown with its sessions. Default: `name`. */
  readonly connector?: string;
  /** The connector's version, shown with its sessions. Default: `0`. */
  readonly version?: string;
  /**
   * Releases what the sink holds, such as connections. Called once, at the end of the connector, after every other method has
   * returned: also after an error, and even if the gateway was never reached. Its errors are logged. If a method does not
   * return within `closeMs`, `close` is not called; if `close` does not, the connector ends without it.
   */
  close?(): void | Promise<void>;
}

/**
 * A sink that writes at least once: what Spark delivers again after a failure is written again.
 *
 * Methods are called one after the other. What they throw is reported as a failure of the part, of which nothing then counts
 * as written: Spark runs its task again.
 */
export interface AtLeastOnceSink extends SinkBase {
  /** The guarantee of the sink. */
  readonly mode: "at-least-once";
  /**
   * Writes rows. Rows of different parts may alternate; rows of one part come in order.
   *
   * @param rows - The rows; `rows.part` is their part.
   * @returns An outcome for each message, or undefined if all are written. Any other number of outcomes is an error, and
   *   nothing counts as written.
   */
  write(rows: Rows): Outcomes | Promise<Outcomes>;
  /** Makes what was written durable. Called at the end of each part. */
  flush?(): void | Promise<void>;
}

/**
 * A sink that writes each transaction atomically together with its id, and the same transaction only once.
 *
 * The SDK keeps the parts of a transaction, in memory and in a temporary file, until Spark has named the ones that count.
 * Methods are called one after the other. Their errors are reported as failures.
 */
export interface IdempotentSink extends SinkBase {
  /** The guarantee of the sink. */
  readonly mode: "batch-idempotent";
  /**
   * Writes all rows of a transaction and its id, or nothing. If the id is already stored, it must write nothing.
   *
   * Called once Spark has named the parts that count, and again if it threw.
   *
   * @param transaction - The id.
   * @param rows - The rows by partition, in order.
   */
  write(transaction: Transaction, rows: AsyncIterable<Rows>): void | Promise<void>;
  /**
   * Checks rows as they arrive, and refuses rows that must not be written. In `write`, it is too late for that.
   *
   * @returns As {@link AtLeastOnceSink.write}.
   */
  check?(rows: Rows): Outcomes | Promise<Outcomes>;
  /** Returns the last batch of a pipeline that was written, for which `write` is not called; undefined if it is unknown. */
  last?(pipeline: string): bigint | undefined | Promise<bigint | undefined>;
  /** Returns the pipelines whose `last` batch is reported when the connector starts. */
  pipelines?(): Iterable<string> | Promise<Iterable<string>>;
}

/** The transactions that a two-phase sink has stored. */
export interface Recovered {
  /** Every staged part, including the parts of prepared transactions. */
  readonly staged: readonly Part[];
  /** Every transaction that is prepared and neither committed nor aborted. */
  readonly prepared: readonly Transaction[];
  /** The last committed transaction of each pipeline. A pipeline that is missing counts as lost. */
  readonly committed: readonly Transaction[];
}

/**
 * A sink that writes exactly once: it stages parts durably, votes, and makes them visible at a Commit.
 *
 * `stage` may run for several parts at the same time; all other methods are called one after the other. Their errors are reported
 * as failures; the call may then be repeated. A staged part is not visible, and survives a crash until it is committed, dropped
 * or aborted.
 */
export interface TwoPhaseSink extends SinkBase {
  /** The guarantee of the sink. */
  readonly mode: "two-phase";
  /**
   * Stores a part durably. Nothing of it may be visible yet.
   *
   * @param part - The part.
   * @param rows - Its rows, in order, as they arrive. Consume them to the end. The iterator throws if the part is dropped
   *   meanwhile; `drop` is then called, as it is if this method throws.
   * @returns As {@link AtLeastOnceSink.write}, for each message of the part.
   */
  stage(part: Part, rows: AsyncIterable<Rows>): Outcomes | Promise<Outcomes>;
  /** Deletes everything stored of a part. Does nothing if nothing is stored. */
  drop(part: Part): void | Promise<void>;
  /**
   * Promises to commit these staged parts when asked to, even after a crash, and drops all others of the transaction. It must
   * throw if one of them is missing: the batch then runs again.
   *
   * @param transaction - The transaction.
   * @param parts - The parts that count, by ascending partition.
   */
  prepare(transaction: Transaction, parts: readonly Part[]): void | Promise<void>;
  /** Makes a prepared transaction visible, durably. Does nothing if it is visible; throws if it is unknown. */
  commit(transaction: Transaction): void | Promise<void>;
  /** Drops everything of a transaction that is not committed. Does nothing if nothing is stored. */
  abort(transaction: Transaction): void | Promise<void>;
  /** Reports what is stored, after finishing a commit that a crash has interrupted. Called each time the connector connects. */
  recover(): Recovered | Promise<Recovered>;
}

/** A sink: an object, or an instance of a class, of one of the three modes. */
export type Sink = AtLeastOnceSink | IdempotentSink | TwoPhaseSink;
