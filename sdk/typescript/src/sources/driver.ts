import type { Calls } from "../calls.js";
import { describe, HeadraceError, InvalidSourceError, SourceFailedError } from "../errors.js";
import { streamName } from "../names.js";
import type { ReplayableSource, Source, Starts } from "../source.js";
import { KnownStarts } from "./starts.js";

/** A source, checked, and what outlives its sessions. */
export class Driver {
  readonly name: string;
  readonly connector: string;
  readonly version: string;
  readonly choosesStart: boolean;
  readonly starts: KnownStarts;

  /** Checks the source; throws {@link InvalidSourceError}. */
  constructor(
    readonly source: Source,
    readonly calls: Calls,
  ) {
    if (typeof source.name !== "string" || source.name === "") {
      throw new InvalidSourceError("the source has no name: set its property `name` to the source part of its streams");
    }
    streamName(source.name, "0");
    if (typeof source.read !== "function") throw new InvalidSourceError(`source ${source.name} has no method read()`);
    if (source.kind === "redelivering" && typeof source.settle !== "function") {
      throw new InvalidSourceError(`source ${source.name} is redelivering, and has no method settle()`);
    }
    this.name = source.name;
    this.connector = source.connector ?? source.name;
    this.version = source.version ?? "0";
    this.choosesStart = isReplayable(source) && source.starts !== undefined;
    this.starts = new KnownStarts((partitions) => this.#askForStarts(partitions));
  }

  /**
   * Asks for the partitions.
   *
   * @param atMost - How many streams the gateway allows.
   * @throws {@link SourceFailedError} if the source throws.
   * @throws {@link InvalidSourceError} if a name is not allowed, or listed twice, or there are too many.
   */
  async partitions(atMost: number): Promise<readonly string[]> {
    const { source } = this;
    const partitions = await this.#ask("partitions", async () => [...((await source.partitions?.()) ?? ["0"])]);
    for (const partition of partitions) streamName(this.name, partition);
    if (new Set(partitions).size !== partitions.length) {
      throw new InvalidSourceError(
        `source ${this.name}: partitions() lists a partition twice: ${partitions.join(", ")}`,
      );
    }
    if (partitions.length > atMost && source.takesTurns !== true) {
      throw new InvalidSourceError(
        `source ${this.name} has ${partitions.length} partitions, but the gateway limits a session to ${atMost}: ` +
          "split them over several instances",
      );
    }
    if (this.choosesStart) this.starts.listed(partitions);
    return partitions;
  }

  async #askForStarts(partitions: readonly string[]): Promise<Starts> {
    const { source } = this;
    if (!isReplayable(source) || !source.starts) return {};
    return this.#ask("starts", async () => (await source.starts?.(partitions)) ?? {});
  }

  async #ask<T>(method: string, question: () => Promise<T>): Promise<T> {
    try {
      return await this.calls.note(this.calls.during(method, {}, question));
    } catch (error) {
      if (error instanceof HeadraceError) throw error;
      throw new SourceFailedError(`source ${this.name}: ${method}() threw ${describe(error)}`, { cause: error });
    }
  }
}

function isReplayable(source: Source): source is ReplayableSource {
  return source.kind === undefined || source.kind === "replayable";
}
