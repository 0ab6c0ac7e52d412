import { describe, expect, it } from "vitest";

import { changedRows } from "../src/model/changes";
import { bytes, count, duration, firstLine } from "../src/model/format";
import { bars, lastStage, scale, span } from "../src/model/lanes";
import type { Batch } from "../src/model/documents";

interface Row {
  name: string;
  lag: number;
}

const key = (row: Row) => row.name;
const rows: Row[] = [
  { name: "a", lag: 1 },
  { name: "b", lag: 2 },
];

describe("changes", () => {
  it("replaces, adds and removes rows, and keeps the order of the others", () => {
    const changes = {
      set: [
        { name: "b", lag: 3 },
        { name: "c", lag: 4 },
      ],
      removed: ["a"],
    };
    expect(changedRows(rows, changes, key)).toEqual([
      { name: "b", lag: 3 },
      { name: "c", lag: 4 },
    ]);
  });

  it("keeps the same array if nothing has changed", () => {
    expect(changedRows(rows, undefined, key)).toBe(rows);
    expect(changedRows(rows, { set: [], removed: [] }, key)).toBe(rows);
  });
});

function batch(stages: Batch["stages"]): Batch {
  return { batch: 1, rebuilt: false, redelivered: false, stages, streams: [], streams_in_all: 0 };
}

const at = (ms: number) => new Date(Date.UTC(2026, 0, 1) + ms).toISOString();

describe("lanes", () => {
  it("begins each bar where the stage before that was reached ends", () => {
    const found = batch({ planned: at(0), read: at(30), committed: at(50) });
    expect(bars(found)).toEqual([
      { stage: "planned", from: 0, to: 0 },
      { stage: "read", from: 0, to: 30 },
      { stage: "committed", from: 30, to: 50 },
    ]);
    expect([span(found), lastStage(found)]).toEqual([50, "committed"]);
  });

  it("has none for a micro-batch without stages", () => {
    expect([bars(batch({})), span(batch({})), lastStage(batch({}))]).toEqual([[], 0, null]);
  });

  it("is not flattened by one micro-batch that took an hour", () => {
    const usual = Array.from({ length: 99 }, () => batch({ planned: at(0), read: at(100) }));
    expect(scale([...usual, batch({ planned: at(0), read: at(3_600_000) })])).toBe(300);
  });
});

describe("texts", () => {
  it("are short", () => {
    expect([count(950), count(1234), bytes(2048), duration(65_000), duration(1500)]).toEqual([
      "950",
      "1.2 k",
      "2 KiB",
      "1 min 5 s",
      "1.5 s",
    ]);
  });

  it("have one line of an error", () => {
    expect(firstLine("disk full\n  at line 3")).toBe("disk full");
    expect(firstLine("x".repeat(1000))).toHaveLength(300);
  });
});
