import assert from "node:assert/strict";
import { describe, it } from "node:test";

import {
  IDLE,
  start,
  type Item,
  type Logger,
  type Part,
  type ReplayableSource,
  type Rows,
  type TwoPhaseSink,
} from "../src/index.js";
import { Health } from "../src/health.js";
import { Overdue, type CallDetails } from "../src/overdue.js";
import { scripted as scriptedForSinks, welcome as welcomeSink } from "./attach_gateway.js";
import { within } from "./fake_gateway.js";
import { scripted, welcome } from "./ingest_gateway.js";

const STUCK_MS = 10_000;

/** A log that keeps its warnings, and a promise of the first that has a text. */
function warnings(text = ""): { logger: Logger; said: string[]; first: Promise<string> } {
  const said: string[] = [];
  let found!: (line: string) => void;
  const first = new Promise<string>((resolve) => {
    found = resolve;
  });
  const warn = (line: string): void => {
    said.push(line);
    if (line.includes(text)) found(line);
  };
  const ignore = (): void => undefined;
  return { logger: { debug: ignore, info: ignore, warn, error: ignore }, said, first };
}

class Orders {
  readonly name = "orders";
}

describe("a call", () => {
  /** Calls a method that does not return; says at which times, in seconds, it is named. */
  const calling = (
    details: CallDetails = {},
  ): { told: (...times: number[]) => boolean[]; overdue: Overdue; said: string[] } => {
    const { logger, said } = warnings();
    const overdue = new Overdue(new Orders(), STUCK_MS, logger, new Health());
    void overdue.during("settle", details, () => new Promise<void>(() => undefined));
    const told = (...times: number[]): boolean[] =>
      times.map((time) => {
        const before = said.length;
        overdue.look(time * 1000);
        return said.slice(before).some((line) => line.includes("has not returned"));
      });
    return { told, overdue, said };
  };

  it("is named again after twice the time, and not while it does something", () => {
    let taken = 0;
    const { told, said } = calling({ stream: "orders/0", progress: () => taken });
    assert.deepEqual(told(0, 9, 11, 21, 23, 45, 47), [false, false, true, false, true, false, true]);
    taken += 1;
    assert.deepEqual(told(48, 57, 59), [false, false, true]);
    assert.ok(
      said.includes("stream orders/0: Orders.settle() has not returned for 11.0 s; it stands at an await"),
      said.join("\n"),
    );
  });

  it("is not named while it waits for the SDK", () => {
    let waits = true;
    const { told } = calling({ waits: () => waits });
    assert.deepEqual(told(0, 100, 200), [false, false, false]);
    waits = false;
    assert.deepEqual(told(205, 211), [false, true]);
  });

  it("is not named once it has returned", async () => {
    const { logger, said } = warnings();
    const overdue = new Overdue(new Orders(), STUCK_MS, logger, new Health());
    assert.equal(await overdue.during("backlog", {}, () => 7), 7);
    for (const second of [0, 5, 10, 15]) overdue.look(second * 1000);
    assert.deepEqual(said, []);
  });

  it("is named where a step of it has blocked the event loop, and no step before that", () => {
    const { logger, said } = warnings();
    const overdue = new Overdue({ name: "orders" }, STUCK_MS, logger, new Health());
    const one = { method: overdue.nameOf("read"), stream: "orders/0" };
    const two = { ...one, stream: "orders/1" };
    assert.equal(
      overdue.step(one, () => 7),
      7,
    );
    overdue.look(0);
    for (let step = 0; step < 3; step++) overdue.step(two, () => undefined);
    for (const second of [12, 13, 30]) overdue.look(second * 1000);
    assert.deepEqual(said, ["stream orders/1: read() was called while the event loop was blocked for 12.0 s"]);
  });
});

describe("a method that does not return", () => {
  let release!: () => void;
  const hang = (): Promise<void> =>
    new Promise((resolve) => {
      release = resolve;
    });

  /** Blocks the event loop for ten times the time after which a method is named. */
  const block = (): void => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  };

  class Slow implements ReplayableSource {
    readonly name = "slow";

    constructor(private readonly slow: string) {}

    *read(): Generator<Item> {
      yield { value: "a", sequence: 1 };
      for (;;) yield IDLE;
    }

    async partitions(): Promise<string[]> {
      if (this.slow === "partitions") await hang();
      return ["0"];
    }

    backlog(): undefined {
      if (this.slow === "backlog") block();
    }

    async acknowledged(): Promise<void> {
      if (this.slow === "acknowledged") await hang();
    }
  }

  const cases = {
    partitions: "has not returned for",
    acknowledged: "has not returned for",
    backlog: "has blocked the event loop for",
  };
  for (const [slow, text] of Object.entries(cases)) {
    it(`is named, of a source: ${slow}`, async () => {
      const { logger, first } = warnings(`Slow.${slow}() ${text}`);
      const gateway = scripted();
      await gateway.start();
      const connector = start(new Slow(slow), { gateway: gateway.address, logger, stuckMs: 50, drainMs: 50 });
      const session = await gateway.session();
      welcome(session);
      if (slow !== "partitions") {
        const { streamId } = await session.next("openStream");
        const acknowledged = slow === "acknowledged" ? { acknowledged: { sequence: 1n } } : {};
        session.send({ case: "streamOpened", value: { streamId, ...acknowledged } });
      }
      const line = await within("a warning", first);
      assert.ok(line.startsWith(slow === "partitions" ? "source slow: " : "stream slow/0: "), line);
      for (let reported = false; !reported;) {
        const { errors } = await session.next("report");
        reported = errors.some(({ message }) => message.includes(`Slow.${slow}()`));
      }
      if (text === "has not returned for") release();
      await within("the end", connector.stop());
      gateway.stop();
    });
  }

  it("is named, of a sink, and none that waits for rows", async () => {
    class Files implements TwoPhaseSink {
      readonly name = "files";
      readonly mode = "two-phase";
      readonly stage = async (_: Part, rows: AsyncIterable<Rows>): Promise<void> => {
        for await (const some of rows) assert.ok(some.length > 0);
      };
      readonly commit = hang;
      drop(): void {}
      prepare(): void {}
      abort(): void {}
      recover(): { staged: []; prepared: []; committed: [] } {
        return { staged: [], prepared: [], committed: [] };
      }
    }
    const { logger, said, first } = warnings("Files.commit() has not returned for");
    const gateway = scriptedForSinks();
    await gateway.start();
    const connector = start(new Files(), { gateway: gateway.address, logger, stuckMs: 50 });
    const session = await gateway.session();
    welcomeSink(session);
    const transaction = { pipeline: "query", batch: 1n, run: "" };
    session.send({ case: "startPart", value: { id: 1n, part: { transaction, partition: 0, attempt: "1/1" } } });
    session.send({ case: "commit", value: { transaction: { ...transaction, batch: 0n } } });
    assert.ok((await within("a warning", first)).startsWith("sink files: "));
    assert.ok(!said.some((line) => line.includes("stage() has not returned")), said.join("\n"));
    release();
    await within("the end", connector.stop());
    gateway.stop();
  });
});
