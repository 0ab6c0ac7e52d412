import { describe } from "./errors.js";
import type { Logger } from "./logger.js";
import type { CallDetails, Overdue } from "./overdue.js";
import { settledWithin } from "./wire/settled.js";

/** Whatever has a `close`, or none. */
interface Closeable {
  close?(): void | Promise<void>;
}

/** The calls of a connector's methods that have not returned, and the call of its `close`, which must be the last one. */
export class Calls {
  readonly #running = new Set<Promise<void>>();
  #overdue: Overdue | undefined;

  /** Has methods named that do not return, until the function that it returns is called. */
  watch(overdue: Overdue): () => void {
    this.#overdue = overdue;
    return overdue.watch();
  }

  /** Calls a method, which is named if it does not return for long. */
  async during<T>(method: string, details: CallDetails, call: () => T | Promise<T>): Promise<T> {
    return this.#overdue === undefined ? call() : this.#overdue.during(method, details, call);
  }

  /** Returns what goes one step in a method that returns soon, without waiting; it is named if it blocks the event loop. */
  steps(method: string, stream: string): <T>(step: () => T) => T {
    const overdue = this.#overdue;
    if (overdue === undefined) return (step) => step();
    const called = { method: overdue.nameOf(method), stream };
    return (step) => overdue.step(called, step);
  }

  /** Notes a call until it has returned, and returns it. */
  note<T>(call: Promise<T>): Promise<T> {
    const returned = call.then(
      () => undefined,
      () => undefined,
    );
    this.#running.add(returned);
    void returned.then(() => this.#running.delete(returned));
    return call;
  }

  /**
   * Calls `close` once all calls that were noted have returned. What fails or takes too long is logged.
   *
   * @param connector - What to close.
   * @param name - What the log calls it.
   * @param ms - How long to wait for the calls and for `close`, together.
   * @param logger - The log.
   * @returns Whether everything has returned in time.
   */
  async close(connector: Closeable, name: string, ms: number, logger: Logger): Promise<boolean> {
    if (connector.close === undefined) return true;
    let isLate = false;
    let problem = "close() is not called, because another method has not returned";
    const end = async (): Promise<void> => {
      await Promise.all(this.#running);
      if (isLate) return;
      problem = "close() has not returned; the connector ends without it";
      await connector.close?.();
    };
    const ending = end().catch((error: unknown) => {
      logger.error("close() has failed", { connector: name, error: describe(error) });
    });
    await settledWithin(ending, ms, () => {
      isLate = true;
      logger.error(problem, { connector: name, seconds: ms / 1000 });
      return true;
    });
    return !isLate;
  }
}
