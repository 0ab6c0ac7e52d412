import type { MessageInitShape } from "@bufbuild/protobuf";

import type { Calls } from "../calls.js";
import { describe, HeadraceError, InvalidSinkError, SinkFailedError } from "../errors.js";
import { SinkMode, type SinkHelloSchema } from "../gen/headrace/protocol/v1/sink_pb.js";
import { Capability } from "../gen/headrace/protocol/v1/source_pb.js";
import { isName } from "../names.js";
import type { Recovered, Sink } from "../sink.js";
import type { Transaction } from "../transaction.js";
import { PROTOCOL_VERSION, SDK } from "../version.js";

const MODES: Readonly<Record<Sink["mode"], SinkMode>> = {
  "two-phase": SinkMode.TWO_PHASE,
  "batch-idempotent": SinkMode.BATCH_IDEMPOTENT,
  "at-least-once": SinkMode.AT_LEAST_ONCE,
};
const METHODS: Readonly<Record<Sink["mode"], readonly string[]>> = {
  "two-phase": ["stage", "drop", "prepare", "commit", "abort", "recover"],
  "batch-idempotent": ["write"],
  "at-least-once": ["write"],
};

/** A sink, checked, and what outlives its sessions. */
export class SinkDriver {
  readonly name: string;
  readonly #pipelines = new Set<string>();

  /** Checks the sink; throws {@link InvalidSinkError}. */
  constructor(
    readonly sink: Sink,
    readonly calls: Calls,
  ) {
    if (!isName(sink.name)) {
      throw new InvalidSinkError(
        `sink name ${JSON.stringify(sink.name)}: 1 to 255 letters, digits and "._-" are allowed`,
      );
    }
    if (!Object.hasOwn(MODES, sink.mode)) {
      throw new InvalidSinkError(
        `sink ${sink.name} has mode ${JSON.stringify(sink.mode)}: one of ${Object.keys(MODES).join(", ")} is needed`,
      );
    }
    for (const method of METHODS[sink.mode]) {
      if (typeof (sink as unknown as Record<string, unknown>)[method] !== "function") {
        throw new InvalidSinkError(`sink ${sink.name} is ${sink.mode}, and has no method ${method}()`);
      }
    }
    this.name = sink.name;
  }

  /** Remembers a pipeline, so that the next session reports its last batch. */
  saw(pipeline: string): void {
    this.#pipelines.add(pipeline);
  }

  /** The first message of a session, with what the sink has stored; throws {@link SinkFailedError}. */
  async hello(instance: string): Promise<MessageInitShape<typeof SinkHelloSchema>> {
    const { sink } = this;
    let recovered: Recovered;
    try {
      recovered = await this.#recovered();
    } catch (error) {
      if (error instanceof HeadraceError) throw error;
      throw new SinkFailedError(`sink ${this.name}: cannot tell what it has stored: ${describe(error)}`, {
        cause: error,
      });
    }
    return {
      protocolVersion: PROTOCOL_VERSION,
      connector: sink.connector ?? sink.name,
      connectorVersion: sink.version ?? "0",
      sink: sink.name,
      instance,
      mode: MODES[sink.mode],
      staged: recovered.staged.map((part) => ({ ...part })),
      prepared: [...recovered.prepared],
      committed: [...recovered.committed],
      capabilities: [Capability.HEARTBEAT],
      sdk: SDK,
    };
  }

  async #recovered(): Promise<Recovered> {
    const { sink } = this;
    if (sink.mode === "two-phase") return this.calls.during("recover", {}, () => sink.recover());
    const committed: Transaction[] = [];
    if (sink.mode === "batch-idempotent") {
      for (const pipeline of (await this.calls.during("pipelines", {}, () => sink.pipelines?.())) ?? [])
        this.#pipelines.add(pipeline);
      for (const pipeline of [...this.#pipelines].sort()) {
        const batch = await this.calls.during("last", {}, () => sink.last?.(pipeline));
        if (batch !== undefined) committed.push({ pipeline, batch });
      }
    }
    return { staged: [], prepared: [], committed };
  }
}
