import { describe } from "./errors.js";
import type { Logger } from "./logger.js";
import { settledWithin } from "./wire/settled.js";

/** Whatever has a `close`, or none. */
interface Closeable {
  close?(): void | Promise<void>;
}

/** The calls of a connector's methods that have not returned, and the call of its `close`, which must be the last one. */
export class Calls {
  readonly #running = new Set<Promise<void>>();

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
