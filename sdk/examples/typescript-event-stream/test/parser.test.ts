import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { EventParser, type Block } from "../src/parser.js";

const parsed = (text: string | Buffer, maxBytes = 1000, pieceBytes = Infinity): Block[] => {
  const parser = new EventParser(maxBytes);
  const bytes = Buffer.from(text);
  const blocks: Block[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes)
    blocks.push(...parser.push(bytes.subarray(at, at + pieceBytes)));
  return blocks;
};
const dataOf = (blocks: Block[]): string[] => blocks.flatMap(({ event }) => event?.data.toString() ?? []);

describe("the parser of events", () => {
  for (const [what, text, data] of [
    ["lines of data are joined", "data: YHOO\ndata: +2\ndata: 10\n\n", ["YHOO\n+2\n10"]],
    ["one space after the colon is left out", "data:test\n\ndata: test\n\ndata:  test\n\n", ["test", "test", " test"]],
    ["a line without a colon is a field without a value", "data\n\ndata\ndata\n\ndata:", ["", "\n"]],
    ["comments and unknown fields are ignored", ": hello\n\nfoo: bar\ndata: a\n:\n\n", ["a"]],
    ["an event that the end cuts off is none", "data: a\n\ndata: b\n", ["a"]],
    ["lines end with CR, LF or CRLF", "data: a\r\rdata: b\r\n\r\ndata: c\n\n", ["a", "b", "c"]],
    ["a byte order mark is ignored", "\uFEFFdata: a\n\n", ["a"]],
    ["colons may be in data", "data: a: b\n\n", ["a: b"]],
    ["a field with another case is unknown", "Data: a\ndata: b\n\n", ["b"]],
  ] as const) {
    it(`${what}, however the bytes arrive`, () => {
      for (const pieceBytes of [Infinity, 1, 2, 3]) assert.deepEqual(dataOf(parsed(text, 1000, pieceBytes)), data);
    });
  }

  it("names, ids and times to wait come from their block", () => {
    const text =
      "event: add\nid: 1\ndata: a\n\ndata: b\n\nid: 3\n\nid\ndata: c\n\nretry: 250\n\nretry: soon\nid: a\0b\n\n";
    const event = (name: string, data: string): Block["event"] => ({ name, data: Buffer.from(data), bytes: 1 });
    assert.deepEqual(parsed(text), [
      { event: event("add", "a"), id: "1" },
      { event: event("", "b") },
      { id: "3" },
      { event: event("", "c"), id: "" },
      { retryMs: 250 },
    ]);
  });

  it("bytes that are not UTF-8 stay as they are", () => {
    const bytes = Buffer.from([0xff, 0, 0x80]);
    const [block] = parsed(Buffer.concat([Buffer.from("data: "), bytes, Buffer.from("\n\n")]));
    assert.deepEqual(block.event?.data, bytes);
  });

  it("of data above the limit, the beginning is kept and all is counted", () => {
    for (const pieceBytes of [Infinity, 1, 7]) {
      const blocks = parsed("data: 0123456789\ndata: 0123456789\nid: 7\n\ndata: b\n\n", 15, pieceBytes);
      const found = blocks.map(({ event, id }) => [event?.data.toString(), event?.bytes, id]);
      assert.deepEqual(found, [
        ["0123456789\n0123", 21, "7"],
        ["b", 1, undefined],
      ]);
      assert.deepEqual(dataOf(parsed(`data: ${"x".repeat(100)}\n\n`, 15, pieceBytes)), ["x".repeat(15)]);
    }
  });
});
