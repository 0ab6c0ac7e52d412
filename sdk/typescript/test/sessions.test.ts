import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";

import { toBinary, type JsonObject } from "@bufbuild/protobuf";

import { start, type Connector, type Logger, type Options, type Sink, type Source } from "../src/index.js";
import { scripted as scriptedSinks } from "./attach_gateway.js";
import { until } from "./fake_gateway.js";
import {
  FrameSchema,
  IngestRequestSchema,
  IngestResponseSchema,
  SinkServiceAttachRequestSchema,
  SinkServiceAttachResponseSchema,
  type Credit,
  type IngestRequest,
  type IngestResponse,
} from "./generated.js";
import { scripted as scriptedSources } from "./ingest_gateway.js";
import { Play } from "./play.js";
import { sinkOf, sourceOf, type DeclaredSink, type DeclaredSource, type Written } from "./scripted.js";
import { readVectors } from "./vectors.js";

const silent: Logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

interface Script {
  readonly name: string;
  readonly plays: string[];
  readonly token?: string;
  readonly steps: JsonObject[];
}

/** The scripts of a file that test a connector. */
function scripts<Declared>(name: string): (Script & Declared)[] {
  const found = readVectors<{ scripts: (Script & Declared)[] }>(`sessions/${name}`).scripts;
  return found.filter(({ plays }) => plays.includes("connector"));
}

/** The credit that a gateway has granted to a source, less what its frames have used. */
class Ledger {
  #bytes = 0n;
  #messages = 0n;
  #overhead = 0n;

  sent({ message }: IngestResponse): void {
    if (message.case === "welcome") {
      this.#bytes = this.#messages = 0n;
      this.#overhead = BigInt(message.value.frameOverheadBytes);
    }
    if (message.case === "credit") this.#grant(message.value);
    if (message.case === "welcome" || message.case === "ack") this.#grant(message.value.credit);
  }

  received({ message }: IngestRequest): void {
    if (message.case !== "frame") return;
    this.#bytes -= BigInt(toBinary(FrameSchema, message.value).length) + this.#overhead;
    this.#messages -= BigInt(message.value.count);
    assert.ok(this.#bytes >= 0n && this.#messages >= 0n, "a frame uses more credit than the gateway has granted");
  }

  #grant(credit: Credit | undefined): void {
    this.#bytes += credit?.bytes ?? 0n;
    this.#messages += credit?.messages ?? 0n;
  }
}

let connector: Connector | undefined;

function begin(what: Source | Sink, gateway: string, token: string | undefined): Connector {
  const options: Options = { gateway, token, instance: "instance-0", logger: silent, firstBackoffMs: 1 };
  return (connector = start(what, options));
}

describe("sessions of a source", () => {
  let gateway = scriptedSources();
  beforeEach(async () => {
    gateway = scriptedSources();
    await gateway.start();
  });
  afterEach(async () => {
    gateway.stop();
    await connector?.stop().catch(() => undefined);
  });

  for (const script of scripts<{ source: DeclaredSource }>("source")) {
    it(script.name, async () => {
      const { source, settled } = sourceOf(script.source);
      const ledger = new Ledger();
      const play = new Play({
        gateway,
        request: IngestRequestSchema,
        response: IngestResponseSchema,
        connector: begin(source, gateway.address, script.token),
        act: async (what) => {
          const { append = {}, settled: wanted } = what as { append?: Record<string, Written[]>; settled?: string[] };
          for (const [partition, messages] of Object.entries(append)) {
            script.source.partitions[partition].messages.push(...messages);
          }
          if (wanted) await until(`settled: ${wanted.join()}`, () => settled.join() === wanted.join());
        },
        sent: (response) => {
          ledger.sent(response);
        },
        received: (request) => {
          ledger.received(request);
        },
      });
      await play.run(script.steps);
    });
  }
});

describe("sessions of a sink", () => {
  let gateway = scriptedSinks();
  beforeEach(async () => {
    gateway = scriptedSinks();
    await gateway.start();
  });
  afterEach(async () => {
    gateway.stop();
    await connector?.stop().catch(() => undefined);
  });

  for (const script of scripts<{ sink: DeclaredSink }>("sink")) {
    it(script.name, async () => {
      const { sink, visible } = sinkOf(script.sink);
      const play = new Play({
        gateway,
        request: SinkServiceAttachRequestSchema,
        response: SinkServiceAttachResponseSchema,
        connector: begin(sink, gateway.address, script.token),
        act: async (what) => {
          const wanted = JSON.stringify(what["visible"]);
          await until(
            `visible: ${wanted}; it is ${JSON.stringify(visible())}`,
            () => JSON.stringify(visible()) === wanted,
          );
        },
      });
      await play.run(script.steps);
    });
  }
});
