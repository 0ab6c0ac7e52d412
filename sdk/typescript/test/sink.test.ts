import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";

import { status } from "@grpc/grpc-js";

import {
  Health,
  InvalidSinkError,
  Rows,
  SessionTakenOverError,
  WRITTEN,
  start,
  type AtLeastOnceSink,
  type IdempotentSink,
  type Logger,
  type Options,
  type Part,
  type Recovered,
  type Sink,
  type Transaction,
  type TwoPhaseSink,
} from "../src/index.js";
import { part, scripted, Script, transaction, welcome, type AttachSession } from "./attach_gateway.js";
import { until, within } from "./fake_gateway.js";
import { Capability, SinkMode } from "./generated.js";

const silent: Logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

const textsOf = (rows: Rows): string[] => [...rows].map(({ value }) => value?.toString() ?? "null");

/** A promise, and what resolves it. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

/** A two-phase sink in memory, which notes what it was asked. */
class MemorySink implements TwoPhaseSink {
  readonly name = "memory";
  readonly mode = "two-phase";
  readonly calls: string[] = [];
  readonly stagedParts = new Map<string, { part: Part; values: string[] }>();
  readonly preparedTransactions = new Map<string, Transaction>();
  readonly visible = new Map<string, string[]>();
  recovered: Recovered = { staged: [], prepared: [], committed: [] };

  async stage(of: Part, rows: AsyncIterable<Rows>): Promise<void> {
    const values: string[] = [];
    for await (const some of rows) values.push(...textsOf(some));
    this.calls.push(`stage ${this.key(of)}`);
    this.stagedParts.set(this.key(of), { part: of, values });
  }

  drop(of: Part): void {
    this.calls.push(`drop ${this.key(of)}`);
    this.stagedParts.delete(this.key(of));
  }

  prepare({ pipeline, batch }: Transaction, parts: readonly Part[]): void {
    this.calls.push(`prepare ${batch}`);
    const missing = parts.find((of) => !this.stagedParts.has(this.key(of)));
    if (missing) throw new Error(`${this.key(missing)} is not here`);
    const values = parts.flatMap((of) => this.stagedParts.get(this.key(of))!.values);
    this.preparedTransactions.set(`${pipeline}/${batch}`, { pipeline, batch });
    this.visible.set(`prepared ${batch}`, values);
  }

  commit({ batch }: Transaction): void {
    this.calls.push(`commit ${batch}`);
    const values = this.visible.get(`prepared ${batch}`);
    if (values) {
      this.visible.delete(`prepared ${batch}`);
      this.visible.set(String(batch), values);
    } else if (!this.visible.has(String(batch))) {
      throw new Error("unknown transaction");
    }
  }

  abort({ batch }: Transaction): void {
    this.calls.push(`abort ${batch}`);
    this.visible.delete(`prepared ${batch}`);
  }

  recover(): Recovered {
    return this.recovered;
  }

  private key({ transaction: { batch }, partition, attempt }: Part): string {
    return `${batch}/${partition}/${attempt}`;
  }
}

describe("a sink", () => {
  let gateway = scripted();
  const stopping = new Set<() => Promise<void>>();

  beforeEach(async () => {
    gateway = scripted();
    await gateway.start();
  });
  afterEach(async () => {
    gateway.stop();
    for (const stop of stopping) await stop().catch(() => undefined);
    stopping.clear();
  });

  const begin = async (
    sink: Sink,
    options: Options = {},
    more: Parameters<typeof welcome>[1] = {},
  ): Promise<{ script: Script; session: AttachSession; done: Promise<void>; stop: () => Promise<void> }> => {
    const connector = start(sink, { gateway: gateway.address, logger: silent, drainMs: 5000, ...options });
    stopping.add(() => connector.stop());
    const session = await gateway.session();
    await session.next("hello");
    welcome(session, more);
    return { script: new Script(session), session, done: connector.done, stop: () => connector.stop() };
  };

  describe("of any mode", () => {
    it("introduces itself, with what it holds from before", async () => {
      const sink = new MemorySink();
      sink.recovered = { staged: [part(3)], prepared: [transaction(3)], committed: [transaction(2)] };
      const connector = start(sink, { gateway: gateway.address, token: "secret", instance: "m-1", logger: silent });
      stopping.add(() => connector.stop());
      const session = await gateway.session();
      const hello = await session.next("hello");
      assert.deepEqual(session.metadata.get("authorization"), ["Bearer secret"]);
      assert.deepEqual([hello.sink, hello.instance, hello.mode], ["memory", "m-1", SinkMode.TWO_PHASE]);
      assert.equal(hello.sdk?.name, "headrace-typescript");
      assert.deepEqual(hello.capabilities, [Capability.HEARTBEAT]);
      assert.equal(hello.staged[0].attempt, "1/0");
      assert.equal(hello.prepared[0].batch, 3n);
      assert.equal(hello.committed[0].batch, 2n);
    });

    it("leaves after a stop, once what has arrived is answered", async () => {
      const written = gate();
      const began = gate();
      const write = (): Promise<void> => {
        began.open();
        return written.opened;
      };
      const sink: AtLeastOnceSink = { name: "s", mode: "at-least-once", write };
      const { script, session, stop } = await begin(sink);
      const id = script.start(part(1));
      script.rows(id, 0, "a");
      script.end(id, 1);
      await began.opened;
      const stopped = stop();
      written.open();
      assert.equal((await session.next("goodbye")).reason, "the connector stops");
      await within("the stop", stopped);
    });

    it("comes back after a drain, and after a lost session", async () => {
      const { session } = await begin(new MemorySink());
      session.send({ case: "drain", value: { deadlineMs: 60_000 } });
      await session.next("goodbye");
      const second = await gateway.session();
      await second.next("hello");
      second.end(status.UNAVAILABLE);
      await (await gateway.session()).next("hello");
    });

    it("ends when a newer session takes over", async () => {
      const { session, done } = await begin(new MemorySink());
      session.end(status.ABORTED);
      await assert.rejects(within("the end", done), SessionTakenOverError);
    });

    it("tries again if it cannot tell what it has stored", async () => {
      const sink = new MemorySink();
      let tries = 0;
      sink.recover = (): Recovered => {
        if (++tries < 3) throw new Error("the disk is away");
        return { staged: [], prepared: [], committed: [] };
      };
      await begin(sink, { firstBackoffMs: 1 });
      assert.equal(tries, 3);
    });

    it("says that it is busy while it reads nothing", async () => {
      const written = gate();
      const sink: AtLeastOnceSink = { name: "s", mode: "at-least-once", write: () => written.opened };
      const { script, session } = await begin(sink, { queueBytes: 1 }, { readTimeoutMs: 20 });
      const id = script.start(part(1));
      script.rows(id, 0, "a");
      script.rows(id, 1, "b");
      await session.next("busy");
      written.open();
      script.end(id, 2);
      await session.next("staged");
    });

    it("reports failures that it survived", async () => {
      const sink: AtLeastOnceSink = {
        name: "s",
        mode: "at-least-once",
        write: () => {
          throw new Error("full");
        },
      };
      const { script, session } = await begin(sink, { health: new Health() });
      await session.next("report");
      const id = script.start(part(1));
      script.rows(id, 0, "a");
      let report = await session.next("report");
      while (report.errors.length === 0) report = await session.next("report"); // a heartbeat has none
      assert.equal(report.errors[0].message, "Error: full");
    });

    for (const [what, sink, text] of [
      [
        "a name that is not allowed",
        { name: "a/b", mode: "at-least-once", write: () => undefined },
        /sink name "a\/b"/,
      ],
      ["an unknown mode", { name: "a", mode: "often", write: () => undefined }, /mode "often"/],
      ["a missing method", { name: "a", mode: "two-phase" }, /no method stage\(\)/],
    ] as const) {
      it(`with ${what} is refused at once`, () => {
        assert.throws(
          () => start(sink as never),
          (error) => error instanceof InvalidSinkError && text.test(error.message),
        );
      });
    }
  });

  describe("that writes at least once", () => {
    const written: string[] = [];
    let flushes = 0;
    const sink: AtLeastOnceSink = {
      name: "notes",
      mode: "at-least-once",
      write: (rows) => {
        assert.ok(rows.part);
        const values = textsOf(rows);
        const good = values.filter((value) => value !== "bad");
        written.push(...good);
        return good.length === values.length
          ? undefined
          : values.map((value) => (value === "bad" ? { refused: "it is bad" } : WRITTEN));
      },
      flush: () => {
        flushes += 1;
      },
    };

    beforeEach(() => {
      written.length = 0;
      flushes = 0;
    });

    it("writes rows as they arrive, and names refused rows by their place in the part", async () => {
      const { script, session } = await begin(sink);
      const [first, second] = [script.start(part(1, 0)), script.start(part(1, 1))];
      script.rows(first, 0, "a", "b");
      script.rows(second, 0, "c");
      script.rows(first, 2, "bad", "d");
      script.end(first, 4);
      const answer = await session.next("staged");
      assert.deepEqual(
        answer.refused.map(({ sequence, reason }) => [sequence, reason]),
        [[2n, "it is bad"]],
      );
      assert.deepEqual(written, ["a", "b", "c", "d"]);
      assert.equal(flushes, 1);
      script.drop(second);
      await script.prepared(transaction(1), part(1, 0));
    });

    it("fails a part whose write throws, whose outcomes do not add up, or of which rows are missing", async () => {
      let result: (() => never) | (() => []) = () => {
        throw new Error("full");
      };
      const { script } = await begin({ ...sink, write: () => result() });
      for (const text of [/Error: full/, /1 expected, 0 returned/]) {
        const id = script.start(part(1));
        script.rows(id, 0, "a");
        script.end(id, 1);
        assert.match(await script.failed(), text);
        result = () => [];
      }
      const id = script.start(part(2));
      script.end(id, 5);
      assert.match(await script.failed(), /messages of a part: 5 expected, 0 arrived/);
    });
  });

  describe("that is idempotent", () => {
    const batches = new Map<bigint, string[]>();
    const sink: IdempotentSink = {
      name: "table",
      mode: "batch-idempotent",
      check: (rows) => textsOf(rows).map((value) => (value === "bad" ? { refused: "it is bad" } : WRITTEN)),
      async write({ batch }, rows) {
        const values: string[] = [];
        for await (const some of rows) values.push(...textsOf(some));
        if (!batches.has(batch)) batches.set(batch, values);
      },
      last: () => [...batches.keys()].at(-1),
      pipelines: () => ["p"],
    };

    beforeEach(() => {
      batches.clear();
    });

    it("writes the parts that count in one step at the vote, without refused messages", async () => {
      const { script } = await begin(sink);
      assert.deepEqual(await script.staged(part(1, 0), "a", "bad", "b"), [1]);
      assert.deepEqual(await script.staged(part(1, 1, "1/0"), "lost"), []);
      assert.deepEqual(await script.staged(part(1, 1, "1/1"), "c"), []);
      assert.equal(batches.size, 0);
      await script.prepared(transaction(1), part(1, 0), part(1, 1, "1/1"));
      assert.deepEqual(batches.get(1n), ["a", "b", "c"]);
    });

    it("does not write a batch again that it has written, and lists the last one when it comes back", async () => {
      const { script, session } = await begin(sink);
      await script.staged(part(1), "a");
      await script.prepared(transaction(1), part(1));
      await script.staged(part(1, 0, "2/0"), "other");
      await script.prepared(transaction(1), part(1, 0, "2/0"));
      assert.deepEqual(batches.get(1n), ["a"]);
      session.end(status.UNAVAILABLE);
      const hello = await (await gateway.session()).next("hello");
      assert.deepEqual(
        hello.committed.map(({ batch }) => batch),
        [1n],
      );
    });

    it("votes against a transaction of which a part is missing, or that cannot be written, which may be tried again", async () => {
      let fails = true;
      const flaky: IdempotentSink = {
        ...sink,
        write: (of, rows) => {
          if (fails) throw new Error("locked");
          return sink.write(of, rows);
        },
      };
      const { script } = await begin(flaky);
      await script.staged(part(1), "a");
      script.prepare(transaction(1), part(1), part(1, 1));
      assert.match(await script.failed(), /partition 1, attempt 1\/0, is no longer here/);
      script.prepare(transaction(1), part(1));
      assert.match(await script.failed(), /writing: Error: locked/);
      fails = false;
      await script.prepared(transaction(1), part(1));
      assert.deepEqual(batches.get(1n), ["a"]);
    });

    it("holds more than fits into memory in a file", async () => {
      const { script } = await begin(sink, { holdBytes: 100 });
      const values = Array.from({ length: 50 }, (_, i) => `value ${i}`);
      const id = script.start(part(1));
      for (const [i, value] of values.entries()) script.rows(id, i, value);
      script.end(id, values.length);
      await script.session.next("staged");
      await script.prepared(transaction(1), part(1));
      assert.deepEqual(batches.get(1n), values);
    });

    it("forgets aborted parts", async () => {
      const { script } = await begin(sink);
      await script.staged(part(1), "a");
      script.abort(transaction(1));
      script.prepare(transaction(1), part(1));
      assert.match(await script.failed(), /no longer here/);
    });
  });

  describe("with two phases", () => {
    it("stages, votes and commits", async () => {
      const sink = new MemorySink();
      const { script } = await begin(sink);
      await script.staged(part(1, 0), "a", "b");
      await script.staged(part(1, 1), "c");
      await script.staged(part(1, 2));
      await script.prepared(transaction(1), part(1, 0), part(1, 1), part(1, 2));
      await script.committed(transaction(1));
      await script.committed(transaction(1));
      assert.deepEqual(sink.visible.get("1"), ["a", "b", "c"]);
    });

    it("stages several parts at the same time, and drops parts whose task has failed", async () => {
      const sink = new MemorySink();
      const { script, session } = await begin(sink);
      const [first, second] = [script.start(part(1, 0)), script.start(part(1, 1))];
      script.rows(second, 0, "b");
      script.rows(first, 0, "a");
      script.end(second, 1);
      assert.equal((await session.next("staged")).id, second);
      script.drop(first);
      await until("the first part is dropped", () => sink.calls.includes("drop 1/0/1/0"));
      script.rows(first, 1, "late");
      script.end(first, 2);
      await script.prepared(transaction(1), part(1, 1));
    });

    it("drops a part whose staging fails, and says why", async () => {
      const sink = new MemorySink();
      sink.stage = async (_, rows): Promise<void> => {
        for await (const some of rows) throw new Error(`cannot store ${textsOf(some).join()}`);
      };
      const { script } = await begin(sink);
      const id = script.start(part(1));
      script.rows(id, 0, "a");
      script.end(id, 1);
      assert.equal(await script.failed(), "Error: cannot store a");
      assert.deepEqual(sink.calls, ["drop 1/0/1/0"]);
    });

    it("does not count a part as staged whose rows were not all consumed", async () => {
      const sink = new MemorySink();
      sink.stage = (): Promise<void> => Promise.resolve();
      const { script } = await begin(sink);
      const id = script.start(part(1));
      script.rows(id, 0, "a");
      script.end(id, 1);
      assert.match(await script.failed(), /stage\(\) returned before the end of the part: it took 0 of its messages/);
    });

    it("votes against what it does not have, and does not claim a commit that it does not know", async () => {
      const { script } = await begin(new MemorySink());
      script.prepare(transaction(1), part(1));
      assert.match(await script.failed(), /preparing: Error: 1\/0\/1\/0 is not here/);
      script.commit(transaction(9));
      assert.match(await script.failed(), /committing: Error: unknown transaction/);
    });

    it("an abort reaches a part that is being staged, and needs no answer", async () => {
      const sink = new MemorySink();
      const { script, session } = await begin(sink);
      const id = script.start(part(1));
      script.rows(id, 0, "a");
      script.abort(transaction(1));
      await until("the abort", () => sink.calls.includes("abort 1"));
      assert.deepEqual(sink.calls, ["drop 1/0/1/0", "abort 1"]);
      await script.staged(part(2), "b");
      assert.ok(!session.kinds.includes("failed"));
    });

    it("decisions of one transaction wait for its parts, and later parts for the decisions", async () => {
      const sink = new MemorySink();
      const held = gate();
      const stage = sink.stage.bind(sink);
      sink.stage = async (of, rows): Promise<void> => {
        await stage(of, rows);
        if (of.transaction.batch === 1n && of.attempt === "1/0") await held.opened;
      };
      const { script, session } = await begin(sink);
      const id = script.start(part(1));
      script.rows(id, 0, "a");
      script.end(id, 1);
      await until("the first part", () => sink.calls.length === 1);
      script.abort(transaction(1));
      const again = script.start(part(1, 0, "2/0"));
      script.rows(again, 0, "b");
      script.end(again, 1);
      await script.staged(part(2), "c"); // So the abort has arrived, too.
      held.open();
      assert.equal((await session.next("staged")).id, again);
      assert.deepEqual(sink.calls, ["stage 1/0/1/0", "stage 2/0/1/0", "abort 1", "stage 1/0/2/0"]);
    });

    it("rows of one part wait in a file while another part needs its own", async () => {
      const sink = new MemorySink();
      const held = gate();
      const stage = sink.stage.bind(sink);
      sink.stage = async (of, rows): Promise<void> => {
        if (of.partition === 0) await held.opened;
        await stage(of, rows);
        if (of.partition === 1) held.open();
      };
      const { script, session } = await begin(sink, { queueBytes: 1000 });
      const [first, second] = [script.start(part(1, 0)), script.start(part(1, 1))];
      const values = Array.from({ length: 100 }, (_, i) => `value ${i}`);
      for (const [i, value] of values.entries()) script.rows(first, i, value);
      script.end(first, values.length);
      script.rows(second, 0, "b");
      script.end(second, 1);
      await session.next("staged");
      await session.next("staged");
      assert.deepEqual(sink.stagedParts.get("1/0/1/0")!.values, values);
    });

    it("no method runs for a session that has ended", async () => {
      const sink = new MemorySink();
      let error: unknown;
      sink.stage = async (_, rows): Promise<void> => {
        try {
          for await (const some of rows) assert.ok(some.length);
        } catch (thrown) {
          error = thrown;
          throw thrown;
        }
      };
      const { script, session } = await begin(sink);
      const id = script.start(part(1));
      script.rows(id, 0, "a");
      await until("the sink waits for rows", () => session.kinds.includes("hello"));
      session.end(status.UNAVAILABLE);
      await (await gateway.session()).next("hello");
      if (error !== undefined) assert.match((error as Error).message, /the part was dropped/);
    });
  });
});

describe("rows", () => {
  it("have columns, and messages with every field", () => {
    const rows = Rows.of(
      { value: "a", key: "k", eventTime: 5n, messageId: "i", headers: [["h", null]] },
      { value: null, key: null },
    );
    assert.equal(rows.length, 2);
    assert.equal(rows.first, 0n);
    assert.deepEqual([...rows.values.lengths], [1, 0xffff_ffff]);
    assert.deepEqual(Buffer.from(rows.keys!.data).toString(), "k");
    assert.deepEqual([...rows.eventTimes!], [5n, -(2n ** 63n)]);
    assert.deepEqual(
      [...rows],
      [
        {
          value: Buffer.from("a"),
          key: Buffer.from("k"),
          eventTime: 5n,
          messageId: "i",
          headers: [["h", null]],
          sequence: 0n,
        },
        { value: null, key: null, eventTime: undefined, messageId: undefined, headers: [], sequence: 1n },
      ],
    );
  });
});
