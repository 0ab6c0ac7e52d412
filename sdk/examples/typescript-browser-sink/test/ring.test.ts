import assert from "node:assert/strict";
import { appendFile, mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";

import type { StoredEvent } from "../src/journal.js";
import { Ring } from "../src/ring.js";
import { temporaryFolder } from "./folder.js";

const LIMITS = { events: 100, bytes: 1 << 20 };

/** Everything that a ring has. */
function eventsOf(ring: Ring): StoredEvent[] {
  const found: StoredEvent[] = [];
  for (let event = ring.from(0); event !== undefined; event = ring.from(event.number + 1)) found.push(event);
  return found;
}

const dataOf = (ring: Ring): string[] => eventsOf(ring).map((event) => event.data);

const range = (first: number, last: number): string[] =>
  Array.from({ length: last - first + 1 }, (_, i) => `{"value":"${first + i}"}`);

describe("a ring of events", () => {
  it("keeps the last ones, by number and by bytes", async () => {
    await using folder = await temporaryFolder();
    const ring = await Ring.open(folder.path, { events: 3, bytes: 1 << 20 });
    await ring.append(range(1, 5));
    assert.deepEqual(dataOf(ring), range(3, 5));
    assert.deepEqual([ring.hasLost(2), ring.hasLost(3)], [true, false]);
    await ring.close();
    await using other = await temporaryFolder();
    const small = await Ring.open(other.path, { events: 100, bytes: 1000 });
    await small.append(["x".repeat(401), "y".repeat(400)]);
    assert.deepEqual(dataOf(small), ["y".repeat(400)]);
    await small.close();
  });

  it("has an oldest number that passes over nothing that is being written", async () => {
    await using folder = await temporaryFolder();
    const ring = await Ring.open(folder.path, { events: 2, bytes: 1 << 20 });
    const written = ring.append(range(1, 2));
    const { oldest } = ring;
    assert.equal(ring.from(oldest), undefined);
    await written;
    assert.equal(ring.from(oldest)?.data, range(1, 1)[0]);
    await ring.append(range(3, 3));
    assert.equal(ring.from(ring.oldest)?.data, range(2, 2)[0]);
    await ring.close();
  });

  it("tells its listeners, until they no longer listen", async () => {
    await using folder = await temporaryFolder();
    const ring = await Ring.open(folder.path, LIMITS);
    let changes = 0;
    const stop = ring.onChange(() => {
      changes += 1;
    });
    await ring.append(["{}", "{}"]);
    await ring.append([]);
    stop();
    await ring.append(["{}"]);
    assert.equal(changes, 1);
    await ring.close();
  });

  it("survives a restart, also one in the middle of a line, and never uses an id again", async () => {
    await using folder = await temporaryFolder();
    const ids = new Set<string>();
    for (let start = 0; start < 3; start++) {
      const ring = await Ring.open(folder.path, LIMITS);
      assert.deepEqual(dataOf(ring), range(1, start * 2));
      await ring.append(range(start * 2 + 1, start * 2 + 2));
      await ring.sync();
      for (const { id } of eventsOf(ring).slice(-2)) ids.add(id);
      await ring.close();
      const [last] = (await readdir(folder.path)).sort().slice(-1);
      await appendFile(join(folder.path, last), '{"number":99,"id"');
    }
    assert.equal(ids.size, 6);
    const ring = await Ring.open(folder.path, LIMITS);
    // The ring still knows what the last browser has seen, also by the id of an earlier start.
    const [first] = ids;
    assert.deepEqual(ring.from(ring.after(first)!)?.data, '{"value":"2"}');
    assert.equal(ring.after("other-1"), undefined);
    assert.equal(ring.after("nonsense"), undefined);
    await ring.close();
  });

  it("removes files that it no longer needs", async () => {
    await using folder = await temporaryFolder();
    const ring = await Ring.open(folder.path, { events: 1000, bytes: 10_000 });
    for (let i = 0; i < 200; i++) await ring.append(["x".repeat(500)]);
    const files = await readdir(folder.path);
    const sizes = await Promise.all(files.map(async (name) => (await stat(join(folder.path, name))).size));
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    assert.ok(bytes < 20_000, `${files.length} files have ${bytes} bytes`);
    await ring.close();
  });

  it("shows nothing that it could not write, and continues once it can", async () => {
    await using folder = await temporaryFolder();
    const path = join(folder.path, "ring");
    const ring = await Ring.open(path, LIMITS);
    await rm(path, { recursive: true });
    await assert.rejects(ring.append(range(1, 2)), /ENOENT/);
    assert.deepEqual(dataOf(ring), []);
    await mkdir(path);
    await ring.append(range(3, 3));
    assert.deepEqual(dataOf(ring), range(3, 3));
    assert.equal(ring.from(0)!.number, 3);
    await ring.close();
  });
});
