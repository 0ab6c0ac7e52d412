import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, it } from "node:test";

import { Ring, type RingLimits } from "../src/ring.js";
import { EventServer, type ServerOptions } from "../src/server.js";
import { Client, until } from "./client.js";
import { temporaryFolder } from "./folder.js";

const OPTIONS: ServerOptions = { host: "127.0.0.1", port: 0, maxBrowsers: 10, stallMs: 20_000, heartbeatMs: 20_000 };
/** More than the buffers of a connection hold. */
const LARGE = "x".repeat(256 * 1024);

/** Waits until the server takes another browser. */
async function room(url: string): Promise<void> {
  for (;;) {
    const stop = new AbortController();
    const { status } = await fetch(new URL("events", url), { signal: stop.signal });
    stop.abort();
    if (status === 200) return;
  }
}

describe("a server of events", () => {
  let stack: (() => PromiseLike<void> | void)[] = [];
  beforeEach(() => {
    stack = [];
  });
  afterEach(async () => {
    for (const end of stack.reverse()) await end();
  });

  const begin = async (
    limits: Partial<RingLimits> = {},
    options: Partial<ServerOptions> = {},
  ): Promise<{ ring: Ring; url: string; browser: (path?: string, headers?: string) => Client }> => {
    const folder = await temporaryFolder();
    stack.push(() => folder[Symbol.asyncDispose]());
    const ring = await Ring.open(folder.path, { events: 1000, bytes: 64 << 20, ...limits });
    stack.push(() => ring.close());
    const server = await EventServer.start(ring, { ...OPTIONS, ...options });
    stack.push(() => server[Symbol.asyncDispose]());
    const { url } = server;
    const browser = (path = "/events", headers = ""): Client => {
      const client = new Client(url, path, headers);
      stack.push(() => {
        client.close();
      });
      return client;
    };
    return { ring, url, browser };
  };

  it("serves a page that loads nothing from elsewhere", async () => {
    const { url } = await begin();
    const page = await fetch(url);
    assert.match(page.headers.get("content-security-policy") ?? "", /^default-src 'none'/);
    assert.match(await page.text(), /<script src="page.js">/);
    const script = await (await fetch(new URL("page.js", url))).text();
    assert.match(script, /new EventSource\(/);
    assert.equal((await fetch(new URL("secret", url))).status, 404);
    assert.equal((await fetch(new URL("events", url), { method: "POST" })).status, 405);
    const file = fileURLToPath(new URL("../../page/page.js", import.meta.url));
    assert.equal(spawnSync(process.execPath, ["--check", file]).status, 0);
  });

  it("sends every browser what is in the ring, and then what comes", async () => {
    const { ring, browser } = await begin();
    await ring.append(["1", "2"]);
    const browsers = [browser(), browser()];
    for (const client of browsers) await client.caughtUp();
    await ring.append(["3"]);
    for (const client of browsers) {
      await until("the third event", () => client.data.length === 3);
      assert.deepEqual(client.data, ["1", "2", "3"]);
      assert.match(client.text, /content-type: text\/event-stream/);
    }
  });

  it("continues after the last id that a browser has seen", async () => {
    const { ring, browser } = await begin();
    await ring.append(["1", "2"]);
    const first = browser();
    await first.caughtUp();
    const { lastId } = first;
    first.close();
    await ring.append(["3", "4"]);
    for (const again of [browser("/events", `last-event-id: ${lastId}\r\n`), browser(`/events?after=${lastId}`)]) {
      await again.caughtUp();
      assert.deepEqual(again.data, ["3", "4"]);
      assert.ok(!again.text.includes("event: lost"));
    }
  });

  it("tells a browser whose last event is no longer there that it has lost some", async () => {
    const { ring, browser } = await begin({ events: 2 });
    await ring.append(["1"]);
    const first = browser();
    await first.caughtUp();
    await ring.append(["2", "3", "4"]);
    for (const id of [first.lastId, "unknown-1", "nonsense"]) {
      const again = browser("/events", `last-event-id: ${id}\r\n`);
      await again.caughtUp();
      assert.match(again.text, /event: lost\ndata:\n\n/);
      assert.deepEqual(again.data, ["3", "4"]);
    }
  });

  it("has no queue for a slow browser: it loses what the ring has lost, and others do not", async () => {
    const { ring, browser } = await begin({ events: 3 });
    const slow = browser();
    const other = browser();
    await slow.caughtUp();
    await other.caughtUp();
    slow.pause();
    for (let i = 0; i < 100; i++) {
      await ring.append([`${LARGE}${i}`]);
      await until("the other browser shows it", () => other.data.length === i + 1);
    }
    slow.resume();
    await until("the last event", () => slow.data.at(-1) === `${LARGE}99`);
    assert.match(slow.text, /event: lost/);
    assert.ok(slow.data.length < 100, `it got ${slow.data.length} events`);
    assert.ok(!other.text.includes("event: lost"));
  });

  it("disconnects a browser that reads nothing", async () => {
    const { url, ring, browser } = await begin({}, { stallMs: 1_000, maxBrowsers: 2 });
    const stuck = browser();
    const other = browser();
    await stuck.caughtUp();
    await other.caughtUp();
    stuck.pause();
    for (let i = 0; i < 60; i++) {
      await ring.append([LARGE]);
      await until("the other browser shows it", () => other.data.length === i + 1);
    }
    await ring.append(["1"]);
    await until("the other browser has all", () => other.data.length === 61);
    await room(url); // There is room for another browser once the stuck one is disconnected.
    stuck.resume();
    await until("the connection is closed", () => stuck.isClosed);
    assert.ok(stuck.data.length < 61);
  });

  it("takes no more browsers than it may, and others once some have gone", async () => {
    const { url, browser } = await begin({}, { maxBrowsers: 1 });
    const first = browser();
    await first.caughtUp();
    assert.equal((await fetch(new URL("events", url))).status, 503);
    first.close();
    await room(url);
  });

  it("says something now and then to a browser that has everything", async () => {
    const { browser } = await begin({}, { heartbeatMs: 5 });
    const client = browser();
    await until("two heartbeats", () => client.text.split("\n:\n\n").length > 2);
  });
});
