import { describe, expect, it } from "vitest";

import { causePaths } from "../src/model/cause_paths";
import type { Batch, Problem, Status } from "../src/model/documents";
import { CONDITIONS } from "../src/model/words";
import { graph } from "../src/model/graph";
import { History } from "../src/model/history";
import { layout, type Box } from "../src/model/layout";
import { markOf, MARKS } from "../src/model/marks";
import { covers } from "../src/model/pattern";
import { durations } from "../src/model/percentiles";
import { lastOf, plotsOf } from "../src/model/plots";
import { search } from "../src/model/search";

const problem = (part: string, root = part, kind = "sink-away"): Problem => ({
  part,
  kind,
  root,
  cause: "",
  since: "",
  remedy: "",
});

function empty(): Status {
  const rows = { streams: [], sessions: [], pipelines: [], sinks: [], sink_sessions: [], deployments: [] };
  return { ...rows, health: { status: "ready", problems: [], problems_in_all: 0 } } as unknown as Status;
}

/** A generator of numbers by seed, so that a case that fails can be repeated. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
}

describe("the layout", () => {
  it("keeps boxes in their layers, apart from each other, with edges to the right", () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const draw = numbers(seed);
      const boxes: Box[] = Array.from({ length: 1 + draw(30) }, (_, id) => ({
        id: `part ${id}`,
        layer: draw(4),
        width: 266,
        height: 66 + 17 * draw(6),
      }));
      const edges = Array.from({ length: draw(40) }, (): [string, string] => {
        const [a, b] = [boxes[draw(boxes.length)], boxes[draw(boxes.length)]];
        return [a?.id ?? "", b?.id ?? ""];
      });
      const { places, width, height } = layout(boxes, edges);
      expect([...places.keys()].sort()).toEqual(boxes.map((box) => box.id).sort());
      const placed = boxes.map((box) => ({ ...box, ...(places.get(box.id) ?? { x: NaN, y: NaN }) }));
      for (const one of placed) {
        expect(
          [one.x >= 0, one.y >= 0, one.x + one.width <= width, one.y + one.height <= height],
          `seed ${seed}`,
        ).toEqual([true, true, true, true]);
        for (const other of placed) {
          if (one === other) continue;
          if (one.layer < other.layer) expect(one.x + one.width, `seed ${seed}`).toBeLessThan(other.x);
          if (one.layer === other.layer) {
            expect(one.x, `seed ${seed}`).toBe(other.x);
            expect(one.y + one.height <= other.y || other.y + other.height <= one.y, `seed ${seed}`).toBe(true);
          }
        }
      }
    }
  });

  it("leaves no room for a layer without parts", () => {
    const box = (id: string, layer: number): Box => ({ id, layer, width: 100, height: 50 });
    const { width } = layout([box("stream a", 1), box("pipeline p", 2)], [["stream a", "pipeline p"]]);
    expect(width).toBe(100 + 64 + 100);
    expect(layout([], [])).toEqual({ places: new Map(), width: 0, height: 0 });
  });
});

describe("the way to the first cause", () => {
  const edges: [string, string][] = [
    ["connector c", "stream a"],
    ["stream a", "pipeline p"],
    ["pipeline p", "sink s"],
    ["pipeline q", "sink s"],
  ];
  const known = new Set(edges.flat());
  const nodeOf = (part: string): string | undefined => (known.has(part) ? part : undefined);

  it("follows edges in both directions, and marks nothing else", () => {
    const found = causePaths([problem("sink s"), problem("stream a", "sink s")], edges, nodeOf);
    expect([...found.roots.keys()]).toEqual(["sink s"]);
    expect([...found.edges].sort()).toEqual(["pipeline p>sink s", "stream a>pipeline p"]);
  });

  it("ignores pauses, and parts that the graph does not have", () => {
    const paused = problem("stream a", "connector c", "paused");
    const found = causePaths([paused, problem("sink s", "file /x"), problem("file /x")], edges, nodeOf);
    expect([found.roots.size, found.edges.size]).toEqual([0, 0]);
  });
});

describe("the graph in a fault", () => {
  const stream = {
    stream: "orders/0",
    state: "detached",
    instance: null,
    last_instance: "orders-0",
    lag_messages: 0,
    oldest_unacknowledged_ms: 0,
    stalled_ms: null,
    holders: [],
    paused: null,
  };
  const pipeline = { pipeline: "p", patterns: ["orders/*"], committed: {}, batch_ms: null, paused: null, steps: [] };
  const sink = {
    sink: "out",
    instances: [],
    writers: ["p"],
    committed: {},
    open_parts: 0,
    pending_transactions: 0,
    outstanding: null,
  };
  const rows = { streams: [stream], pipelines: [{ ...pipeline, lag_messages: 0 }] };
  const status = {
    ...empty(),
    ...rows,
    sinks: [{ ...sink, outstanding_ms: null, staged_messages: 0 }],
  } as unknown as Status;

  it("keeps its edges when connectors and queries are away", () => {
    const history = new History();
    const all = [
      ["connector orders-0", "stream orders/0"],
      ["stream orders/0", "pipeline p"],
      ["pipeline p", "sink out"],
    ];
    expect(graph(status, history, String).edges).toEqual(all);
    const ended = { ...status, sinks: status.sinks.map((one) => ({ ...one, writers: [], committed: {} })) };
    expect(graph(ended, history, String).edges).toEqual(all);
    const known = { ...ended, sinks: ended.sinks.map((one) => ({ ...one, committed: { p: 4 } })) };
    expect(graph(known, new History(), String).edges).toEqual(all);
  });

  it("leads to the connector of a sink by its sink", () => {
    const health = {
      status: "degraded" as const,
      problems: [problem("pipeline p", "connector k of sink out")],
      problems_in_all: 1,
    };
    const { causes } = graph({ ...status, health }, new History(), String);
    expect([...causes.roots.keys(), ...causes.edges]).toEqual(["sink out", "pipeline p>sink out"]);
    // Not what the sink itself waits for.
    expect(causes.roots.get("sink out")).toBe(health.problems[0]?.cause);
  });
});

describe("marks", () => {
  it("differ in shape and in colour for each condition of the graph", () => {
    expect(new Set(CONDITIONS.map((one) => markOf(one).shape)).size).toBe(CONDITIONS.length);
    expect(new Set(CONDITIONS.map((one) => markOf(one).tone)).size).toBe(CONDITIONS.length);
    expect(Object.keys(MARKS)).toEqual(expect.arrayContaining([...CONDITIONS]));
  });
});

describe("patterns", () => {
  it("cover what the gateway says they cover", () => {
    const cases: [string, string, boolean][] = [
      ["orders/*", "orders/0", true],
      ["orders/*", "orders/a/b", false],
      ["*/0", "orders/0", true],
      ["or*er*/1*", "orders/10", true],
      ["a*a/0", "a/0", false],
      ["ab*bc/0", "abc/0", false],
      ["orders/0", "orders/0", true],
      ["orders/0", "orders/00", false],
    ];
    expect(cases.map(([pattern, name]) => covers(pattern, name))).toEqual(cases.map((one) => one[2]));
  });
});

describe("durations", () => {
  it("count only micro-batches that reached the stage", () => {
    const batch = (ms: number): Batch => {
      const stages = { planned: new Date(0).toISOString(), committed: new Date(ms).toISOString() };
      return { batch: ms, rebuilt: false, redelivered: false, stages, streams: [], streams_in_all: 0 };
    };
    const batches = Array.from({ length: 200 }, (_, n) => batch(n + 1));
    expect(durations(batches)).toEqual([{ stage: "committed", min: 1, p50: 100, p99: 198, max: 200 }]);
    expect(durations([])).toEqual([]);
    expect(durations([batch(7)])).toEqual([{ stage: "committed", min: 7, p50: 7, p99: 7, max: 7 }]);
  });
});

describe("plots", () => {
  it("show every kind of part, with a gap where there was no value", () => {
    for (const kind of ["gateway", "stream", "pipeline", "sink"] as const) {
      const plots = plotsOf({ kind, name: "x", interval_ms: 5000, times_ms: [], values: {} });
      expect(plots).toHaveLength(4);
    }
    const values = { lag_messages: [1, 2, null] };
    expect(lastOf({ kind: "gateway", name: "", interval_ms: 5000, times_ms: [1, 2, 3], values }, "lag_messages")).toBe(
      2,
    );
    expect(lastOf(null, "lag_messages")).toBe(null);
  });
});

describe("the search", () => {
  it("finds parts of all kinds by words, first the ones that begin with the text", () => {
    const streams = ["new-orders/0", "orders/10", "orders/9"].map((name) => ({
      stream: name,
      condition: "idle",
      paused: null,
    }));
    const pipelines = [{ pipeline: "orders", state: "attached", paused: null, steps: [{ step: "parse orders" }] }];
    const processes = [{ name: "orders", state: "runs" }];
    const deployments = [{ deployment: "shop", processes }];
    const status = { ...empty(), streams, pipelines, deployments } as unknown as Status;
    expect(search(status, "ORD").map((one) => one.part)).toEqual([
      "pipeline orders",
      "process orders of shop",
      "stream orders/9",
      "stream orders/10",
      "step parse orders",
      "stream new-orders/0",
    ]);
    expect(search(status, "stream 10").map((one) => one.name)).toEqual(["orders/10"]);
    expect(search(status, "  ")).toEqual([]);
  });
});
