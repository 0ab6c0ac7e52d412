import type { MessageInitShape } from "@bufbuild/protobuf";

import { describe } from "../errors.js";
import type { SinkServiceAttachRequestSchema, SinkServiceAttachResponse } from "../gen/headrace/protocol/v1/sink_pb.js";
import type { Health } from "../health.js";
import type { Settings } from "../options.js";
import type { Part, Transaction } from "../transaction.js";
import { fieldsOf, type RefusedMessage } from "./conversions.js";

/** A message of the sink. */
export type Answer = NonNullable<MessageInitShape<typeof SinkServiceAttachRequestSchema>["message"]>;

/** A message of the gateway. */
export type Asked = SinkServiceAttachResponse["message"];

/** Handles the gateway's messages to a sink of one mode, in order, and answers them. */
export interface Handler {
  /** Takes a message; waits while the sink is behind. */
  take(message: Asked): Promise<void>;
  /** Handles and answers what has arrived completely. No more messages are taken. */
  finish(): Promise<void>;
  /** Drops the rest; resolves once no method of the sink runs for this session. */
  close(): Promise<void>;
}

/** Sends the answers of a session, logs failures, and counts. */
export class Answers {
  /** @param send - Sends an answer, after those before it. It never rejects. */
  constructor(
    private readonly sink: string,
    private readonly settings: Settings,
    private readonly health: Health,
    private readonly send: (answer: Answer) => Promise<void>,
  ) {}

  /** Counts the rows of a frame. */
  received(messages: number, bytes: number): void {
    const { metrics } = this.settings;
    metrics.add("headrace.frames", 1, { sink: this.sink });
    metrics.add("headrace.messages", messages, { sink: this.sink });
    metrics.add("headrace.bytes", bytes, { sink: this.sink });
  }

  async staged(id: bigint, refused: readonly RefusedMessage[]): Promise<void> {
    await this.send({ case: "staged", value: { id, refused: [...refused] } });
  }

  async partFailed(id: bigint, part: Part, error: unknown): Promise<void> {
    this.failed("staging a part failed", fieldsOf(part), error);
    await this.send({ case: "failed", value: { what: { case: "partId", value: id }, reason: describe(error) } });
  }

  async prepared(transaction: Transaction): Promise<void> {
    this.#count("prepared");
    await this.send({ case: "prepared", value: { transaction } });
  }

  async committed(transaction: Transaction): Promise<void> {
    this.#count("committed");
    await this.send({ case: "committed", value: { transaction } });
  }

  async transactionFailed(transaction: Transaction, doing: string, error: unknown): Promise<void> {
    this.#count("failed");
    this.failed(`${doing} a transaction failed`, { ...transaction }, error);
    const what = { case: "transaction" as const, value: transaction };
    await this.send({ case: "failed", value: { what, reason: `${doing}: ${describe(error)}` } });
  }

  /** Notes that a transaction was aborted, which needs no answer. */
  aborted(): void {
    this.#count("aborted");
  }

  /** Logs and reports a failure. */
  failed(text: string, fields: Record<string, unknown>, error: unknown): void {
    this.settings.logger.error(text, { sink: this.sink, ...fields, error: describe(error) });
    this.health.survived(error);
  }

  #count(outcome: string): void {
    this.settings.metrics.add("headrace.transactions", 1, { sink: this.sink, outcome });
  }
}
