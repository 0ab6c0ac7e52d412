import type { Settings } from "../options.js";
import { Rows } from "../rows.js";
import type { Part, Transaction } from "../transaction.js";
import { BoundedQueue, DroppedError } from "../wire/bounded_queue.js";
import type { Answers, Asked, Handler } from "./answers.js";
import { partOf, transactionOf } from "./conversions.js";

/** The size in a queue of a message without rows. */
const SMALL_MESSAGE = 256;

/** A handler that processes messages strictly one after the other. */
export abstract class InOrderHandler implements Handler {
  readonly #queue: BoundedQueue<Asked>;
  readonly #working: Promise<void>;

  /** @param fail - Called with an unexpected error, which ends the session. */
  constructor(
    protected readonly answers: Answers,
    settings: Settings,
    fail: (error: unknown) => void,
  ) {
    this.#queue = new BoundedQueue(settings.queueBytes);
    this.#working = this.#work().catch((error: unknown) => {
      if (!(error instanceof DroppedError)) fail(error);
    });
  }

  async take(message: Asked): Promise<void> {
    await this.#queue.put(message, sizeOf(message));
  }

  async finish(): Promise<void> {
    this.#queue.end();
    await this.#working;
  }

  async close(): Promise<void> {
    this.#queue.drop();
    await this.#working;
  }

  /** Begins a part. */
  protected abstract start(id: bigint, part: Part): void;
  /** Handles rows of a part. */
  protected abstract rows(id: bigint, rows: Rows): Promise<void>;
  /** Ends a part with its number of messages. */
  protected abstract end(id: bigint, messages: bigint): Promise<void>;
  /** Drops a part. */
  protected abstract drop(id: bigint): void;
  /** Answers with the vote for the parts of a transaction. */
  protected abstract prepare(transaction: Transaction, parts: readonly Part[]): Promise<void>;
  /** Aborts a transaction. */
  protected abstract abort(transaction: Transaction): void;

  async #work(): Promise<void> {
    for await (const message of this.#queue) await this.#handle(message);
  }

  async #handle(message: Asked): Promise<void> {
    switch (message.case) {
      case "startPart":
        this.start(message.value.id, partOf(message.value.part));
        break;
      case "frame": {
        const { id, frame } = message.value;
        if (frame === undefined) break;
        this.answers.received(frame.count, sizeOf(message));
        await this.rows(id, new Rows(frame));
        break;
      }
      case "endPart":
        await this.end(message.value.id, message.value.messages);
        break;
      case "dropPart":
        this.drop(message.value.id);
        break;
      case "prepare":
        await this.prepare(transactionOf(message.value.transaction), message.value.parts.map(partOf));
        break;
      case "commit":
        // Everything was written at the vote.
        await this.answers.committed(transactionOf(message.value.transaction));
        break;
      case "abort":
        this.abort(transactionOf(message.value.transaction));
        this.answers.aborted();
        break;
      default:
        break;
    }
  }
}

/** The size of a message in memory, roughly. */
export function sizeOf(message: Asked): number {
  if (message.case !== "frame" || message.value.frame === undefined) return SMALL_MESSAGE;
  const { keys, values, messageIds, headerNames, headerValues, count } = message.value.frame;
  const columns = keys.length + values.length + messageIds.length + headerNames.length + headerValues.length;
  return columns + count * 24 + SMALL_MESSAGE;
}
