/** The graph of sources, streams, pipelines and sinks, in four columns. Many streams of one kind are one node. */

import type { Status } from "./documents";
import type { History } from "./history";

export type Condition = "flowing" | "idle" | "stalled" | "trouble" | "paused";

export interface Node {
  id: string;
  column: 0 | 1 | 2 | 3;
  name: string;
  condition: Condition;
  /** The name, condition and numbers, as text. */
  facts: string[];
  part: string;
}

export interface Graph {
  nodes: Node[];
  edges: [from: string, to: string][];
}

/** Above this number, streams are shown by what is before the last slash of their names. */
export const SINGLE = 12;

export function graph(
  status: Status,
  history: History,
  text: { rate: (value: number) => string; count: (value: number) => string },
): Graph {
  const troubled = new Set(status.health.problems.filter((one) => one.kind !== "paused").map((one) => one.part));
  const nodes: Node[] = [];
  const edges = new Map<string, [string, string]>();
  const join = (from: string, to: string): unknown => edges.set(`${from}>${to}`, [from, to]);
  const many = status.streams.length > SINGLE;
  const group = (stream: string): string =>
    many && stream.includes("/") ? stream.slice(0, stream.lastIndexOf("/")) : stream;

  for (const one of status.sessions) {
    const id = `connector ${one.instance}`;
    const starved = one.credit_bytes <= 0 || one.credit_messages <= 0;
    const bad = troubled.has(id) || one.state === "degraded" || one.state === "waiting";
    nodes.push({
      id,
      column: 0,
      name: one.instance,
      part: id,
      condition: one.paused
        ? "paused"
        : bad
          ? "trouble"
          : starved
            ? "stalled"
            : one.outstanding_messages
              ? "flowing"
              : "idle",
      facts: [`${text.count(one.outstanding_messages)} in flight`, ...(starved ? ["back pressure: no credit"] : [])],
    });
  }
  for (const [name, streams] of Map.groupBy(status.streams, (one) => group(one.stream))) {
    const id = `stream ${name}`;
    const received = sum(streams.map((one) => history.rate(one.stream, "received")));
    const acknowledged = sum(streams.map((one) => history.rate(one.stream, "acknowledged")));
    const lag = sum(streams.map((one) => one.lag_messages));
    const condition = streams.some((one) => troubled.has(`stream ${one.stream}`))
      ? "trouble"
      : streams.every((one) => one.paused)
        ? "paused"
        : received || acknowledged
          ? "flowing"
          : lag
            ? "stalled"
            : "idle";
    const label = streams.length > 1 ? `${name}/* (${streams.length})` : name;
    nodes.push({
      id,
      column: 1,
      name: label,
      part: `stream ${name}`,
      condition,
      facts: [text.rate(received), `lag ${text.count(lag)}`],
    });
    for (const one of streams) {
      if (one.instance !== null) join(`connector ${one.instance}`, id);
      for (const holder of one.holders) join(id, `pipeline ${holder.pipeline}`);
    }
  }
  for (const one of status.pipelines) {
    const id = `pipeline ${one.pipeline}`;
    const busy = one.batch_ms !== null;
    nodes.push({
      id,
      column: 2,
      name: one.pipeline,
      part: id,
      condition: one.paused
        ? "paused"
        : troubled.has(id)
          ? "trouble"
          : busy
            ? "flowing"
            : one.lag_messages
              ? "stalled"
              : "idle",
      facts: [`lag ${text.count(one.lag_messages)}`, `${text.count(one.planned_batches)} micro-batches`],
    });
    for (const stream of Object.keys(one.committed)) join(`stream ${group(stream)}`, id);
  }
  for (const one of status.sinks) {
    const id = `sink ${one.sink}`;
    nodes.push({
      id,
      column: 3,
      name: one.sink,
      part: id,
      condition: one.paused ? "paused" : troubled.has(id) ? "trouble" : one.open_parts ? "flowing" : "idle",
      facts: [`${text.count(one.pending_transactions)} pending`, `${text.count(one.staged_messages)} staged`],
    });
    for (const writer of one.writers) join(`pipeline ${writer}`, id);
  }
  const known = new Set(nodes.map((node) => node.id));
  return { nodes, edges: [...edges.values()].filter(([from, to]) => known.has(from) && known.has(to)) };
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
