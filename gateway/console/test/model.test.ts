import { describe, expect, it } from "vitest";

import durations from "./durations.json";
import { parseExactly } from "../src/client/exact";
import { ageOf, changedRows } from "../src/model/changes";
import type { Heard } from "../src/model/documents";
import { arranged } from "../src/model/table";
import { bytes, count, duration, firstLine, rate } from "../src/model/format";
import { credit } from "../src/model/credit";
import { graph } from "../src/model/graph";
import { History } from "../src/model/history";
import { replaying, sourcesToReplay, supervisedBy, unconnected } from "../src/model/supervised";
import { cursor, place } from "../src/model/position";
import { steps } from "../src/model/plots";
import { meterOf } from "../src/model/meters";
import { line, shownAs } from "../src/model/preview";
import { bars, lastStage, scale, span } from "../src/model/lanes";
import type { Batch, Pipeline, Series, Session, Status, Stream } from "../src/model/documents";

interface Row extends Heard {
  name: string;
  lag: number;
}

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
    expect(changedRows(rows, changes, "name", 7)).toEqual([
      { name: "b", lag: 3, heard_at: 7 },
      { name: "c", lag: 4, heard_at: 7 },
    ]);
  });

  it("changes the fields of a row that are different, and keeps the others", () => {
    expect(
      changedRows<Row & { state: string }>(
        [{ name: "a", lag: 1, state: "live" }],
        { set: [{ name: "a", lag: 2 }] },
        "name",
        7,
      ),
    ).toEqual([{ name: "a", lag: 2, state: "live", heard_at: 7 }]);
  });

  it("keeps the same array if nothing has changed", () => {
    expect(changedRows(rows, undefined, "name", 7)).toBe(rows);
    expect(changedRows(rows, { set: [], removed: [] }, "name", 7)).toBe(rows);
  });
});

describe("ages", () => {
  it("grow while a row is not sent again", () => {
    const row = { heard_at: 10_000 };
    expect(ageOf(500, row, 10_000)).toBe(500);
    expect(ageOf(500, row, 70_000)).toBe(60_500);
    expect(ageOf(500, row, 9_000)).toBe(500);
    expect(ageOf(500, {}, 70_000)).toBe(500);
  });
});

describe("tables", () => {
  const sorted = (lags: Record<string, number>, sort: string, filter = ""): string[] => {
    const named = Object.entries(lags).map(([name, lag]) => ({ name, lag }));
    return arranged(named, filter, sort, (row) => row.name, { lag: (row) => row.lag }).map((row) => row.name);
  };

  it("sorts rows with the same value by name, with numbers as such, in both directions", () => {
    expect(sorted({ "a/10": 0, "a/9": 0, "b/1": 5 }, "-lag")).toEqual(["b/1", "a/9", "a/10"]);
    expect(sorted({ "a/10": 0, "a/9": 0, "b/1": 5 }, "lag")).toEqual(["a/9", "a/10", "b/1"]);
  });

  it("sorts other names than before, and the same ones in another order", () => {
    expect(sorted({ "a/2": 0, "a/1": 0 }, "lag")).toEqual(["a/1", "a/2"]);
    expect(sorted({ "a/1": 0, "a/2": 0 }, "lag")).toEqual(["a/1", "a/2"]);
    expect(sorted({ "a/1": 0, "a/2": 0, "a/0": 0 }, "lag")).toEqual(["a/0", "a/1", "a/2"]);
    expect(sorted({ "a/1": 0, "a/2": 0, "a/0": 0 }, "lag", "2")).toEqual(["a/2"]);
  });
});

describe("connectors of deployments", () => {
  const of = (deployment: string, ...instances: string[]) => ({
    deployment,
    run: "r1",
    peer: "127.0.0.1:5112",
    age_ms: 1000,
    connectors: instances.map((instance) => ({
      name: `${instance}-name`,
      instance,
      replays: `${instance}-letters`,
      failure: null,
      failing_ms: null,
    })),
    restarting: [],
    replaying: [] as string[],
    processes: [],
    file_fault: null,
    file_fault_age_ms: null,
  });

  it("are found by the instance of their session", () => {
    const found = supervisedBy([of("a.toml", "orders", "returns"), of("b.toml", "stock")], "orders");
    expect(found).toEqual({
      deployment: "a.toml",
      name: "orders-name",
      instance: "orders",
      failure: null,
      restarting: false,
      failingMs: 0,
      heard_at: 0,
    });
    expect(supervisedBy([of("a.toml", "orders")], "stock")).toBeNull();
  });

  it("are not guessed if two have the same instance", () => {
    expect(supervisedBy([of("a.toml", "orders"), of("b.toml", "orders")], "orders")).toBeNull();
  });

  it("are listed without a session too", () => {
    const found = unconnected([of("a.toml", "orders", "returns")], new Set(["orders"]));
    expect(found).toEqual([
      {
        deployment: "a.toml",
        name: "returns-name",
        instance: "returns",
        failure: null,
        restarting: false,
        failingMs: 0,
        heard_at: 0,
      },
    ]);
  });

  it("replay the dead letters of a sink, unless that would be a guess", () => {
    const busy = { ...of("a.toml", "errors"), replaying: ["errors-name"] };
    expect(replaying([busy, of("b.toml", "stock")], "errors-letters")).toEqual({ deployment: "a.toml", busy: true });
    expect(replaying([of("a.toml", "errors"), of("b.toml", "errors")], "errors-letters")).toBeNull();
    expect(replaying([of("a.toml", "errors")], "errors")).toBeNull();
  });

  it("replay as a source that a pipeline reads, first as the one that the dead letters come from", () => {
    const pipelines = [{ patterns: ["again/*", "returns/0", "x*/*"] }, { patterns: ["orders/*"] }] as Pipeline[];
    expect(sourcesToReplay(pipelines, ["orders"])).toEqual(["orders", "again"]);
    expect(sourcesToReplay(pipelines, [])).toEqual(["again", "orders"]);
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

  it("leaves room for one that runs longer than all others, however long", () => {
    const usual = [batch({ planned: at(0), read: at(100) })];
    expect([scale(usual, null), scale(usual, 90), scale(usual, 101), scale(usual, 3_600_000)]).toEqual([
      100, 100, 125, 125,
    ]);
    expect(scale([], 9_000)).toBe(1.25);
  });
});

describe("texts", () => {
  it("are short", () => {
    expect([count(950), count(1234567), bytes(2048)]).toEqual(["950", "1,234,567", "2.0 KiB"]);
    expect([rate(0), rate(0.53), rate(1234.5)]).toEqual(["0/s", "0.5/s", "1,235/s"]);
  });

  it("of durations are the same as in the commands", () => {
    for (const { ms, text } of durations) expect(duration(ms)).toBe(text);
  });

  it("have one line of an error", () => {
    expect(firstLine("disk full\n  at line 3")).toBe("disk full");
    expect(firstLine("x".repeat(1000))).toHaveLength(300);
  });
});

describe("large integers", () => {
  const text = (sequence: string) => `{"received":{"epoch":0,"sequence":${sequence},"cursor":null},"lag_messages":1}`;
  const read = (sequence: string) => (parseExactly(text(sequence)) as Pick<Stream, "received">).received;

  it("are exact where a double is not", () => {
    const exact = ["9007199254740993", "9223372036854775807"];
    expect(exact.map((digits) => place(read(digits)))).toEqual(["9,007,199,254,740,993", "9,223,372,036,854,775,807"]);
    expect(read("9007199254740991")?.sequence).toBe(Number.MAX_SAFE_INTEGER);
    expect(read("7")?.sequence).toBe(7);
  });

  it("change nothing else", () => {
    const other = { sequence: "9007199254740993", note: '{"sequence":9007199254740993}', lag_messages: 2 ** 60 };
    expect(parseExactly(JSON.stringify({ ...other, end: null }))).toEqual({ ...other, end: null });
  });

  it("sort with the others", () => {
    const positions = ["9007199254740993", "5", "9007199254740992"].map((digits) => ({ digits }));
    const value = (row: { digits: string }) => read(row.digits)?.sequence ?? -1;
    const sorted = arranged(positions, "", "-at", (row) => row.digits, { at: value });
    expect(sorted.map((row) => row.digits)).toEqual(["9007199254740993", "9007199254740992", "5"]);
  });

  it("of messages are not rounded by laying JSON out", () => {
    const message = '{"id":9007199254740993}';
    expect(shownAs({ text: message, base64: btoa(message), size: message.length }, "json")).toBe(message);
  });
});

describe("positions", () => {
  const at = (cursor: string | null) => ({ epoch: 0, sequence: 1234, cursor, moves: 0 });

  it("show a cursor that is text as text, and any other in hexadecimal digits", () => {
    expect(cursor(at(btoa("part-7 at 4096")))).toBe("part-7 at 4096");
    expect(cursor(at(btoa("\xc3\xa9t\xc3\xa9")))).toBe("été");
    expect(cursor(at(btoa("\x00\xff\x10")))).toBe("0x00ff10");
    expect(cursor(at(btoa("two\nlines")))).toBe("0x74776f0a6c696e6573");
    expect([cursor(at(null)), cursor(null)]).toEqual(["–", "–"]);
  });

  it("have their epoch if there is one", () => {
    expect([place(at(null)), place({ epoch: 3, sequence: 7, cursor: null, moves: 0 }), place(null)]).toEqual([
      "1,234",
      "3:7",
      "–",
    ]);
  });
});

const session = (free: number, held: number, instance = "orders") =>
  ({
    instance,
    condition: "no credit",
    connector: "file",
    state: null,
    paused: null,
    credit_bytes: free,
    outstanding_bytes: held,
    credit_messages: 100,
    outstanding_messages: held ? 10 : 0,
  }) as Session;
const stream = (name: string, fields: Partial<Stream> = {}) =>
  ({
    stream: name,
    condition: "idle",
    state: "live",
    instance: "orders",
    last_instance: null,
    holders: [],
    paused: null,
    received_messages: 0,
    acknowledged_messages: 0,
    lag_messages: 0,
    oldest_unacknowledged_ms: 0,
    stalled_ms: null,
    ...fields,
  }) as unknown as Stream;
const pipeline = (fields: Partial<Pipeline>) =>
  ({
    pipeline: "totals",
    condition: "waits",
    patterns: [],
    committed: {},
    lag_messages: 0,
    batch_ms: null,
    paused: null,
    steps: [],
    ...fields,
  }) as Pipeline;
const status = (parts: Partial<Status>) =>
  ({
    health: { problems: [] },
    streams: [],
    sessions: [],
    pipelines: [],
    sinks: [],
    sink_sessions: [],
    deployments: [],
    ...parts,
  }) as unknown as Status;

describe("the credit of a session", () => {
  it("is what is left of bytes or messages, whichever is less", () => {
    expect([credit(session(50, 50)), credit(session(0, 50)), credit(session(0, 0))]).toEqual([0.5, 0, 1]);
  });
});

describe("the graph", () => {
  const draw = (now: Status) => graph(now, new History(), (ms) => `${ms} ms`);

  it("joins a source, its stream, a pipeline with its steps, and a sink", () => {
    const step = {
      step: "price",
      received: 9,
      sent: 8,
      failed: 1,
      late: 0,
      keys: 0,
      violated: 2,
      further: 0,
      time_ms: 1,
    };
    const sink = {
      sink: "out",
      condition: "stalled",
      writers: ["totals"],
      committed: {},
      open_parts: 1,
      pending_transactions: 0,
      staged_messages: 3,
      paused: null,
    };
    const found = draw(
      status({
        sessions: [session(0, 50)],
        streams: [stream("orders/0", { condition: "flows", lag_messages: 4, oldest_unacknowledged_ms: 700 })],
        pipelines: [pipeline({ committed: { "orders/0": null }, batch_ms: 20, lag_messages: 4, steps: [step] })],
        sinks: [
          {
            ...sink,
            outstanding: "instance a has not staged",
            outstanding_ms: 11_000,
          } as unknown as Status["sinks"][0],
        ],
      }),
    );
    expect(found.nodes.map((node) => [node.id, node.condition, node.pressure])).toEqual([
      ["connector orders", "no credit", "0 % of credit left"],
      ["stream orders/0", "flows", "oldest 700 ms"],
      ["pipeline totals", "waits", "micro-batch for 20 ms"],
      ["sink out", "stalled", "instance a has not staged, for 11000 ms"],
    ]);
    expect(found.nodes[2]?.steps).toEqual([{ name: "price", received: 0, sent: 0, failed: 1, violated: 2 }]);
    expect(found.edges).toEqual([
      ["connector orders", "stream orders/0"],
      ["stream orders/0", "pipeline totals"],
      ["pipeline totals", "sink out"],
    ]);
  });

  it("has one node for many streams, which is stalled if one of them is", () => {
    const many = Array.from({ length: 20 }, (_, n) => stream(`orders/${n}`));
    many[7] = stream("orders/7", { condition: "stalled", lag_messages: 3, oldest_unacknowledged_ms: 20_000 });
    const { nodes } = draw(status({ streams: many }));
    expect(nodes.map((node) => [node.name, node.condition, node.lag])).toEqual([
      ["stream orders/* (20)", "stalled", 3],
    ]);
  });
});

describe("the history", () => {
  it("has the rates of streams, pipelines, steps and sinks", () => {
    const history = new History();
    const step = {
      step: "price",
      received: 0,
      sent: 0,
      failed: 0,
      late: 0,
      keys: 0,
      violated: 0,
      further: 0,
      time_ms: 0,
    };
    for (let n = 0; n <= 10; n += 1) {
      const streams = [
        stream("orders/0", { received_messages: 20 * n, acknowledged_messages: 10 * n, lag_messages: 10 * n }),
      ];
      const steps = [{ ...step, received: 20 * n, sent: 4 * n }];
      const pipelines = [pipeline({ committed: { "orders/0": null }, lag_messages: 10 * n, steps })];
      history.record(status({ streams, pipelines }), 2000 * (n + 1));
    }
    expect([history.rate("stream orders/0", "received"), history.rate("stream orders/0", "done")]).toEqual([10, 5]);
    expect(history.rate("pipeline totals", "done")).toBe(5);
    expect(history.rate("step totals\nprice", "done")).toBe(2);
    expect(history.rate("stream none", "done")).toBe(0);
  });
});

describe("previews", () => {
  const of = (text: string | null, binary: string) => ({ text, base64: btoa(binary), size: binary.length });

  it("are JSON that is laid out, else text, else hex", () => {
    expect(shownAs(of('{"a":1}', '{"a":1}'), "auto")).toBe('{\n  "a": 1\n}');
    expect(shownAs(of('{"a":1}', '{"a":1}'), "text")).toBe('{"a":1}');
    expect(shownAs(of('{"a', '{"a'), "json")).toBe('{"a');
    expect(shownAs(of(null, "\xffA\x00"), "auto")).toBe(`0000  ${"ff 41 00".padEnd(47)}  .A.`);
    expect(shownAs(of("ab", "ab"), "hex")).toBe(`0000  ${"61 62".padEnd(47)}  ab`);
  });

  it("fit on a line", () => {
    expect([line(null), line(of("k", "k")), line(of(null, "\xff")).slice(0, 8)]).toEqual(["null", "k", "0000  ff"]);
  });
});

describe("the lines of a plot", () => {
  it("are at round numbers in the unit of the values", () => {
    expect(steps(bytes).map(bytes).slice(9, 13)).toEqual(["512 B", "1.0 KiB", "2.0 KiB", "4.0 KiB"]);
    const shown = steps(duration).map(duration);
    for (const text of ["100 ms", "1.0 s", "30 s", "1m 00s"]) expect(shown).toContain(text);
    for (const format of [bytes, duration, rate]) {
      const found = steps(format);
      expect(found).toEqual(found.toSorted((a, b) => a - b));
      expect(new Set(found).size).toBe(found.length);
    }
  });
});

describe("counters and histograms", () => {
  const of = (fields: Partial<Series>) =>
    meterOf({ metric: "amounts", value: "", count: 0, sum: null, bounds: [], buckets: [], ...fields });
  const histogram = (count: number, sum: number, bounds: number[], buckets: number[]) =>
    of({ count, sum, bounds, buckets });

  it("have a count, and the value of a label if there is one", () => {
    const counter = { name: "amounts", label: "stock", count: "1,234", mean: "–", shares: [], further: 0 };
    expect(of({ value: "stock", count: 1234 })).toEqual(counter);
    expect([of({}).label, of({}).count]).toEqual(["–", "0"]);
  });

  it("have a mean, and the share of numbers up to each bound", () => {
    const found = histogram(4, 10.5, [1e-7, 1, 2500], [1, 3, 4]);
    expect([found.count, found.mean]).toEqual(["4", "2.625"]);
    expect(found.shares).toEqual(["25 % ≤ 1e-7", "75 % ≤ 1", "100 % ≤ 2,500"]);
  });

  it("round a share to none or all only if it is", () => {
    const found = histogram(1000, 0, [1, 2, 3, 4], [0, 1, 999, 1000]);
    expect(found.shares).toEqual(["0 % ≤ 1", "< 1 % ≤ 2", "> 99 % ≤ 3", "100 % ≤ 4"]);
  });

  it("have neither before the first number", () => {
    const found = histogram(0, 0, [1, 2], [0, 0]);
    expect([found.mean, found.shares, found.further]).toEqual(["–", [], 0]);
  });

  it("are short whatever their size, and however many bounds they have", () => {
    const bounds = Array.from({ length: 1000 }, (_, n) => n);
    const found = histogram(
      3,
      1e300,
      bounds,
      bounds.map(() => 3),
    );
    expect([found.mean, found.shares.length, found.further]).toEqual(["3.33333e+299", 12, 988]);
    expect(histogram(3, -2, [-0.5], [3])).toMatchObject({ mean: "-0.666667", shares: ["100 % ≤ -0.5"] });
  });
});
