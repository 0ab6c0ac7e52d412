import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { ReadableStream } from "node:stream/web";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, it } from "node:test";

import { status } from "@grpc/grpc-js";

import {
  CLOSE,
  GONE,
  GatewayRefusedError,
  Health,
  IDLE,
  InvalidMessageError,
  InvalidSourceError,
  MessageTooLargeError,
  NotPermittedError,
  PositionLostError,
  SessionTakenOverError,
  SourceFailedError,
  start,
  type Batch,
  type Item,
  type Logger,
  type Message,
  type Options,
  type ReadContext,
  type RedeliveringSource,
  type ReplayableSource,
} from "../src/index.js";
import { until, within } from "./fake_gateway.js";
import { Capability, ConnectorState, RejectReason, SourceKind } from "./generated.js";
import { CommittingGateway, scripted, texts, welcome, type IngestSession, type Limits } from "./ingest_gateway.js";

const silent: Logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** A source of numbered messages, which ends. */
function numbers(count: number, more: Partial<ReplayableSource> = {}): ReplayableSource {
  return {
    name: "numbers",
    *read(_partition, { position }): Generator<Item> {
      for (let n = Number(position?.sequence ?? 0n) + 1; n <= count; n++) yield { value: `value ${n}`, sequence: n };
    },
    ...more,
  };
}

/** Waits until the signal is aborted. */
async function forever({ signal }: Pick<ReadContext, "signal">): Promise<void> {
  await sleep(1 << 30, undefined, { signal }).catch(() => undefined);
}

const range = (first: number, last: number): number[] => Array.from({ length: last - first + 1 }, (_, i) => first + i);
const valuesOf = (first: number, last: number): string[] => range(first, last).map((n) => `value ${n}`);

describe("a source and a gateway that commits", () => {
  let gateway: CommittingGateway;

  const serve = async (source: ReplayableSource, limits: Limits = {}): Promise<void> => {
    gateway = new CommittingGateway(limits);
    await gateway.fake.start();
    await within("the end of the source", start(source, { gateway: gateway.fake.address, logger: silent }).done);
    assert.deepEqual(gateway.violations, []);
  };

  afterEach(() => {
    gateway.fake.stop();
  });

  it("everything arrives once and in order, and the connector ends once it is acknowledged", async () => {
    await serve(numbers(20_000));
    assert.deepEqual(gateway.values("numbers/0"), valuesOf(1, 20_000));
    assert.ok(gateway.streams.get("numbers/0")!.isEnded);
    assert.equal(gateway.fake.sessions.at(-1)!.kinds.at(-1), "goodbye");
  });

  it("an async generator works as well, and so does a batch", async () => {
    await serve({
      name: "numbers",
      async *read() {
        await sleep(1);
        yield { value: "value 1", sequence: 1n };
        yield { values: ["value 2", Buffer.from("value 3")], sequences: { first: 2 } } satisfies Batch;
        const data = Buffer.from("value 4value 5");
        yield { values: { data, lengths: Uint32Array.of(7, 7) }, sequences: [7, 9n] } satisfies Batch;
      },
    });
    assert.deepEqual(gateway.values("numbers/0"), valuesOf(1, 5));
    assert.deepEqual(
      gateway.streams.get("numbers/0")!.rows.map(({ sequence }) => sequence),
      [1n, 2n, 3n, 7n, 9n],
    );
  });

  for (const [what, streamOf] of [
    ["a Readable of Node.js", (items: Item[]) => Readable.from(items)],
    ["a ReadableStream", (items: Item[]) => ReadableStream.from(items)],
  ] as const) {
    it(`${what} works as well`, async () => {
      const items = valuesOf(1, 3).map((value) => ({ value }));
      await serve({ name: "numbers", read: () => streamOf(items) as AsyncIterable<Item> });
      assert.deepEqual(gateway.values("numbers/0"), valuesOf(1, 3));
    });
  }

  it("a message may end its frame, with its cursor", async () => {
    const cursor = Buffer.from("here");
    await serve({
      name: "numbers",
      read: () => [{ value: "a", cursor, endsFrame: true }, { value: "b" }, { value: "c" }],
    });
    const frames = gateway.fake.sessions[0].received.flatMap(({ message }) =>
      message.case === "frame" ? [message.value] : [],
    );
    assert.deepEqual(
      frames.map((frame) => texts(frame)),
      [["a"], ["b", "c"]],
    );
    assert.deepEqual(Buffer.from(frames[0].cursor!), cursor);
  });

  it("every column arrives as it was yielded", async () => {
    const message: Message = {
      value: null,
      key: "clé",
      eventTime: new Date(1_700_000_000_123),
      messageId: "id-1",
      headers: [
        ["a", "1"],
        ["a", null],
      ],
      sequence: 2n ** 63n - 2n,
      cursor: Buffer.from("c"),
    };
    await serve({ name: "numbers", read: () => [message, { value: "", eventTime: -1n }] });
    const [first, second] = gateway.streams.get("numbers/0")!.rows;
    assert.deepEqual(first, {
      value: null,
      key: Buffer.from("clé"),
      eventTime: 1_700_000_000_123_000n,
      messageId: "id-1",
      headers: [
        ["a", Buffer.from("1")],
        ["a", null],
      ],
      sequence: 2n ** 63n - 2n,
    });
    assert.equal(second.sequence, 2n ** 63n - 1n);
    assert.equal(second.eventTime, -1n);
    assert.equal(second.key, null);
    assert.deepEqual(second.value, Buffer.alloc(0));
  });

  it("many partitions share a window of a few messages, and no frame overruns it", async () => {
    const partitions = ["a", "b", "c", "d"];
    await serve(numbers(500, { partitions: () => partitions }), { credit: { bytes: 4000n, messages: 16n } });
    for (const partition of partitions) assert.deepEqual(gateway.values(`numbers/${partition}`), valuesOf(1, 500));
  });

  it("frames do not become small when credit is short", async () => {
    // No frame is cut by time, however slow the source is.
    await serve(numbers(20_000), { credit: { bytes: BigInt(64 << 20), messages: 1000n }, pace: { lingerMs: 60_000 } });
    assert.equal(gateway.frames, 80);
  });

  it("a message larger than the window is sent after a request for credit", async () => {
    const large = "x".repeat(100_000);
    await serve(
      { name: "numbers", read: () => [{ value: "small" }, { value: large }] },
      { credit: { bytes: 1000n, messages: 10n } },
    );
    assert.deepEqual(gateway.values("numbers/0"), ["small", large]);
  });

  it("a lost session continues from where the gateway says", async () => {
    gateway = new CommittingGateway();
    gateway.endAfter = 5000;
    await gateway.fake.start();
    const source = numbers(20_000, { partitions: () => ["0", "1"] });
    await within("the end", start(source, { gateway: gateway.fake.address, logger: silent }).done);
    assert.equal(gateway.fake.sessions.length, 2);
    for (const name of ["numbers/0", "numbers/1"]) assert.deepEqual(gateway.values(name), valuesOf(1, 20_000));
    assert.deepEqual(gateway.violations, []);
  });

  it("a batch larger than a frame is cut to the gateway's limits", async () => {
    const values = valuesOf(1, 3000);
    await serve(
      { name: "numbers", read: () => [{ values, keys: values }] },
      { maxFrameMessages: 1000, maxFrameBytes: 9000n },
    );
    assert.deepEqual(gateway.values("numbers/0"), values);
    assert.ok(gateway.frames > 3);
  });

  it("partitions that end take turns if there are more than streams allowed", async () => {
    const partitions = range(1, 12).map(String);
    await serve(numbers(10, { takesTurns: true, partitions: () => partitions }), { maxStreams: 5 });
    for (const partition of partitions) assert.deepEqual(gateway.values(`numbers/${partition}`), valuesOf(1, 10));
  });
});

describe("a source and a gateway that the test speaks for", () => {
  let gateway = scripted();
  const stopping = new Set<() => Promise<void>>();

  beforeEach(async () => {
    gateway = scripted();
    await gateway.start();
  });
  afterEach(async () => {
    gateway.stop(); // First, so that nobody waits for acknowledgements.
    for (const stop of stopping) await stop().catch(() => undefined);
    stopping.clear();
  });

  /** Starts a source, and accepts its session. */
  const begin = async (
    source: Parameters<typeof start>[0],
    options: Options = {},
    limits: Limits = {},
  ): Promise<{ session: IngestSession; done: Promise<void>; stop: () => Promise<void> }> => {
    const connector = start(source, { gateway: gateway.address, logger: silent, drainMs: 5000, ...options });
    stopping.add(() => connector.stop());
    const session = await gateway.session();
    await session.next("hello");
    welcome(session, limits);
    return { session, done: connector.done, stop: () => connector.stop() };
  };

  it("uses a replaced token in the next session", async () => {
    const folder = mkdtempSync(join(tmpdir(), "headrace-"));
    const tokenFile = join(folder, "token");
    writeFileSync(tokenFile, "first\n");
    const options = { gateway: gateway.address, tokenFile, firstBackoffMs: 1, maxBackoffMs: 5, logger: silent };
    const connector = start(numbers(1), options);
    stopping.add(() => connector.stop());
    for (const [token, content, ends] of [
      ["first", "second\n", status.UNAVAILABLE],
      ["second", "", status.UNAVAILABLE],
      ["second", "third\n", status.UNAUTHENTICATED],
      ["third", "third\n", status.UNAUTHENTICATED],
    ] as const) {
      const session = await gateway.session();
      await session.next("hello");
      assert.deepEqual(session.metadata.get("authorization"), [`Bearer ${token}`]);
      writeFileSync(tokenFile, content);
      session.end(ends);
    }
    await assert.rejects(connector.done, GatewayRefusedError);
    rmSync(folder, { recursive: true });
  });

  it("introduces itself", async () => {
    const source = numbers(1, { connector: "counter", version: "1.2" });
    const connector = start(source, { gateway: gateway.address, token: "secret", instance: "n-1", logger: silent });
    stopping.add(() => connector.stop());
    const session = await gateway.session();
    const hello = await session.next("hello");
    assert.deepEqual(session.metadata.get("authorization"), ["Bearer secret"]);
    assert.equal(hello.protocolVersion, 1);
    assert.equal(hello.connector, "counter");
    assert.equal(hello.connectorVersion, "1.2");
    assert.equal(hello.instance, "n-1");
    assert.deepEqual(hello.capabilities, [
      Capability.PACE,
      Capability.HEARTBEAT,
      Capability.FRAMES,
      Capability.CURSORS,
    ]);
    assert.equal(hello.sdk?.name, "headrace-typescript");
    assert.equal(hello.sdk?.language, "typescript");
  });

  it("reads nothing before its stream is opened, and then from where the gateway says", async () => {
    const contexts: ReadContext[] = [];
    const { session, done } = await begin({
      name: "numbers",
      *read(_partition, context) {
        contexts.push(context);
        yield { value: "value" };
      },
    });
    const open = await session.next("openStream");
    assert.equal(open.stream, "numbers/0");
    assert.equal(open.kind, SourceKind.REPLAYABLE);
    assert.equal(contexts.length, 0);
    const resume = { sequence: 2n ** 60n, cursor: Buffer.from("there") };
    session.send({ case: "streamOpened", value: { streamId: 1, resume } });
    const frame = await session.next("frame");
    assert.equal(contexts[0].position!.sequence, 2n ** 60n);
    assert.deepEqual(Buffer.from(contexts[0].position!.cursor!), Buffer.from("there"));
    assert.equal(frame.firstSequence, 2n ** 60n + 1n);
    await session.next("closeStream");
    session.send({ case: "ack", value: { streams: [{ streamId: 1, position: { sequence: 2n ** 60n + 1n } }] } });
    await session.next("goodbye");
    await within("the end", done);
  });

  it("acknowledgements reach the source in order, also those from before", async () => {
    const seen: bigint[] = [];
    const { session } = await begin(
      numbers(3, {
        acknowledged: (_, { sequence }) => {
          seen.push(sequence);
        },
        async *read(_partition, context) {
          seen.push(-1n);
          yield { value: "a", sequence: 8 };
          yield { value: "b", sequence: 9 };
          await forever(context);
        },
      }),
    );
    await session.next("openStream");
    const position = { sequence: 7n };
    session.send({ case: "streamOpened", value: { streamId: 1, resume: position, acknowledged: position } });
    await session.next("frame");
    for (const sequence of [8n, 7n, 9n]) {
      session.send({ case: "ack", value: { streams: [{ streamId: 1, position: { sequence } }] } });
    }
    await until("the acknowledgements", () => seen.at(-1) === 9n);
    assert.deepEqual(
      seen.filter((sequence) => sequence !== 8n),
      [7n, -1n, 9n],
    );
  });

  for (const [what, resume, expected] of [
    ["that ignores its position is named, and what it sends again counted", { sequence: 7n }, ["7"]],
    ["that goes back to its cursor is not named", { sequence: 7n, cursor: Buffer.from("0") }, []],
  ] as const) {
    it(`a source ${what}`, async () => {
      const said: string[] = [];
      const warn: Logger["warn"] = (message, fields) => {
        said.push(JSON.stringify([message, fields?.["stream"], fields?.["messages"]]));
      };
      const { session } = await begin(
        {
          name: "numbers",
          async *read(_partition, context) {
            for (let sequence = 1; sequence <= 10; sequence++) yield { value: "a", sequence };
            await forever(context);
          },
        },
        { logger: { ...silent, warn } },
      );
      await session.next("openStream");
      session.send({ case: "streamOpened", value: { streamId: 1, resume } });
      for (let sent = 0; sent < 10;) sent += (await session.next("frame")).count;
      const ignores = "read ignores its position: it yields what was received before; begin after position.sequence";
      const lines = expected.flatMap((messages) => [
        JSON.stringify([ignores, "numbers/0", undefined]),
        JSON.stringify(["messages were sent again", "numbers/0", Number(messages)]),
      ]);
      await until("the lines", () => said.length >= lines.length);
      assert.deepEqual(said, lines);
    });
  }

  it("a cursor moves without a message, and is acknowledged at the same sequence", async () => {
    const seen: string[] = [];
    const { session } = await begin(
      {
        name: "numbers",
        acknowledged: (_, { sequence, cursor }) => {
          seen.push(`${sequence} ${cursor ? Buffer.from(cursor).toString() : ""}`);
        },
        async *read(_partition, context) {
          yield { values: [], cursor: Buffer.from("idle") };
          await forever(context);
        },
      },
      {},
      { capabilities: [Capability.CURSORS] },
    );
    await session.next("openStream");
    const position = { sequence: 41n };
    session.send({ case: "streamOpened", value: { streamId: 1, resume: position, acknowledged: position } });
    const frame = await session.next("frame");
    assert.equal(frame.count, 0);
    assert.equal(frame.firstSequence, 41n);
    assert.equal(Buffer.from(frame.cursor!).toString(), "idle");
    const moved = { sequence: 41n, cursor: Buffer.from("idle"), moves: 1n };
    session.send({ case: "ack", value: { streams: [{ streamId: 1, position: moved }] } });
    await until("the acknowledgement", () => seen.length === 2);
    assert.deepEqual(seen, ["41 ", "41 idle"]);
  });

  it("a cursor above the limit of the gateway ends the connector", async () => {
    const { session, done } = await begin(
      {
        name: "numbers",
        async *read(_partition, context) {
          yield { value: "a", cursor: Buffer.alloc(101) };
          await forever(context);
        },
      },
      {},
      { maxCursorBytes: 100 },
    );
    await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId: 1 } });
    await session.next("goodbye");
    await assert.rejects(done, /the cursor of sequence 1 has 101 bytes, and the gateway accepts at most 100/);
  });

  it("a stop sends what was read, waits for its acknowledgement, and aborts the signal", async () => {
    let isRead = false;
    let isAborted = false;
    const { session, stop } = await begin(
      {
        name: "numbers",
        async *read(_partition, context) {
          try {
            yield { value: "a" };
            isRead = true;
            await forever(context);
          } finally {
            isAborted = context.signal.aborted;
          }
        },
      },
      {},
      { pace: { lingerMs: 60_000 } },
    );
    await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId: 1 } });
    await until("the message was read", () => isRead);
    const stopped = stop();
    const frame = await session.next("frame");
    assert.deepEqual(texts(frame), ["a"]);
    assert.ok(!session.kinds.includes("goodbye"));
    session.send({ case: "ack", value: { streams: [{ streamId: 1, position: { sequence: 1n } }] } });
    const goodbye = await session.next("goodbye");
    assert.equal(goodbye.reason, "the connector stops");
    await within("the stop", stopped);
    assert.ok(isAborted);
  });

  it("a rejected stream is opened again under a new id", async () => {
    let reads = 0;
    const { session } = await begin({
      name: "numbers",
      async *read(_partition, context) {
        reads += 1;
        yield { value: `read ${reads}` };
        await forever(context);
      },
    });
    await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId: 1 } });
    await session.next("frame");
    session.send({ case: "reject", value: { streamId: 1, reason: RejectReason.REOPEN, message: "moved" } });
    const second = await session.next("openStream");
    assert.equal(second.streamId, 2);
    session.send({ case: "reject", value: { streamId: 2, reason: RejectReason.OWNED, retryAfterMs: 1 } });
    const third = await session.next("openStream");
    assert.equal(third.streamId, 3);
    session.send({ case: "streamOpened", value: { streamId: 3 } });
    assert.deepEqual(texts(await session.next("frame")), ["read 2"]);
  });

  it("a stream that the token does not permit ends the connector", async () => {
    const { session, done } = await begin(numbers(1));
    await session.next("openStream");
    session.send({ case: "reject", value: { streamId: 1, reason: RejectReason.NOT_PERMITTED, message: "no right" } });
    await assert.rejects(within("the end", done), (error) => {
      assert.ok(error instanceof NotPermittedError);
      assert.match(error.message, /numbers\/0: no right/);
      return true;
    });
  });

  it("a lost position is reported, and the loss accepted", async () => {
    const positions: (bigint | undefined)[] = [];
    const { session } = await begin({
      name: "numbers",
      *read(_partition, { position }) {
        positions.push(position?.sequence);
        if (position) throw new PositionLostError("pruned", { earliest: 20 });
        yield { value: "value", sequence: 20 };
      },
    });
    await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId: 1, resume: { sequence: 5n } } });
    const lost = await session.next("positionLost");
    assert.deepEqual([lost.streamId, lost.earliestSequence, lost.reason], [1, 20n, "pruned"]);
    const open = await session.next("openStream");
    session.send({ case: "reject", value: { streamId: 1, reason: RejectReason.REOPEN } });
    session.send({
      case: "streamOpened",
      value: { streamId: open.streamId, resume: { sequence: 5n }, skipLost: true },
    });
    assert.equal((await session.next("frame", ["openStream"])).firstSequence, 20n);
    assert.deepEqual(positions, [5n, undefined]);
  });

  it("a draining gateway is left once everything is acknowledged, and the connector comes back", async () => {
    const { session } = await begin({
      name: "numbers",
      async *read(_partition, context) {
        yield { value: "a", sequence: 1 };
        await forever(context);
      },
    });
    await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId: 1 } });
    await session.next("frame");
    session.send({ case: "drain", value: { deadlineMs: 60_000, reason: "as the test says" } });
    session.send({ case: "ack", value: { streams: [{ streamId: 1, position: { sequence: 1n } }] } });
    assert.equal((await session.next("goodbye")).reason, "the gateway asked to reconnect");
    session.end();
    await (await gateway.session()).next("hello");
  });

  it("a take-over ends the connector", async () => {
    const { session, done } = await begin(numbers(1));
    await session.next("openStream");
    session.end(status.ABORTED, "session s2 took over");
    await assert.rejects(within("the end", done), SessionTakenOverError);
  });

  it("a refusal names the gateway's reason", async () => {
    const { session, done } = await begin(numbers(1));
    session.end(status.RESOURCE_EXHAUSTED, "too many open streams");
    await assert.rejects(within("the end", done), (error) => {
      assert.ok(error instanceof GatewayRefusedError);
      assert.equal(error.status, "RESOURCE_EXHAUSTED");
      assert.match(error.message, /too many open streams/);
      return true;
    });
  });

  it("a gateway that answers Hello with something else is refused", async () => {
    const connector = start(numbers(1), { gateway: gateway.address, logger: silent });
    stopping.add(() => connector.stop());
    const session = await gateway.session();
    await session.next("hello");
    session.send({ case: "pace", value: {} });
    await assert.rejects(within("the end", connector.done), GatewayRefusedError);
  });

  it("a gateway that does not answer Hello is left and tried again", async () => {
    const options = { gateway: gateway.address, logger: silent, welcomeMs: 20, firstBackoffMs: 1 };
    const connector = start(numbers(1), options);
    stopping.add(() => connector.stop());
    for (let i = 0; i < 3; i++) await gateway.session();
  });

  it("tokens are settled once each, in order, and only in their session", async () => {
    const settled: number[][] = [];
    const positions: unknown[] = [];
    const source: RedeliveringSource<number> = {
      name: "jobs",
      kind: "redelivering",
      async *read(_partition, context) {
        positions.push(context.position);
        for (let token = 1; token <= 3; token++) yield { value: `job ${token}`, token };
        yield { values: ["job 4", "job 5"], tokens: [4, 5] };
        await forever(context);
      },
      settle: (_, tokens) => {
        settled.push([...tokens]);
      },
    };
    const { session } = await begin(source);
    const open = await session.next("openStream");
    assert.equal(open.kind, SourceKind.REDELIVERING);
    session.send({ case: "streamOpened", value: { streamId: 1, epoch: 7n } });
    const frame = await session.next("frame");
    assert.equal(frame.firstSequence, 1n);
    const acknowledge = (epoch: bigint, sequence: bigint): void => {
      session.send({ case: "ack", value: { streams: [{ streamId: 1, position: { epoch, sequence } }] } });
    };
    acknowledge(6n, 5n);
    acknowledge(7n, 2n);
    await until("two tokens", () => settled.length === 1);
    acknowledge(7n, 4n);
    await until("four tokens", () => settled.length === 2);
    assert.deepEqual(settled, [
      [1, 2],
      [3, 4],
    ]);
    session.end(status.UNAVAILABLE);
    const again = await gateway.session();
    await again.next("hello");
    welcome(again);
    await again.next("openStream");
    const earlier = { epoch: 7n, sequence: 4n, cursor: Buffer.from("this queue") };
    again.send({ case: "streamOpened", value: { streamId: 1, epoch: 8n, earlier } });
    assert.equal((await again.next("frame")).firstSequence, 1n);
    assert.deepEqual(positions, [undefined, earlier]);
    again.send({ case: "ack", value: { streams: [{ streamId: 1, position: { epoch: 8n, sequence: 1n } }] } });
    await until("the first token again", () => settled.length === 3);
    assert.deepEqual(settled[2], [1]);
  });

  it("says where streams begin, and the same again to a gateway that was restarted", async () => {
    let asked = 0;
    const source = numbers(1, {
      partitions: () => ["a", "b"],
      starts: () => {
        asked += 1;
        return { a: { sequence: 40n, cursor: Buffer.from("c") } };
      },
    });
    const { session } = await begin(source);
    assert.ok((await session.next("openStream")).choosesStart);
    await session.next("openStream");
    session.send({ case: "startsWanted", value: { streamId: 1 } });
    const check = async (of: IngestSession): Promise<void> => {
      const { streams } = await of.next("starts");
      assert.deepEqual(
        streams.map(({ streamId, position }) => [streamId, position?.sequence]),
        [
          [1, 40n],
          [2, undefined],
        ],
      );
    };
    await check(session);
    session.end(status.UNAVAILABLE);
    const again = await gateway.session();
    await again.next("hello");
    welcome(again);
    await again.next("openStream");
    await again.next("openStream");
    again.send({ case: "startsWanted", value: { streamId: 2 } });
    await check(again);
    assert.equal(asked, 1);
  });

  it("a message that is too large goes to its handler, and the stream continues", async () => {
    const left: [Message, InvalidMessageError][] = [];
    const { session } = await begin(
      {
        name: "numbers",
        *read() {
          yield { value: "a", sequence: 1 };
          yield { value: "x".repeat(3000), sequence: 2 };
          yield { values: ["b", "y".repeat(3000), "c"], sequences: { first: 3 } };
          yield { value: "d", eventTime: new Date("+010000-01-01T00:00:00Z"), sequence: 6 };
          yield { value: "e", sequence: 7 };
        },
        unsendable: (_, message, error) => {
          left.push([message, error]);
        },
      },
      {},
      { maxFrameBytes: 2000n },
    );
    await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId: 1 } });
    await session.next("closeStream");
    const frames = session.received.flatMap(({ message }) => (message.case === "frame" ? [message.value] : []));
    assert.deepEqual(texts(...frames), ["a", "b", "c", "e"]);
    assert.deepEqual(
      left.map(([message]) => message.sequence),
      [2, 4, 6],
    );
    assert.ok(left[0][1] instanceof MessageTooLargeError);
    assert.match(left[0][1].message, /message 2 makes a frame of 30\d\d bytes, and the gateway accepts at most 2000/);
    assert.match(left[2][1].message, /event time \d+ is not within the years 1 to 9999/);
  });

  it("without a handler it ends the connector, after what was read before is sent", async () => {
    const { session, done } = await begin({ name: "numbers", read: () => [{ value: "a" }, { value: 5 as never }] });
    await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId: 1 } });
    assert.deepEqual(texts(await session.next("frame")), ["a"]);
    session.send({ case: "ack", value: { streams: [{ streamId: 1, position: { sequence: 1n } }] } });
    await session.next("goodbye");
    await assert.rejects(within("the end", done), (error) => {
      assert.ok(error instanceof InvalidMessageError);
      assert.equal(error.message, "stream numbers/0: a value is number, and must be a Uint8Array, a string or null");
      return true;
    });
  });

  for (const [what, items, text] of [
    [
      "a sequence that steps back",
      [
        { value: "a", sequence: 2 },
        { value: "b", sequence: 2n },
      ],
      /sequence 2 comes after 2/,
    ],
    ["an unsafe sequence", [{ value: "a", sequence: 2 ** 53 }], /use a bigint above Number.MAX_SAFE_INTEGER/],
    [
      "columns of different lengths",
      [{ values: ["a", "b"], keys: ["a"] }],
      /keys of a batch: 2 expected, as many as values, 1 given/,
    ],
    ["packed lengths that do not add up", [{ values: { data: Buffer.from("a"), lengths: Uint32Array.of(2) } }], /./],
    ["something else", [5], /a message, a batch, IDLE, CLOSE or GONE is needed/],
  ] as const) {
    it(`${what} ends the connector with an error that names the stream`, async () => {
      const { session, done } = await begin(
        { name: "numbers", read: () => items as unknown as Item[] },
        { drainMs: 1 },
      );
      await session.next("openStream");
      session.send({ case: "streamOpened", value: { streamId: 1 } });
      await assert.rejects(within("the end", done), (error) => {
        assert.match((error as Error).message, /^stream numbers\/0: /);
        assert.match((error as Error).message, text);
        return true;
      });
    });
  }

  for (const method of ["read", "acknowledged", "partitions", "backlog"] as const) {
    it(`an error in ${method}() ends the connector, with its cause`, async () => {
      const cause = new Error("broken");
      const fail = (): never => {
        throw cause;
      };
      const { session, done } = await begin(numbers(1, { read: () => [{ value: "a" }, IDLE], [method]: fail }), {
        drainMs: 1,
      });
      if (method !== "partitions") {
        await session.next("openStream");
        const position = { sequence: 1n };
        session.send({ case: "streamOpened", value: { streamId: 1, resume: position, acknowledged: position } });
      }
      await assert.rejects(within("the end", done), (error) => {
        assert.ok(error instanceof SourceFailedError);
        assert.equal(error.cause, cause);
        assert.match(error.message, /broken/);
        return true;
      });
    });
  }

  it("an idle source reports that it has caught up, with the last sequence", async () => {
    const { session } = await begin({
      name: "numbers",
      *read() {
        yield { value: "a", sequence: 41 };
        for (;;) yield IDLE;
      },
    });
    await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId: 1 } });
    await session.next("frame");
    const backlog = await session.next("backlog");
    assert.deepEqual([backlog.latestSequence, backlog.messages, backlog.bytes], [41n, 0n, 0n]);
  });

  it("small frames that wait for credit share a message, if the gateway takes them", async () => {
    for (const capabilities of [[Capability.FRAMES], []]) {
      const { session } = await begin(
        numbers(3, { partitions: () => ["a", "b", "c"] }),
        {},
        { credit: { bytes: 0n, messages: 0n }, capabilities },
      );
      for (const streamId of [1, 2, 3]) {
        await session.next("openStream");
        session.send({ case: "streamOpened", value: { streamId } });
      }
      for (let asked = 0; asked < 3; asked++) await session.next("creditRequest");
      session.send({ case: "credit", value: { bytes: 1n << 20n, messages: 100n } });
      for (let closed = 0; closed < 3; closed++) await session.next("closeStream");
      const counts = new Map<number, number>();
      let shared = 0;
      for (const { message } of session.received) {
        if (message.case === "frames") shared += 1;
        const frames =
          message.case === "frames" ? message.value.frames : message.case === "frame" ? [message.value] : [];
        for (const frame of frames) counts.set(frame.streamId, (counts.get(frame.streamId) ?? 0) + frame.count);
      }
      assert.deepEqual([...counts].sort(), [
        [1, 3],
        [2, 3],
        [3, 3],
      ]);
      assert.equal(shared > 0, capabilities.length > 0);
    }
  });

  it("credit for one stream is spent on its next frame, and not by others", async () => {
    const { session } = await begin(
      {
        name: "numbers",
        partitions: () => ["a", "b"],
        async *read(partition, context) {
          for (let i = 0; i < 3; i++) yield { values: [`${partition}${i}`, "x"] };
          await forever(context);
        },
      },
      { frameMessages: 2 },
      { credit: { bytes: 100_000n, messages: 1n } },
    );
    await session.next("openStream");
    await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId: 1 } });
    session.send({ case: "streamOpened", value: { streamId: 2 } });
    const first = await session.next("frame");
    const asked = new Set([(await session.next("creditRequest", ["frame"])).streamId]);
    asked.add((await session.next("creditRequest", ["frame"])).streamId);
    assert.deepEqual([...asked].sort(), [1, 2]);
    const other = first.streamId === 1 ? 2 : 1;
    session.send({ case: "credit", value: { bytes: 1000n, messages: 1n, streamId: other } });
    assert.equal((await session.next("frame")).streamId, other);
  });

  it("a source whose signal is aborted may throw, and a partition that closes is opened again", async () => {
    let reads = 0;
    const { session } = await begin(
      {
        name: "numbers",
        takesTurns: true,
        *read() {
          reads += 1;
          yield { value: `read ${reads}`, sequence: reads };
          yield reads === 1 ? CLOSE : GONE;
        },
      },
      { partitionPollMs: 5 },
    );
    await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId: 1 } });
    const closed = await session.next("closeStream");
    assert.deepEqual([closed.endOfStream, closed.gone], [false, false]);
    session.send({ case: "ack", value: { streams: [{ streamId: 1, position: { sequence: 1n } }] } });
    const open = await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId: open.streamId, resume: { sequence: 1n } } });
    const gone = await session.next("closeStream");
    assert.deepEqual([gone.endOfStream, gone.gone], [true, true]);
  });

  it("reports its state and the errors that it survived", async () => {
    const health = new Health();
    const parked = numbers(1);
    const { session } = await begin(parked, { health });
    const first = await session.next("report");
    assert.equal(first.state, ConnectorState.RUNNING);
    health.degraded("slow");
    health.survived(new Error("refused"), "numbers/0");
    let second = await session.next("report");
    while (second.errors.length === 0) second = await session.next("report"); // a heartbeat has none
    assert.deepEqual([second.state, second.reason], [ConnectorState.DEGRADED, "slow"]);
    assert.deepEqual(
      second.errors.map(({ message, stream }) => [message, stream]),
      [["Error: refused", "numbers/0"]],
    );
    session.end(status.UNAVAILABLE, "lost");
    const again = await gateway.session();
    await again.next("hello");
    welcome(again);
    const third = await again.next("report");
    assert.match(third.errors[0].message, /lost/);
  });

  it("counts frames, messages, bytes, sessions and acknowledgements", async () => {
    const counts = new Map<string, number>();
    const metrics = { add: (name: string, value: number) => counts.set(name, (counts.get(name) ?? 0) + value) };
    const { session, done } = await begin(numbers(3), { metrics });
    await session.next("openStream");
    session.send({ case: "streamOpened", value: { streamId: 1 } });
    await session.next("closeStream");
    session.send({ case: "ack", value: { streams: [{ streamId: 1, position: { sequence: 3n } }] } });
    await within("the end", done);
    assert.ok(counts.get("headrace.bytes")! > 20);
    counts.delete("headrace.bytes");
    assert.deepEqual(Object.fromEntries(counts), {
      "headrace.sessions": 1,
      "headrace.frames": 1,
      "headrace.messages": 3,
      "headrace.acknowledged": 1,
    });
  });

  it("is disposed at the end of a block", async () => {
    let connector;
    {
      await using started = start(numbers(1), { gateway: gateway.address, logger: silent });
      connector = started;
      await gateway.session();
    }
    await connector.done;
  });
});

describe("an invalid source", () => {
  for (const [what, source, text] of [
    ["without a name", { read: () => [] }, /has no name/],
    ["with a name that is not allowed", { name: "a b", read: () => [] }, /source name "a b"/],
    ["without read", { name: "a" }, /no method read/],
    ["that is redelivering, without settle", { name: "a", kind: "redelivering", read: () => [] }, /no method settle/],
  ] as const) {
    it(`${what} is refused at once`, () => {
      assert.throws(
        () => start(source as never),
        (error) => error instanceof InvalidSourceError && text.test(error.message),
      );
    });
  }
});
