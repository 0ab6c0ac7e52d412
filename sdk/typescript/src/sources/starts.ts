import { InvalidSourceError } from "../errors.js";
import type { Starts } from "../source.js";
import { MAX_SEQUENCE } from "../wire/sequence.js";

/** Where a partition begins; undefined for its first message. */
export interface Start {
  readonly sequence: bigint;
  readonly cursor?: Uint8Array | undefined;
}

/**
 * The starts of a source's partitions that no checkpoint has yet.
 *
 * They outlive sessions: a gateway that was restarted asks again, and what has arrived since the first answer must not be
 * left out.
 */
export class KnownStarts {
  readonly #starts = new Map<string, Start | undefined>();
  #listed: Set<string> | undefined;

  constructor(private readonly ask: (partitions: readonly string[]) => Promise<Starts>) {}

  /** Notes which partitions there are. Those that appear later begin with their first message. */
  listed(partitions: readonly string[]): void {
    if (this.#listed === undefined) {
      this.#listed = new Set(partitions);
      return;
    }
    for (const partition of partitions) {
      if (!this.#listed.has(partition)) this.#starts.set(partition, undefined);
      this.#listed.add(partition);
    }
  }

  /** Notes that a checkpoint has a position: a query that is new after that begins elsewhere. */
  acknowledged(partition: string, sequence: bigint): void {
    const start = this.#starts.get(partition);
    if (start === undefined || sequence >= start.sequence) this.#starts.delete(partition);
  }

  /** Returns where partitions begin; throws {@link InvalidSourceError} if the source's answer is invalid. */
  async of(partitions: readonly string[], maxCursorBytes: number): Promise<ReadonlyMap<string, Start | undefined>> {
    const unknown = partitions.filter((partition) => !this.#starts.has(partition));
    if (unknown.length > 0) {
      const told = await this.ask(unknown);
      check(told, unknown, maxCursorBytes);
      for (const partition of unknown) this.#starts.set(partition, told[partition]);
    }
    return new Map(partitions.map((partition) => [partition, this.#starts.get(partition)]));
  }
}

function check(told: Starts, asked: readonly string[], maxCursorBytes: number): void {
  for (const [partition, { sequence, cursor }] of Object.entries(told)) {
    if (!asked.includes(partition)) {
      throw new InvalidSourceError(`starts() names partition ${JSON.stringify(partition)}, which it was not asked for`);
    }
    if (typeof sequence !== "bigint" || sequence < 0n || sequence > MAX_SEQUENCE) {
      throw new InvalidSourceError(
        `starts() returns sequence ${String(sequence)} for partition ${partition}: a bigint from 0n to 2n ** 63n - 1n is needed`,
      );
    }
    if (cursor && cursor.length > maxCursorBytes) {
      throw new InvalidSourceError(
        `starts() returns a cursor of ${cursor.length} bytes for partition ${partition}, and the gateway accepts at most ${maxCursorBytes}`,
      );
    }
  }
}
