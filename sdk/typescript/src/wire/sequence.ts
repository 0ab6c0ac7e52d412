import { InvalidMessageError } from "../errors.js";
import type { Sequence } from "../message.js";

/** The largest sequence: Spark has signed 64-bit integers. */
export const MAX_SEQUENCE = 2n ** 63n - 1n;

/** Returns a sequence as the kind of integer that is cheapest: a number if it is a safe integer. */
export function cheapest(sequence: bigint): Sequence {
  return sequence <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(sequence) : sequence;
}

/** Adds to a sequence. */
export function plus(sequence: Sequence, distance: number): Sequence {
  if (typeof sequence === "number") {
    const sum = sequence + distance;
    if (sum <= Number.MAX_SAFE_INTEGER) return sum;
  }
  return BigInt(sequence) + BigInt(distance);
}

/** Returns how far a sequence is from an earlier one. */
export function distance(from: Sequence, to: Sequence): number {
  return typeof from === "number" && typeof to === "number" ? to - from : Number(BigInt(to) - BigInt(from));
}

/** Checks a sequence that a source supplied. */
export function checkSequence(sequence: Sequence): void {
  const valid =
    typeof sequence === "number"
      ? Number.isSafeInteger(sequence) && sequence >= 0
      : typeof sequence === "bigint" && sequence >= 0n && sequence <= MAX_SEQUENCE;
  if (!valid) {
    const advice = typeof sequence === "number" ? "; use a bigint above Number.MAX_SAFE_INTEGER" : "";
    throw new InvalidMessageError(`sequence ${String(sequence)} is not an integer from 0 to 2^63 - 1${advice}`);
  }
}
