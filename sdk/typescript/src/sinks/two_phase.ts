import type { Calls } from "../calls.js";
import { InvalidOutcomesError } from "../errors.js";
import type { Settings } from "../options.js";
import { Rows } from "../rows.js";
import type { TwoPhaseSink } from "../sink.js";
import type { Part, Transaction } from "../transaction.js";
import { checkFrame } from "../wire/check.js";
import { BoundedQueue, DroppedError } from "../wire/bounded_queue.js";
import type { Answers, Asked, Handler } from "./answers.js";
import { checkWhole, fieldsOf, keyOf, partKey, partOf, refusals, transactionOf } from "./conversions.js";
import { sizeOf } from "./in_order.js";
import { SpillFile, type Place } from "./spill_file.js";

const MAX_DECISIONS = 1000;

/** A part that is being staged, or is staged. */
interface Staging {
  readonly id: bigint;
  readonly part: Part;
  readonly incoming: BoundedQueue<Rows | Place>;
  /** Rows that do not fit into memory, so that other parts need not wait for them. */
  readonly file: SpillFile;
  /** The number of its messages; known once all have arrived. */
  messages: bigint;
  /** The number of messages that the sink has consumed. */
  taken: number;
  /** Whether the sink has consumed the rows to the end. */
  isExhausted: boolean;
  isStaged: boolean;
  over: Promise<void>;
}

/** A decision of the gateway, and the parts that began before it. */
interface Decision {
  readonly message: Asked;
  readonly transaction: Transaction;
  readonly before: readonly Staging[];
  readonly done: Promise<void>;
  readonly isDone: () => void;
}

/**
 * Stages parts as they arrive, several at the same time, and carries out decisions one after the other.
 *
 * A decision waits for the parts of its transaction that began before it, and parts that begin after it wait for it.
 */
export class TwoPhaseHandler implements Handler {
  readonly #stagings = new Map<bigint, Staging>();
  readonly #running = new Set<Promise<void>>();
  readonly #decisions = new BoundedQueue<Decision>(MAX_DECISIONS);
  readonly #lastDecision = new Map<string, Decision>();
  readonly #undecided = new Set<Decision>();
  readonly #deciding: Promise<void>;
  /** The methods of the sink other than `stage`, one after the other. */
  #queue: Promise<unknown> = Promise.resolve();
  #moved: (() => void) | undefined;

  constructor(
    private readonly sink: TwoPhaseSink,
    private readonly calls: Calls,
    private readonly answers: Answers,
    private readonly settings: Settings,
    private readonly fail: (error: unknown) => void,
  ) {
    this.#deciding = this.#decide().catch((error: unknown) => {
      if (!(error instanceof DroppedError)) fail(error);
    });
  }

  async take(message: Asked): Promise<void> {
    switch (message.case) {
      case "startPart":
        this.#start(message.value.id, partOf(message.value.part));
        break;
      case "frame": {
        const { id, frame } = message.value;
        const staging = this.#stagings.get(id);
        if (frame === undefined) break;
        this.answers.received(frame.count, sizeOf(message));
        if (staging) await this.#takeRows(staging, new Rows(frame), sizeOf(message));
        break;
      }
      case "endPart": {
        const staging = this.#stagings.get(message.value.id);
        if (!staging) break;
        staging.messages = message.value.messages;
        staging.incoming.end();
        break;
      }
      case "dropPart": {
        const staging = this.#stagings.get(message.value.id);
        if (staging) await this.#enqueue(message, staging.part.transaction, [staging]);
        break;
      }
      case "prepare":
      case "commit":
      case "abort": {
        const transaction = transactionOf(message.value.transaction);
        const key = keyOf(transaction);
        const before = [...this.#stagings.values()].filter(({ part }) => keyOf(part.transaction) === key);
        await this.#enqueue(message, transaction, before);
        break;
      }
      default:
        break;
    }
  }

  async finish(): Promise<void> {
    for (const { incoming } of this.#stagings.values()) if (!incoming.isEnded) incoming.drop();
    await Promise.all(this.#running);
    this.#decisions.end();
    await this.#deciding;
  }

  async close(): Promise<void> {
    for (const { incoming } of this.#stagings.values()) incoming.drop();
    this.#decisions.drop();
    // Parts must not wait for decisions that will not be carried out.
    for (const decision of this.#undecided) {
      for (const { incoming } of decision.before) incoming.drop();
      decision.isDone();
    }
    await Promise.all([this.#deciding, ...this.#running]);
    await this.#queue.catch(() => undefined);
  }

  // Parts

  /**
   * Takes rows of a part, then waits until there is room for more, or until another part waits for rows: a sink may stage one
   * part only after another, and the rows of that one must not wait because the queue of the first is full.
   */
  async #takeRows(staging: Staging, rows: Rows, bytes: number): Promise<void> {
    const { incoming } = staging;
    if (incoming.isFull) incoming.offer(await staging.file.write(rows.frame), 0);
    else incoming.offer(rows, bytes);
    const anotherWaits = (): boolean => [...this.#stagings.values()].some((other) => other.incoming.isWaiting);
    while (incoming.isFull && !anotherWaits()) {
      await new Promise<void>((resolve) => {
        this.#moved = resolve;
      });
    }
    this.#moved = undefined;
  }

  #start(id: bigint, part: Part): void {
    const incoming = new BoundedQueue<Rows | Place>(this.settings.queueBytes, () => {
      this.#moved?.();
    });
    const staging: Staging = {
      id,
      part,
      incoming,
      file: new SpillFile(),
      messages: 0n,
      taken: 0,
      isExhausted: false,
      isStaged: false,
      over: Promise.resolve(),
    };
    this.#stagings.set(id, staging);
    const before = this.#lastDecision.get(keyOf(part.transaction));
    staging.over = this.#stage(staging, before)
      .catch(this.fail)
      .finally(() => this.#running.delete(staging.over));
    this.#running.add(staging.over);
  }

  /** Has the sink stage a part; drops the part if that fails. */
  async #stage(staging: Staging, before: Decision | undefined): Promise<void> {
    const { id, part, incoming } = staging;
    await before?.done;
    if (incoming.isDropped) return;
    try {
      const details = { waits: () => incoming.isWaiting, progress: () => staging.taken };
      const outcomes = await this.calls.during("stage", details, () => this.sink.stage(part, rowsOf(staging)));
      if (!staging.isExhausted) {
        throw new InvalidOutcomesError(
          `stage() returned before the end of the part: it took ${staging.taken} of its messages`,
        );
      }
      const refused = refusals(outcomes, 0n, staging.taken);
      staging.isStaged = true;
      if (!incoming.isDropped) await this.answers.staged(id, refused);
    } catch (error) {
      incoming.discard();
      await this.#drop(part);
      if (!incoming.isDropped) await this.answers.partFailed(id, part, error);
    } finally {
      await staging.file.close();
    }
  }

  async #drop(part: Part): Promise<void> {
    try {
      await this.#call("drop", () => this.sink.drop(part));
    } catch (error) {
      this.answers.failed("dropping a part failed", fieldsOf(part), error);
    }
  }

  // Decisions

  /** Queues a decision; the parts that it concerns take no more rows. */
  async #enqueue(message: Asked, transaction: Transaction, before: readonly Staging[]): Promise<void> {
    const counting = new Set(
      message.case === "prepare" ? message.value.parts.map((part) => partKey(partOf(part))) : [],
    );
    for (const staging of before) {
      this.#stagings.delete(staging.id);
      if (!counting.has(partKey(staging.part))) staging.incoming.drop();
    }
    let isDone!: () => void;
    const done = new Promise<void>((resolve) => {
      isDone = resolve;
    });
    const decision: Decision = { message, transaction, before, done, isDone };
    this.#lastDecision.set(keyOf(transaction), decision);
    this.#undecided.add(decision);
    await this.#decisions.put(decision, 1);
  }

  /** Carries out one decision after the other. */
  async #decide(): Promise<void> {
    for await (const decision of this.#decisions) {
      await Promise.all(decision.before.map(({ over }) => over));
      await this.#carryOut(decision);
      decision.isDone();
      this.#undecided.delete(decision);
      const key = keyOf(decision.transaction);
      if (this.#lastDecision.get(key) === decision) this.#lastDecision.delete(key);
    }
  }

  async #carryOut({ message, transaction, before }: Decision): Promise<void> {
    switch (message.case) {
      case "dropPart":
        for (const { isStaged, part } of before) if (isStaged) await this.#drop(part);
        break;
      case "prepare": {
        const parts = message.value.parts.map(partOf);
        await this.#answer(transaction, "prepare", () => this.sink.prepare(transaction, parts));
        break;
      }
      case "commit":
        await this.#answer(transaction, "commit", () => this.sink.commit(transaction));
        break;
      case "abort":
        try {
          await this.#call("abort", () => this.sink.abort(transaction));
          this.answers.aborted();
        } catch (error) {
          this.answers.failed("aborting a transaction failed", { ...transaction }, error);
        }
        break;
      default:
        break;
    }
  }

  /** Calls a method of the sink, and answers with its success or failure. */
  async #answer(
    transaction: Transaction,
    method: "prepare" | "commit",
    call: () => void | Promise<void>,
  ): Promise<void> {
    try {
      await this.#call(method, call);
    } catch (error) {
      const doing = method === "prepare" ? "preparing" : "committing";
      await this.answers.transactionFailed(transaction, doing, error);
      return;
    }
    await this.answers[method === "prepare" ? "prepared" : "committed"](transaction);
  }

  /** Calls a method of the sink after those before it. */
  async #call(method: string, call: () => void | Promise<void>): Promise<void> {
    const result = this.#queue.then(() => this.calls.during(method, {}, call));
    this.#queue = result.catch(() => undefined);
    await result;
  }
}

/** The rows of a part as they arrive, counted. */
async function* rowsOf(staging: Staging): AsyncGenerator<Rows, void> {
  for await (const item of staging.incoming) {
    const rows = item instanceof Rows ? item : new Rows(await staging.file.read(item));
    checkFrame(rows.frame);
    staging.taken += rows.length;
    yield rows;
  }
  checkWhole(staging.taken, staging.messages);
  staging.isExhausted = true;
}
