import { setImmediate as nextTurn } from "node:timers/promises";

import type { Calls } from "../calls.js";
import { HeadraceError, InvalidMessageError, PositionLostError, SourceFailedError, describe } from "../errors.js";
import type { Logger } from "../logger.js";
import {
  CLOSE,
  GONE,
  IDLE,
  type Backlog,
  type Batch,
  type DeliveredBatch,
  type DeliveredItem,
  type DeliveredMessage,
  type Message,
  type Position,
} from "../message.js";
import type { Source } from "../source.js";
import { settledWithin } from "../wire/settled.js";
import { Wakeup } from "../wire/wakeup.js";
import { messagesOf, type Gather } from "./gather.js";

const BACKLOG_MS = 1000;
const DEFAULT_IDLE_MS = 10;
/** How long a source that never waits may keep the event loop, in milliseconds. */
const TURN_MS = 5;
/** After how many items the clock is looked at. */
const ITEMS_PER_LOOK = 64;

/** How a `read` ended. */
export type ReadEnd = "ended" | "closed" | "gone";

/** The partition of a reader, and the listener that it calls. */
export interface ReaderTask {
  readonly source: Source;
  readonly partition: string;
  /** The stream's name, for errors. */
  readonly stream: string;
  readonly position: Position | undefined;
  readonly acknowledged: Position | undefined;
  readonly gather: Gather;
  readonly logger: Logger;
  readonly calls: Calls;
  /** Something was added. */
  changed(): void;
  /** The messages that were added last have these tokens. */
  tokens(tokens: readonly unknown[]): void;
  /** The backlog, if the source knows it, and whether the source has caught up. */
  backlog(left: Backlog | undefined, caughtUp: boolean): void;
  /** The source left out a message that cannot be sent. */
  leftOut(): void;
  /** The source has ended. */
  ended(how: ReadEnd): void;
  /** The source threw; the reader is over. */
  failed(error: HeadraceError): void;
}

/** Reads one partition, and tells its source what was acknowledged. */
export class Reader {
  readonly #abort = new AbortController();
  /** Set when the reader may have to look again: there is room, it is paused or stopped, something was acknowledged. */
  readonly #attention = new Wakeup();
  readonly #source: Source;
  readonly #gather: Gather;
  #paused = false;
  #iterator: Items | undefined;
  #closing: Promise<void> | undefined;
  #position: Position | undefined;
  #tokens: unknown[] = [];
  #delivering: Promise<void> | undefined;
  #backlogAt = 0;
  readonly #done: Promise<void>;

  /** Begins to read. */
  constructor(private readonly task: ReaderTask) {
    this.#source = task.source;
    this.#gather = task.gather;
    if (task.acknowledged !== undefined) this.acknowledge(task.acknowledged, []);
    this.#done = task.calls.note(this.#run());
  }

  /** Asks for no more items, and continues to deliver acknowledgements. */
  pause(): void {
    this.#paused = true;
    this.#attention.set();
  }

  /** Continues if there is room. */
  wake(): void {
    this.#attention.set();
  }

  /** Has the source told of an acknowledgement, soon. */
  acknowledge(position: Position, tokens: readonly unknown[]): void {
    this.#position = position;
    for (const token of tokens) this.#tokens.push(token);
    this.#attention.set();
    this.#delivering ??= this.task.calls.note(this.#deliver());
  }

  /**
   * Delivers the last acknowledgements, closes the iterator, and waits for both.
   *
   * @param stuckMs - After how long a source that does not return is reported.
   * @param mayAbandon - Whether it is abandoned then.
   */
  async stop(stuckMs: number, mayAbandon: () => boolean): Promise<void> {
    this.#paused = true;
    const stuck = (): boolean => {
      const fields = { stream: this.task.stream, seconds: stuckMs / 1000 };
      this.task.logger.warn("the source does not return; it must when its signal is aborted", fields);
      return mayAbandon();
    };
    if (this.#delivering !== undefined) await settledWithin(this.#delivering, stuckMs, stuck);
    this.#abort.abort();
    this.#attention.set();
    // A generator returns once it has finished what it waits for, other iterators at once.
    void this.#close();
    await settledWithin(this.#done, stuckMs, stuck);
  }

  async #run(): Promise<void> {
    try {
      await this.#delivering;
      const end = await this.#read();
      if (end !== undefined) this.task.ended(end);
    } catch (error) {
      this.#fail(error, "read");
    }
  }

  async #read(): Promise<ReadEnd | undefined> {
    const { signal } = this.#abort;
    if (!(await this.#mayRead())) return undefined;
    const { calls, stream, partition, position } = this.task;
    const step = calls.steps("read", stream);
    const items = step(() => this.#source.read(partition, { position, signal }));
    if (Symbol.asyncIterator in items) {
      const iterator = items[Symbol.asyncIterator]() as AsyncIterator<DeliveredItem<unknown>, void>;
      const next = (): Promise<Next> => iterator.next();
      return this.#readAll(iterator, () => step(next));
    }
    const iterator = items[Symbol.iterator]() as Iterator<DeliveredItem<unknown>, void>;
    const next = (): Next => iterator.next();
    return this.#readAll(iterator, () => step(next));
  }

  /** Reads until the source returns, or the reader is stopped. */
  async #readAll(iterator: Items, next: () => Next | Promise<Next>): Promise<ReadEnd | undefined> {
    this.#iterator = iterator;
    const { signal } = this.#abort;
    let look = ITEMS_PER_LOOK;
    let turnEnds = performance.now() + TURN_MS;
    try {
      for (;;) {
        const step = next();
        const { value, done }: Next = step instanceof Promise ? await step : step;
        if (done === true) this.#iterator = undefined;
        if (signal.aborted) return undefined;
        if (done === true) return "ended";
        if (value === CLOSE) return "closed";
        if (value === GONE) return "gone";
        if (value === IDLE) {
          await this.#idle();
          look = 1;
        } else {
          const deciding = this.#add(value);
          if (deciding !== undefined) await deciding;
        }
        if (this.#gather.isFull || this.#paused) {
          if (!(await this.#mayRead())) return undefined;
          turnEnds = performance.now() + TURN_MS;
        } else if (--look === 0) {
          look = ITEMS_PER_LOOK;
          const now = performance.now();
          if (now >= this.#backlogAt) await this.#reportBacklog(false);
          if (now >= turnEnds) {
            // A source that never waits must not starve the session.
            await nextTurn();
            turnEnds = performance.now() + TURN_MS;
          }
        }
      }
    } finally {
      await this.#close();
    }
  }

  /** Closes the iterator. Errors after the end of reading are of no interest. */
  #close(): Promise<void> {
    return (this.#closing ??= this.#returnFrom(this.#iterator));
  }

  async #returnFrom(iterator: Items | undefined): Promise<void> {
    try {
      await iterator?.return?.();
    } catch (error) {
      this.task.logger.debug("the source threw while it was closed", {
        stream: this.task.stream,
        error: describe(error),
      });
    }
  }

  /** Adds an item; returns a promise only if the source must decide about a message. */
  #add(item: Message | Batch): Promise<void> | undefined {
    if (typeof item !== "object" || item === null) {
      throw new InvalidMessageError(
        `read() yielded ${String(item)}: a message, a batch, IDLE, CLOSE or GONE is needed`,
      );
    }
    if ("values" in item) {
      if (!this.#gather.addBatch(item)) return this.#addOneByOne(item);
      const { tokens } = item as DeliveredBatch<unknown>;
      if (tokens) this.task.tokens(tokens);
    } else {
      const problem = this.#gather.add(item);
      if (problem !== undefined) return this.#leaveOut(item, problem);
      const { token } = item as DeliveredMessage<unknown>;
      if (token !== undefined) this.task.tokens([token]);
    }
    this.task.changed();
    return undefined;
  }

  /** Adds a batch of which a message cannot be sent. */
  async #addOneByOne(batch: DeliveredBatch<unknown> | Batch): Promise<void> {
    const tokens = "tokens" in batch ? batch.tokens : undefined;
    for (const [place, message] of messagesOf(batch)) {
      const problem = this.#gather.add(message);
      if (problem !== undefined) await this.#leaveOut(message, problem);
      else if (tokens) this.task.tokens([tokens[place]]);
    }
    this.task.changed();
  }

  /** Has the source decide about a message that cannot be sent. */
  async #leaveOut(message: Message, problem: InvalidMessageError): Promise<void> {
    this.task.changed();
    if (!this.#source.unsendable) throw problem;
    await this.#call("unsendable", () => this.#source.unsendable?.(this.task.partition, message, problem));
    this.task.leftOut();
  }

  /** Waits while the reader must not read; returns false if it is stopped. */
  async #mayRead(): Promise<boolean> {
    while ((this.#paused || this.#gather.isFull) && !this.#abort.signal.aborted) {
      await this.#attention.wait(BACKLOG_MS);
      if (!this.#paused && performance.now() >= this.#backlogAt) await this.#reportBacklog(false);
    }
    return !this.#abort.signal.aborted;
  }

  /** The source has nothing now: waits a little, or until something is acknowledged. */
  async #idle(): Promise<void> {
    await this.#reportBacklog(true);
    await this.#attention.wait(this.#source.idleMs ?? DEFAULT_IDLE_MS);
  }

  async #reportBacklog(caughtUp: boolean): Promise<void> {
    this.#backlogAt = performance.now() + BACKLOG_MS;
    const left = await this.#call("backlog", () => this.#source.backlog?.(this.task.partition));
    for (const [field, value] of Object.entries(left ?? {}) as [string, bigint | number | undefined][]) {
      if (value !== undefined && typeof value !== "bigint" && !Number.isSafeInteger(value)) {
        throw new TypeError(`backlog() returned ${field} ${value}: a bigint or a safe integer is needed`);
      }
    }
    this.task.backlog(left, caughtUp);
  }

  async #deliver(): Promise<void> {
    try {
      while (this.#position !== undefined) {
        const [position, tokens] = [this.#position, this.#tokens];
        this.#position = undefined;
        this.#tokens = [];
        const { partition } = this.task;
        const source = this.#source;
        if (source.kind === "redelivering" && tokens.length > 0) {
          await this.#call("settle", () => source.settle(partition, tokens));
        }
        await this.#call("acknowledged", () => source.acknowledged?.(partition, position));
      }
    } catch (error) {
      this.#position = undefined;
      this.#fail(error, "acknowledged or settle");
    } finally {
      this.#delivering = undefined;
    }
  }

  /** Calls a method of the source. */
  #call<T>(method: string, call: () => T | Promise<T>): Promise<T> {
    return this.task.calls.during(method, { stream: this.task.stream }, call);
  }

  #fail(error: unknown, method: string): void {
    const { stream, logger } = this.task;
    if (this.#abort.signal.aborted) {
      logger.debug("the source threw after its signal was aborted", { stream, error: describe(error) });
    } else if (error instanceof PositionLostError && method === "read") {
      this.task.failed(error);
    } else if (error instanceof InvalidMessageError) {
      const text = `stream ${stream}: ${error.message}`;
      this.task.failed(new (error.constructor as typeof InvalidMessageError)(text, { cause: error.cause }));
    } else {
      const text = `stream ${stream}: ${method}() of the source threw ${describe(error)}`;
      this.task.failed(new SourceFailedError(text, { cause: error }));
    }
  }
}

type Items = AsyncIterator<DeliveredItem<unknown>, void> | Iterator<DeliveredItem<unknown>, void>;
type Next = IteratorResult<DeliveredItem<unknown>, void>;
