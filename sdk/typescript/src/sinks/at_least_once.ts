import type { Calls } from "../calls.js";
import type { Settings } from "../options.js";
import { Rows } from "../rows.js";
import type { AtLeastOnceSink } from "../sink.js";
import type { Part, Transaction } from "../transaction.js";
import { checkFrame } from "../wire/check.js";
import type { Answers } from "./answers.js";
import { checkWhole, keyOf, refusals, type RefusedMessage } from "./conversions.js";
import { InOrderHandler } from "./in_order.js";

/** A part that is being written. */
interface Writing {
  readonly part: Part;
  messages: number;
  readonly refused: RefusedMessage[];
}

/** Writes rows as they arrive. */
export class AtLeastOnceHandler extends InOrderHandler {
  readonly #parts = new Map<bigint, Writing>();

  constructor(
    private readonly sink: AtLeastOnceSink,
    private readonly calls: Calls,
    answers: Answers,
    settings: Settings,
    fail: (error: unknown) => void,
  ) {
    super(answers, settings, fail);
  }

  protected override start(id: bigint, part: Part): void {
    this.#parts.set(id, { part, messages: 0, refused: [] });
  }

  protected override async rows(id: bigint, rows: Rows): Promise<void> {
    const writing = this.#parts.get(id);
    // Those of a part that has failed are dropped.
    if (writing === undefined) return;
    try {
      checkFrame(rows.frame);
      const ofPart = new Rows(rows.frame, writing.part);
      const outcomes = await this.calls.during("write", {}, () => this.sink.write(ofPart));
      writing.refused.push(...refusals(outcomes, rows.first, rows.length));
      writing.messages += rows.length;
    } catch (error) {
      this.#parts.delete(id);
      await this.answers.partFailed(id, writing.part, error);
    }
  }

  protected override async end(id: bigint, messages: bigint): Promise<void> {
    const writing = this.#parts.get(id);
    if (writing === undefined) return;
    this.#parts.delete(id);
    try {
      checkWhole(writing.messages, messages);
      await this.calls.during("flush", {}, () => this.sink.flush?.());
    } catch (error) {
      await this.answers.partFailed(id, writing.part, error);
      return;
    }
    await this.answers.staged(id, writing.refused);
  }

  protected override drop(id: bigint): void {
    this.#parts.delete(id);
  }

  protected override async prepare(transaction: Transaction): Promise<void> {
    await this.answers.prepared(transaction);
  }

  protected override abort(transaction: Transaction): void {
    for (const [id, { part }] of this.#parts) {
      if (keyOf(part.transaction) === keyOf(transaction)) this.#parts.delete(id);
    }
  }
}
