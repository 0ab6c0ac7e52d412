import { setTimeout as sleep } from "node:timers/promises";

import type {
  SinkServiceAttachRequestSchema,
  SinkServiceAttachResponse,
  SinkWelcome,
} from "../gen/headrace/protocol/v1/sink_pb.js";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Health } from "../health.js";
import type { Settings } from "../options.js";
import type { Ending } from "../wire/ending.js";
import { Reporter } from "../wire/reporter.js";
import { settledWithin } from "../wire/settled.js";
import { Answers, type Answer, type Handler } from "./answers.js";
import { AtLeastOnceHandler } from "./at_least_once.js";
import type { SinkDriver } from "./driver.js";
import { IdempotentHandler } from "./idempotent.js";
import { TwoPhaseHandler } from "./two_phase.js";

/** The share of the gateway's deadline after which a session that drains ends. */
const DRAIN_SHARE = 0.9;
/** The share of the gateway's read timeout after which it learns that the sink is busy. */
const BUSY_SHARE = 0.25;
const GOODBYE_MS = 1000;

/** Writes to the call. */
export type Write = (message: MessageInitShape<typeof SinkServiceAttachRequestSchema>) => Promise<void>;

/** The sink's side of one call, from Welcome to its end. */
export class SinkSession {
  readonly #handler: Handler;
  readonly #reporter: Reporter;
  readonly #busyMs: number;
  #leaving: Ending | undefined;
  #isTaking = false;
  /** Answers are written one after the other. */
  #writing: Promise<void> = Promise.resolve();
  #finishing: Promise<void> | undefined;
  #finish!: (why: Ending) => void;
  #fail!: (error: unknown) => void;
  readonly #end: Promise<Ending>;

  constructor(
    private readonly driver: SinkDriver,
    private readonly settings: Settings,
    welcome: SinkWelcome,
    health: Health,
    private readonly write: Write,
    private readonly stop: AbortSignal,
  ) {
    this.#end = new Promise((resolve, reject) => {
      this.#finish = resolve;
      this.#fail = reject;
    });
    this.#busyMs = welcome.readTimeoutMs * BUSY_SHARE;
    const say = (answer: Answer): Promise<void> => this.#say(answer);
    const answers = new Answers(driver.name, settings, health, say);
    this.#handler = handlerOf(driver, answers, settings, (error) => {
      this.#fail(error);
    });
    this.#reporter = new Reporter(health, (report) => {
      void say({ case: "report", value: report });
    });
  }

  /**
   * Serves the session until it ends; no method of the sink runs for it afterwards.
   *
   * @param responses - The gateway's messages.
   * @throws {@link HeadraceError} when the call ends.
   */
  async run(responses: AsyncIterable<SinkServiceAttachResponse>): Promise<Ending> {
    const receiving = this.#receive(responses);
    const stopped = (): void => {
      this.#leave("the connector stops", this.settings.drainMs);
    };
    if (this.stop.aborted) stopped();
    else this.stop.addEventListener("abort", stopped);
    const busy =
      this.#busyMs > 0
        ? setInterval(() => {
            if (this.#isTaking) void this.#say({ case: "busy", value: {} });
          }, this.#busyMs)
        : undefined;
    this.#reporter.start();
    try {
      const why = await this.#end;
      await this.#say({ case: "goodbye", value: { reason: why } });
      // The gateway ends the call; cancelling it could overtake what was just written.
      await Promise.race([receiving, sleep(GOODBYE_MS, undefined, { ref: false })]);
      return why;
    } finally {
      clearInterval(busy);
      this.#reporter.stop();
      this.stop.removeEventListener("abort", stopped);
      await this.#close();
    }
  }

  /** Receives messages until the call ends. Those that arrive while the session is ending are ignored. */
  async #receive(responses: AsyncIterable<SinkServiceAttachResponse>): Promise<void> {
    try {
      for await (const { message } of responses) {
        if (message.case === "drain") {
          this.settings.logger.info("the gateway asks to reconnect", { reason: message.value.reason });
          this.#leave("the gateway asked to reconnect", message.value.deadlineMs * DRAIN_SHARE);
        } else if (this.#leaving === undefined) {
          this.#isTaking = true;
          await this.#handler.take(message);
          this.#isTaking = false;
        }
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Sends an answer after those before it. If the call has broken, the answer is not needed. */
  #say(answer: Answer): Promise<void> {
    this.#writing = this.#writing.then(() => this.write({ message: answer })).catch(this.#fail);
    return this.#writing;
  }

  /** Takes no more messages; ends the session once what has arrived is answered, or after a while. */
  #leave(why: Ending, ms: number): void {
    if (this.#leaving !== undefined) return;
    this.#leaving = why;
    const isFinished = (): boolean => true;
    this.#finishing = settledWithin(this.#handler.finish().catch(this.#fail), ms, isFinished).then(() => {
      this.#finish(why);
    });
  }

  /** Waits until no method of the sink runs; only for a limited time if the connector stops. */
  async #close(): Promise<void> {
    this.#leaving ??= "the connector stops";
    const stuckMs = Math.min(this.settings.stuckMs, this.settings.drainMs);
    const closed = this.driver.calls.note(Promise.all([this.#handler.close(), this.#finishing]));
    await settledWithin(closed, stuckMs, () => {
      this.settings.logger.warn("the sink is still busy with what is no longer needed", { sink: this.driver.name });
      return this.stop.aborted;
    });
  }
}

function handlerOf(driver: SinkDriver, answers: Answers, settings: Settings, fail: (error: unknown) => void): Handler {
  const { sink } = driver;
  switch (sink.mode) {
    case "two-phase":
      return new TwoPhaseHandler(sink, driver.calls, answers, settings, fail);
    case "batch-idempotent":
      return new IdempotentHandler(sink, driver, answers, settings, fail);
    case "at-least-once":
      return new AtLeastOnceHandler(sink, driver.calls, answers, settings, fail);
  }
}
