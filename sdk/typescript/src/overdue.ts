import type { Health } from "./health.js";
import type { Logger } from "./logger.js";

/** How often calls are looked at within the time after which a method is named. */
const LOOKS_IN_TIME = 4;

/** The mark of a call that was not looked at. */
const UNSEEN = Symbol();

/** Facts about a call besides its method. */
export interface CallDetails {
  /** The stream that it concerns, if it concerns one. */
  readonly stream?: string;
  /** Whether it waits for the SDK now, such as for more rows. */
  readonly waits?: () => boolean;
  /** Differs whenever the method has done something, such as take rows. */
  readonly progress?: () => unknown;
}

/** A call that has not returned. */
interface Running extends CallDetails {
  readonly method: string;
  since: number;
  due: number;
  mark: unknown;
}

/** A method, and the stream that it is called for, if it is called for one. */
export interface Called {
  readonly method: string;
  readonly stream?: string;
}

/**
 * Names methods of a connector that have not returned for long, while it runs: a method that waits, and one that has blocked the
 * event loop once it is back.
 */
export class Overdue {
  /** The method of the last step, and the methods of all steps since the last look. */
  #stepped: Called | undefined;
  readonly #steps = new Set<Called>();
  /** Whether a method was named, since the last look, that has blocked the event loop. */
  #isTold = false;
  readonly #running = new Set<Running>();
  readonly #type: string;
  readonly #name: string;
  #lookedAt: number | undefined;

  /**
   * Begins without calls.
   *
   * @param connector - Whose methods are called.
   * @param stuckMs - After how long a method is named, and again after twice the time, and so on.
   * @param logger - Where it is named.
   * @param health - Where it is reported to the gateway.
   */
  constructor(
    connector: { readonly name: string },
    private readonly stuckMs: number,
    private readonly logger: Logger,
    private readonly health: Health,
  ) {
    const type = connector.constructor.name;
    this.#type = type === "Object" ? "" : `${type}.`;
    this.#name = `${"mode" in connector ? "sink" : "source"} ${connector.name}`;
  }

  /** The name of a method, as it is logged. */
  nameOf(method: string): string {
    return `${this.#type}${method}()`;
  }

  /** Notes a call until it has returned, and returns what it returns. */
  async during<T>(method: string, details: CallDetails, call: () => T | Promise<T>): Promise<T> {
    const running = { ...details, method: this.nameOf(method), since: 0, due: this.stuckMs, mark: UNSEEN };
    this.#running.add(running);
    try {
      return await this.#call(running, call);
    } finally {
      this.#running.delete(running);
    }
  }

  /** Goes a step in a method that does not wait. There may be millions of them in a second, so only a look reads the clock. */
  step<T>(called: Called, step: () => T): T {
    if (called !== this.#stepped) {
      this.#stepped = called;
      this.#steps.add(called);
    }
    return step();
  }

  /** Looks at the calls until the function that it returns is called. */
  watch(): () => void {
    const everyMs = Math.max(this.stuckMs / LOOKS_IN_TIME, 1);
    const timer = setInterval(() => {
      this.look(performance.now());
    }, everyMs);
    timer.unref();
    return () => {
      clearInterval(timer);
    };
  }

  /** Names what is overdue at a time, in milliseconds. */
  look(now: number): void {
    const blockedMs = now - (this.#lookedAt ?? now);
    this.#lookedAt = now;
    if (blockedMs >= this.stuckMs && !this.#isTold) {
      for (const called of this.#steps) {
        this.#tell(called, `${called.method} was called while the event loop was blocked for ${seconds(blockedMs)} s`);
      }
    }
    this.#isTold = false;
    this.#stepped = undefined;
    this.#steps.clear();
    for (const call of this.#running) {
      const mark = call.progress?.();
      if (mark !== call.mark || call.waits?.() === true) {
        Object.assign(call, { mark, since: now, due: this.stuckMs });
        continue;
      }
      const took = now - call.since;
      if (took < call.due) continue;
      call.due = 2 * took;
      this.#tell(call, `${call.method} has not returned for ${seconds(took)} s; it stands at an await`);
    }
  }

  /** Calls a method; names it once it is back if that has blocked the event loop. */
  #call<T>(called: Called, call: () => T): T {
    const began = performance.now();
    const result = call();
    const took = performance.now() - began;
    if (took >= this.stuckMs) {
      this.#isTold = true;
      this.#tell(called, `${called.method} has blocked the event loop for ${seconds(took)} s`);
    }
    return result;
  }

  #tell({ stream }: Called, sentence: string): void {
    if (stream === undefined) this.logger.warn(`${this.#name}: ${sentence}`);
    else this.logger.warn(`stream ${stream}: ${sentence}`, { stream });
    this.health.survived(sentence, stream);
  }
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}
