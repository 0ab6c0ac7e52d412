import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { Rows, WRITTEN, type Part } from "@headrace/sdk";

import { Ring } from "../src/ring.js";
import { BrowserSink, dataOf } from "../src/sink.js";
import { temporaryFolder } from "./folder.js";

const part: Part = { transaction: { pipeline: "query", batch: 7n }, partition: 2, attempt: "1/0" };
const lineOf = (rows: Rows): unknown => JSON.parse(dataOf([...rows][0], part));

describe("a row for browsers", () => {
  it("has what the message has", () => {
    const rows = Rows.of({
      value: "a\nb",
      key: "k",
      eventTime: 1_700_000_000_123_456n,
      messageId: "m",
      headers: [
        ["h", "v"],
        ["n", null],
      ],
    });
    assert.deepEqual(lineOf(rows), {
      value: "a\nb",
      key: "k",
      time: "2023-11-14T22:13:20.123Z",
      message_id: "m",
      headers: [
        { name: "h", value: "v" },
        { name: "n", value: null },
      ],
      row: "query/7/2/0",
    });
    assert.ok(!dataOf([...rows][0], part).includes("\n"));
  });

  it("has bytes in base64 that are not text, and null for a row without a value", () => {
    assert.deepEqual(lineOf(Rows.of({ value: Buffer.from([0xff]) })), { value_base64: "/w==", row: "query/7/2/0" });
    assert.deepEqual(lineOf(Rows.of({ value: null, eventTime: -(2n ** 63n) + 1n })), {
      value: null,
      time: "-9223372036854775807",
      row: "query/7/2/0",
    });
  });
});

describe("the sink", () => {
  it("puts rows into the ring, and refuses rows that are too large for it", async () => {
    await using folder = await temporaryFolder();
    const ring = await Ring.open(folder.path, { events: 10, bytes: 4000 });
    const sink = new BrowserSink("browsers", ring);
    const outcomes = await sink.write(Rows.of({ value: "a" }, { value: "x".repeat(1000) }, { value: "b" }));
    await sink.flush();
    assert.deepEqual(outcomes, [
      WRITTEN,
      { refused: "it makes an event of 1012 bytes, and the ring takes at most 1000" },
      WRITTEN,
    ]);
    assert.equal(ring.from(1)?.data, '{"value":"a"}');
    assert.equal(ring.from(2)?.data, '{"value":"b"}');
    await ring.close();
  });
});
