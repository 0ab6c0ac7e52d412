import { InvalidMessageError } from "../errors.js";
import type { Settings } from "../options.js";
import type { Rows } from "../rows.js";
import type { IdempotentSink } from "../sink.js";
import type { Part, Transaction } from "../transaction.js";
import { checkFrame } from "../wire/check.js";
import type { Answers } from "./answers.js";
import { checkWhole, keyOf, partKey, refusals, type RefusedMessage } from "./conversions.js";
import type { SinkDriver } from "./driver.js";
import { HeldPart, Hold } from "./hold.js";
import { InOrderHandler } from "./in_order.js";

/** A part, and what has arrived of it. */
interface Arriving {
  readonly part: Part;
  readonly held: HeldPart;
  messages: number;
  readonly refused: RefusedMessage[];
  isWhole: boolean;
}

/** Holds parts, and writes each transaction when its vote is asked for. */
export class IdempotentHandler extends InOrderHandler {
  readonly #hold: Hold;
  readonly #parts = new Map<bigint, Arriving>();
  readonly #voted = new Map<string, bigint>();
  readonly #releasing = new Set<Promise<void>>();

  constructor(
    private readonly sink: IdempotentSink,
    private readonly driver: SinkDriver,
    answers: Answers,
    settings: Settings,
    fail: (error: unknown) => void,
  ) {
    super(answers, settings, fail);
    this.#hold = new Hold(settings.holdBytes);
  }

  override async close(): Promise<void> {
    await super.close();
    for (const id of this.#parts.keys()) this.drop(id);
    await Promise.all(this.#releasing);
  }

  protected override start(id: bigint, part: Part): void {
    this.driver.saw(part.transaction.pipeline);
    this.#parts.set(id, { part, held: new HeldPart(this.#hold), messages: 0, refused: [], isWhole: false });
  }

  protected override async rows(id: bigint, rows: Rows): Promise<void> {
    const arriving = this.#parts.get(id);
    if (arriving === undefined) return;
    try {
      checkFrame(rows.frame);
      const refused = refusals(await this.#call("check", () => this.sink.check?.(rows)), rows.first, rows.length);
      const kept = refused.length > 0 ? rows.without(new Set(refused.map(({ sequence }) => sequence))) : rows;
      if (kept !== undefined) await arriving.held.add(kept, rows.values.data.length + rows.length * 24);
      arriving.refused.push(...refused);
      arriving.messages += rows.length;
    } catch (error) {
      this.drop(id);
      await this.answers.partFailed(id, arriving.part, error);
    }
  }

  protected override async end(id: bigint, messages: bigint): Promise<void> {
    const arriving = this.#parts.get(id);
    if (arriving === undefined) return;
    try {
      checkWhole(arriving.messages, messages);
    } catch (error) {
      this.drop(id);
      await this.answers.partFailed(id, arriving.part, error);
      return;
    }
    arriving.isWhole = true;
    await this.answers.staged(id, arriving.refused);
  }

  protected override drop(id: bigint): void {
    const arriving = this.#parts.get(id);
    if (!this.#parts.delete(id) || arriving === undefined) return;
    const releasing: Promise<void> = arriving.held
      .release()
      .catch(() => undefined)
      .finally(() => this.#releasing.delete(releasing));
    this.#releasing.add(releasing);
  }

  /** If writing fails, the parts are kept for another attempt. */
  protected override async prepare(transaction: Transaction, parts: readonly Part[]): Promise<void> {
    try {
      if (this.#voted.get(transaction.pipeline) !== transaction.batch) await this.#write(transaction, parts);
    } catch (error) {
      await this.answers.transactionFailed(transaction, "writing", error);
      return;
    }
    this.#voted.set(transaction.pipeline, transaction.batch);
    this.abort(transaction);
    await this.answers.prepared(transaction);
  }

  /** Forgets the parts of a transaction; what is written stays. */
  protected override abort(transaction: Transaction): void {
    for (const [id, { part }] of this.#parts) {
      if (keyOf(part.transaction) === keyOf(transaction)) this.drop(id);
    }
  }

  /** Has the sink write a transaction, unless it already has. */
  async #write(transaction: Transaction, parts: readonly Part[]): Promise<void> {
    const last = await this.#call("last", () => this.sink.last?.(transaction.pipeline));
    if (last === transaction.batch) return;
    const whole = new Map<string, HeldPart>();
    for (const { part, held, isWhole } of this.#parts.values()) if (isWhole) whole.set(partKey(part), held);
    const counted = parts.map((part) => {
      const held = whole.get(partKey(part));
      if (held !== undefined) return held;
      throw new InvalidMessageError(`partition ${part.partition}, attempt ${part.attempt}, is no longer here`);
    });
    await this.#call("write", () => this.sink.write(transaction, rowsOf(counted)));
  }

  /** Calls a method of the sink. */
  #call<T>(method: string, call: () => T | Promise<T>): Promise<T> {
    return this.driver.calls.during(method, {}, call);
  }
}

/** The rows of all parts. */
async function* rowsOf(parts: readonly HeldPart[]): AsyncGenerator<Rows, void> {
  for (const part of parts) yield* part.rows();
}
