import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, beforeEach, describe, it } from "node:test";

import {
  IDLE,
  SourceFailedError,
  start,
  type Connector,
  type Item,
  type Logger,
  type Options,
  type Part,
  type ReplayableSource,
  type Rows,
  type TwoPhaseSink,
} from "../src/index.js";
import { scripted as scriptedForSinks, welcome as welcomeSink } from "./attach_gateway.js";
import { until, within } from "./fake_gateway.js";
import { scripted, welcome, type IngestSession } from "./ingest_gateway.js";

/** A source that notes its calls. */
class Noted implements ReplayableSource {
  readonly name = "noted";
  readonly calls: string[] = [];

  constructor(
    private readonly more: { isEndless?: boolean; fails?: string; hangs?: string } = {},
    private readonly release: Promise<void> = Promise.resolve(),
  ) {}

  partitions(): string[] {
    this.note("partitions");
    return ["0"];
  }

  async *read(): AsyncGenerator<Item> {
    try {
      this.note("read");
      if (this.more.hangs === "read") await this.release;
      yield { value: "a", sequence: 1 };
      while (this.more.isEndless === true) yield IDLE;
    } finally {
      this.calls.push("the end of read");
    }
  }

  acknowledged(): void {
    this.note("acknowledged");
  }

  async close(): Promise<void> {
    this.note("close");
    if (this.more.hangs === "close") await this.release;
  }

  isClosedLast(): boolean {
    return this.calls.indexOf("close") === this.calls.length - 1;
  }

  private note(call: string): void {
    this.calls.push(call);
    if (call === this.more.fails) throw new Error(`${call} fails`);
  }
}

/** A log that keeps its lines. */
function lines(): { logger: Logger; said: string[] } {
  const said: string[] = [];
  const note = (message: string): void => {
    said.push(message);
  };
  return { logger: { debug: note, info: note, warn: note, error: note }, said };
}

describe("the end of a source", () => {
  let gateway: ReturnType<typeof scripted>;
  let release!: () => void;
  let released: Promise<void>;

  beforeEach(async () => {
    released = new Promise((resolve) => {
      release = resolve;
    });
    gateway = scripted();
    await gateway.start();
  });

  afterEach(() => {
    release();
    gateway.stop();
  });

  const begin = (source: Noted, options: Options = {}): Connector =>
    start(source, { gateway: gateway.address, logger: lines().logger, ...options });

  const opened = async (): Promise<{ session: IngestSession; streamId: number }> => {
    const session = await gateway.session();
    welcome(session);
    const { streamId } = await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId } });
    return { session, streamId };
  };

  it("is its close, once it has ended", async () => {
    const source = new Noted();
    const connector = begin(source);
    const { session, streamId } = await opened();
    await session.next("frame");
    session.send({ case: "ack", value: { streams: [{ streamId, position: { sequence: 1n } }] } });
    await within("the end", connector.done);
    assert.ok(source.isClosedLast(), source.calls.join());
    assert.ok(source.calls.includes("acknowledged"));
  });

  it("is its close, once it is stopped", async () => {
    const source = new Noted({ isEndless: true });
    const connector = begin(source);
    const { session, streamId } = await opened();
    await session.next("frame");
    const stopped = connector.stop();
    session.send({ case: "ack", value: { streams: [{ streamId, position: { sequence: 1n } }] } });
    await within("the stop", stopped);
    assert.ok(source.isClosedLast(), source.calls.join());
  });

  for (const fails of ["partitions", "read"]) {
    it(`is its close, also after an error of ${fails}`, async () => {
      const source = new Noted({ fails });
      const connector = begin(source);
      if (fails === "read") await opened();
      else welcome(await gateway.session());
      await assert.rejects(within("the end", connector.done), SourceFailedError);
      assert.ok(source.isClosedLast(), source.calls.join());
    });
  }

  it("is its close, though no gateway was ever there", async () => {
    const source = new Noted();
    await within("the stop", start(source, { gateway: "127.0.0.1:1", signal: AbortSignal.abort() }).done);
    assert.deepEqual(source.calls, ["close"]);
  });

  it("is no call where an option is invalid", () => {
    const source = new Noted();
    assert.throws(() => start(source, { lingerMs: -1 }));
    assert.deepEqual(source.calls, []);
  });

  it("is the same where close throws, which is logged", async () => {
    const { logger, said } = lines();
    await within("the stop", begin(new Noted({ fails: "close" }), { logger, signal: AbortSignal.abort() }).done);
    assert.ok(said.includes("close() has failed"), said.join());
  });

  it("waits no longer than closeMs for a close that does not return", async () => {
    const { logger, said } = lines();
    const options = { logger, closeMs: 50, signal: AbortSignal.abort() };
    await within("the stop", begin(new Noted({ hangs: "close" }, released), options).done);
    assert.ok(said.includes("close() has not returned; the connector ends without it"), said.join());
  });

  it("is no close beside a method that has not returned", async () => {
    const { logger, said } = lines();
    const source = new Noted({ hangs: "read" }, released);
    const connector = begin(source, { logger, stuckMs: 20, closeMs: 50 });
    await opened();
    await until("the call of read", () => source.calls.includes("read"));
    await within("the stop", connector.stop());
    assert.ok(!source.calls.includes("close"), source.calls.join());
    assert.ok(said.includes("close() is not called, because another method has not returned"), said.join());
  });
});

describe("the end of a sink", () => {
  it("is its close", async () => {
    const calls: string[] = [];
    const note = (call: string) => (): void => {
      calls.push(call);
    };
    const sink: TwoPhaseSink = {
      name: "noted",
      mode: "two-phase",
      async stage(_: Part, rows: AsyncIterable<Rows>) {
        let count = 0;
        for await (const some of rows) count += some.length;
        calls.push(`stage ${count}`);
      },
      drop: note("drop"),
      prepare: note("prepare"),
      commit: note("commit"),
      abort: note("abort"),
      recover: () => {
        calls.push("recover");
        return { staged: [], prepared: [], committed: [] };
      },
      close: note("close"),
    };
    const gateway = scriptedForSinks();
    await gateway.start();
    try {
      const connector = start(sink, { gateway: gateway.address, logger: lines().logger });
      welcomeSink(await gateway.session());
      await within("the stop", connector.stop());
      assert.deepEqual(calls, ["recover", "close"]);
    } finally {
      gateway.stop();
    }
  });
});

const LIBRARY = new URL("../src/index.js", import.meta.url).href;

/** A source whose close never returns, and keeps the event loop alive. */
const PROGRAM = `
import { run } from "${LIBRARY}";
const source = {
  name: "stubborn",
  read: () => [],
  async close() {
    setInterval(() => undefined, 1000);
    await new Promise(() => undefined);
  },
};
process.exitCode = await run(source, { gateway: "127.0.0.1:1", closeMs: 50, signal: AbortSignal.abort() });
`;

describe("a process whose close never returns", () => {
  it("ends all the same", async () => {
    const process_ = spawn(process.execPath, ["--input-type=module", "-e", PROGRAM], { stdio: "ignore" });
    try {
      const [code] = (await within("the end", once(process_, "exit"), 60_000)) as [number | null];
      assert.equal(code, 0);
    } finally {
      process_.kill("SIGKILL");
    }
  });
});
