import type { Part as WirePart, Transaction as WireTransaction } from "../gen/headrace/protocol/v1/sink_pb.js";
import { HeadraceError, InvalidMessageError, InvalidOutcomesError } from "../errors.js";
import { WRITTEN, type Outcomes } from "../sink.js";
import type { Part, Transaction } from "../transaction.js";

/** A message that a sink refuses, in the protocol's form. */
export interface RefusedMessage {
  readonly sequence: bigint;
  readonly reason: string;
}

/** The transaction of a protocol message. */
export function transactionOf(message: WireTransaction | undefined): Transaction {
  if (message === undefined) throw new HeadraceError("the gateway sent a message without a transaction");
  return { pipeline: message.pipeline, batch: message.batch };
}

/** The part of a protocol message. */
export function partOf(message: WirePart | undefined): Part {
  if (message === undefined) throw new HeadraceError("the gateway sent a message without a part");
  const { transaction, partition, attempt } = message;
  return { transaction: transactionOf(transaction), partition, attempt };
}

/** A text that is the same for the same transaction. */
export function keyOf({ pipeline, batch }: Transaction): string {
  return JSON.stringify([pipeline, batch.toString()]);
}

/** A text that is the same for the same part. */
export function partKey({ transaction, partition, attempt }: Part): string {
  return JSON.stringify([transaction.pipeline, transaction.batch.toString(), partition, attempt]);
}

/** A part, for logs. */
export function fieldsOf({ transaction, partition, attempt }: Part): Record<string, unknown> {
  return { ...transaction, partition, attempt };
}

/**
 * The refused messages, by their places in the part.
 *
 * @param first - The place of the first message.
 * @param count - The number of messages that the sink was given.
 * @throws {@link InvalidOutcomesError} if not every message has exactly one outcome.
 */
export function refusals(outcomes: Outcomes, first: bigint, count: number): RefusedMessage[] {
  if (outcomes === undefined) return [];
  if (!Array.isArray(outcomes))
    throw new InvalidOutcomesError(`outcomes are an array or undefined, not ${typeof outcomes}`);
  if (outcomes.length !== count) {
    throw new InvalidOutcomesError(
      `return one outcome for each message, or undefined if all are written: ${count} expected, ${outcomes.length} returned`,
    );
  }
  const refused: RefusedMessage[] = [];
  for (const [place, outcome] of outcomes.entries()) {
    if (outcome === WRITTEN) continue;
    const sequence = first + BigInt(place);
    const reason: unknown = (outcome as { refused?: unknown } | undefined)?.refused;
    if (typeof reason !== "string") {
      throw new InvalidOutcomesError(`message ${sequence}: the outcome is neither WRITTEN nor { refused: reason }`);
    }
    refused.push({ sequence, reason });
  }
  return refused;
}

/** Throws {@link InvalidMessageError} if messages of a part are missing. */
export function checkWhole(arrived: number, messages: bigint): void {
  if (BigInt(arrived) !== messages) {
    throw new InvalidMessageError(`messages of a part: ${messages} expected, ${arrived} arrived`);
  }
}
