import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";

import { MessageTooLargeError, type Message, type Position } from "@headrace/sdk";

import { EventStream, type EventStreamOptions } from "../src/event_stream.js";
import { appendTo, type OversizedEvent } from "../src/oversized.js";
import { Retry } from "../src/retry.js";
import { EventServer, events, log, status } from "./server.js";

const QUICK = "retry: 1\n\n";

const source = (server: EventServer, more: Partial<EventStreamOptions> = {}): EventStream =>
  new EventStream({ name: "events", url: server.url, maxEventBytes: 1000, idleMs: 10_000, ...more });

/** Reads up to a number of messages, or all. */
async function read(from: EventStream, position?: Position, count = Infinity): Promise<Message[]> {
  const messages: Message[] = [];
  const stop = new AbortController();
  for await (const item of from.read("0", { position, signal: stop.signal })) {
    messages.push(item as Message);
    if (messages.length >= count) break;
  }
  return messages;
}

const values = (messages: Message[]): string[] => messages.map(({ value }) => (value as Buffer).toString());
const positionOf = ({ sequence, cursor }: Message): Position => ({ epoch: 0n, sequence: BigInt(sequence!), cursor });

describe("a source of events", () => {
  it("yields each event with its id, its name as a header, and where to continue", async () => {
    await using server = await EventServer.start(events("id: é\nevent: add\ndata: a\n\ndata: b\n\n"), status(204));
    const [first, second] = await read(source(server), undefined, 2);
    assert.deepEqual(first, {
      value: Buffer.from("a"),
      sequence: 1,
      cursor: Buffer.from("1 é"),
      endsFrame: true,
      messageId: "é",
      headers: [["event", "add"]],
    });
    assert.deepEqual(second, { value: Buffer.from("b"), sequence: 2, cursor: Buffer.from("1 é") });
  });

  it("reconnects with the last id, and does not yield again what comes again", async () => {
    await using server = await EventServer.start(
      events(`${QUICK}id: é\ndata: a\n\ndata: b\n\ndata: cut off`),
      events("data: b\n\nid: 3\ndata: c\n\n"),
      status(204),
    );
    const messages = await read(source(server));
    assert.deepEqual(values(messages), ["a", "b", "c"]);
    assert.deepEqual(
      messages.map(({ sequence }) => sequence),
      [1, 2, 3],
    );
    assert.deepEqual(server.lastIds, [undefined, "é", "3"]);
  });

  it("yields exactly the rest after every position", async () => {
    const all = Array.from({ length: 8 }, (_, i) => ({ id: i % 3 === 1 ? `id ${i}` : undefined, data: `event ${i}` }));
    await using server = await EventServer.start(log(all));
    const messages = await read(source(server));
    assert.deepEqual(
      values(messages),
      all.map(({ data }) => data),
    );
    // The first event has no id, so there is nothing yet that the server could continue from.
    for (let i = 1; i < messages.length; i++) {
      const rest = messages.slice(i + 1);
      assert.deepEqual(await read(source(server), positionOf(messages[i])), rest);
      // A frame may end later than its cursor says.
      if (rest.length === 0) continue;
      const later = { ...positionOf(rest[0]), cursor: messages[i].cursor! } as Position;
      assert.deepEqual(await read(source(server), later), rest.slice(1));
    }
  });

  it("ends a frame where it first knows how to continue", async () => {
    const text = `data: ${"x".repeat(50)}\n\ndata: a\n\ndata: b\n\nid: 1\n\ndata: c\n\nid: 2\ndata: d\n\n`;
    await using server = await EventServer.start(events(text), status(204));
    const keepOversized = (): Promise<void> => Promise.resolve();
    const stream = source(server, { maxEventBytes: 10, keepOversized });
    const messages = await read(stream, undefined, 4);
    assert.deepEqual(
      messages.map(({ endsFrame = false, sequence }) => [sequence, endsFrame]),
      [
        [2, true],
        [3, false],
        [4, true],
        [5, false],
      ],
    );
  });

  it("does not continue from a position that has no cursor of its own", async () => {
    await using server = await EventServer.start(status(204));
    const position = { epoch: 0n, sequence: 5n, cursor: undefined };
    await assert.rejects(read(source(server), position), /cursor "" is not one of this connector/);
  });

  it("counts on without ids, and says that some may be lost", async () => {
    await using server = await EventServer.start(events(`${QUICK}data: a\n\n`), events("data: b\n\n"), status(204));
    const warnings: string[] = [];
    const warn = (text: string): void => {
      warnings.push(text);
    };
    const logger = { debug: warn, info: warn, warn, error: warn };
    const messages = await read(source(server, { logger }));
    assert.deepEqual(
      messages.map(({ sequence, value }) => [sequence, (value as Buffer).toString()]),
      [
        [1, "a"],
        [2, "b"],
      ],
    );
    assert.equal(warnings.filter((text) => text.includes("have no ids")).length, 1);
  });

  it("waits for a server that is away or busy, and reports that", async () => {
    const states: string[] = [];
    const health = {
      running: () => states.push("running"),
      waiting: (error: Error) => states.push(error.message),
    } as unknown as NonNullable<EventStreamOptions["health"]>;
    await using server = await EventServer.start(
      events(QUICK),
      status(503),
      (response) => response.destroy(),
      events("id: 1\ndata: a\n\n", "stays"),
    );
    assert.deepEqual(values(await read(source(server, { health }), undefined, 1)), ["a"]);
    assert.deepEqual(states[0], "running");
    assert.match(states[1], /has ended the connection/);
    assert.match(states[2], /answers 503/);
    assert.match(states[3], /other side closed|ECONNRESET/);
    assert.deepEqual(states.slice(4), ["running"]);
  });

  it("fails if another attempt does not help", async () => {
    for (const [answer, text] of [
      [status(404), /\/events answers 404 Not Found; check the URL and the token/],
      [
        (response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>"),
        /answers with text\/html, and text\/event-stream is needed/,
      ],
      [events(`id: ${"x".repeat(5000)}\ndata: a\n\n`), /an event id of 5000 bytes/],
    ] as [Parameters<typeof EventServer.start>[0], RegExp][]) {
      await using server = await EventServer.start(answer);
      await assert.rejects(read(source(server, { maxEventBytes: 9999 })), (error: Error) => text.test(error.message));
    }
  });

  it("reconnects to a server that has been silent for too long", async () => {
    await using server = await EventServer.start(
      events(`${QUICK}id: 1\ndata: a\n\n`, "stays"),
      events("id: 2\ndata: b\n\n", "stays"),
    );
    assert.deepEqual(values(await read(source(server, { idleMs: 30 }), undefined, 2)), ["a", "b"]);
    // On a busy machine, the second answer may come too late, too.
    const [first, ...others] = server.lastIds;
    assert.deepEqual([first, ...new Set(others)], [undefined, "1"]);
  });

  it("leaves the server when its signal is aborted, while it reads and while it waits", async () => {
    for (const answer of [events("data: a\n\n", "stays"), events("retry: 999999\ndata: a\n\n")]) {
      let closing!: () => void;
      const closed = new Promise<void>((resolve) => {
        closing = resolve;
      });
      await using server = await EventServer.start((response, ...rest) => {
        response.on("close", closing);
        answer(response, ...rest);
      });
      const stop = new AbortController();
      const items = source(server).read("0", { position: undefined, signal: stop.signal });
      assert.equal((await items.next()).done, false);
      const next = items.next();
      stop.abort();
      await assert.rejects(next);
      await closed;
    }
  });

  it("authenticates", async () => {
    const seen: (string | undefined)[] = [];
    await using server = await EventServer.start((response, _, request) => {
      seen.push(request.headers.authorization, request.headers.accept);
      response.writeHead(204).end();
    });
    await read(source(server, { authorization: "Bearer secret" }));
    assert.deepEqual(seen, ["Bearer secret", "text/event-stream"]);
  });

  it("keeps events that are too large, and continues after them", async () => {
    const folder = await mkdtemp(join(tmpdir(), "events-"));
    try {
      const path = join(folder, "oversized");
      const text = `id: 1\nevent: big\ndata: ${"x".repeat(50)}\n\nid: 2\ndata: b\n\n`;
      await using server = await EventServer.start(events(text), status(204));
      const stream = source(server, { maxEventBytes: 10, keepOversized: appendTo(path) });
      const [message] = await read(stream, undefined, 1);
      assert.equal(message.sequence, 2);
      // A message that is too large for the gateway goes there, too.
      await stream.unsendable("0", { ...message, headers: [["event", "n"]] }, new MessageTooLargeError("too large"));
      const kept = (await readFile(path, "utf8")).trim().split("\n");
      const expected: OversizedEvent[] = [
        {
          sequence: 1,
          id: "1",
          name: "big",
          bytes: 50,
          data: "x".repeat(10),
          reason: "it has 50 bytes, and --max-event-bytes is 10",
        },
        { sequence: 2, id: "2", name: "n", bytes: 1, data: "b", reason: "too large" },
      ];
      assert.deepEqual(
        kept.map((line) => JSON.parse(line) as unknown),
        expected,
      );
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("ends at an event that is too large, unless there is a place for it", async () => {
    await using server = await EventServer.start(events("id: 7\ndata: 12345\n\n"));
    await assert.rejects(read(source(server, { maxEventBytes: 4 })), /event 1, id "7": it has 5 bytes.*--oversized/);
  });
});

describe("the wait before a reconnect", () => {
  it("is at least what the server asks for, and up to a bound that doubles", () => {
    for (const [draw, waits] of [
      [0, [1000, 1000, 1000, 1000, 1000, 1000]],
      [1, [2000, 4000, 8000, 16_000, 30_000, 30_000]],
    ] as const) {
      const retry = new Retry(1000, () => draw);
      assert.deepEqual(
        waits.map(() => retry.next()),
        waits,
      );
      retry.reset();
      assert.equal(retry.next(), waits[0]);
      retry.leastMs = 60_000;
      assert.equal(retry.next(), 60_000);
    }
  });
});
