/** The graph of sources, streams, pipelines and sinks, in four columns. Many parts of one kind are one node. */

import type { Condition } from "./words";
import { credit } from "./credit";
import type { Fallible, Session, Status, Stream } from "./documents";
import { isFault, splitPart } from "./causes";
import { grouped } from "./group";
import { causePaths, type CausePaths } from "./cause_paths";
import { stepPart, type History } from "./history";
import { covers } from "./pattern";

export interface NodeStep {
  name: string;
  received: number;
  sent: number;
  failed: number;
  /** Messages that broke their contract; some of them have failed, others lost values. */
  violated: number;
}

export interface Node {
  id: string;
  column: 0 | 1 | 2 | 3;
  name: string;
  condition: Condition;
  /** Messages in a second; null for a connector, whose streams have rates. */
  rate: number | null;
  lag: number;
  /** What holds it back; empty if nothing does. */
  pressure: string;
  steps: NodeStep[];
}

export interface Graph {
  nodes: Node[];
  edges: [from: string, to: string][];
  causes: CausePaths;
}

/** Above this number, streams are shown by what is before the last slash of their names, and sources by their connector. */
export const SINGLE = 12;

export function graph(status: Status, history: History, duration: (ms: number) => string): Graph {
  const troubled = new Set(status.health.problems.filter(isFault).map((one) => one.part));
  const nodes: Node[] = [];
  const edges = new Map<string, [string, string]>();
  const join = (from: string, to: string): unknown => edges.set(`${from}>${to}`, [from, to]);
  const sessions = new Map(status.sessions.map((one) => [one.instance, one]));
  const oldest = (streams: Stream[]): number =>
    Math.max(0, ...streams.map((one) => (one.lag_messages ? one.oldest_unacknowledged_ms : 0)));

  const ofSession = (one: Session): string =>
    `connector ${status.sessions.length > SINGLE ? one.connector : one.instance}`;
  for (const [id, members] of grouped(status.sessions, ofSession)) {
    nodes.push({
      id,
      column: 0,
      name: labelled(id, members.length),
      condition: worst(members),
      rate: null,
      lag: sum(members.map((one) => one.outstanding_messages)),
      pressure: `${Math.floor(Math.min(...members.map(credit)) * 100)} % of credit left`,
      steps: [],
    });
  }

  const known = new Set(nodes.map((node) => node.id));
  const many = status.streams.length > SINGLE;
  const ofStream = (stream: string): string =>
    `stream ${many && stream.includes("/") ? `${stream.slice(0, stream.lastIndexOf("/"))}/*` : stream}`;
  for (const [id, members] of grouped(status.streams, (one) => ofStream(one.stream))) {
    const waits = oldest(members);
    nodes.push({
      id,
      column: 1,
      name: labelled(id, members.length),
      condition: worst(members),
      rate: sum(members.map((one) => history.rate(`stream ${one.stream}`, "received"))),
      lag: sum(members.map((one) => one.lag_messages)),
      pressure: waits ? `oldest ${duration(waits)}` : "",
      steps: [],
    });
    for (const one of members) {
      const session = one.instance === null ? undefined : sessions.get(one.instance);
      const away =
        session === undefined && one.last_instance !== null && one.state !== "ended"
          ? `connector ${one.last_instance}`
          : null;
      if (session) join(ofSession(session), id);
      else if (away !== null && (known.has(away) || known.size < SINGLE)) {
        // Its connector is away: without a node, the stream would come from nowhere.
        if (!known.has(away)) nodes.push(absent(away, troubled.has(`stream ${one.stream}`)));
        known.add(away);
        join(away, id);
      }
      for (const holder of one.holders) join(id, `pipeline ${holder.pipeline}`);
    }
  }

  for (const one of status.pipelines) {
    const id = `pipeline ${one.pipeline}`;
    const committed = history.rate(id, "done");
    nodes.push({
      id,
      column: 2,
      name: id,
      condition: one.condition,
      rate: committed,
      lag: one.lag_messages,
      pressure: one.batch_ms === null ? "no micro-batch" : `micro-batch for ${duration(one.batch_ms)}`,
      steps: one.steps.map((step) => ({
        name: step.step,
        received: history.rate(stepPart(one.pipeline, step.step), "received"),
        sent: history.rate(stepPart(one.pipeline, step.step), "done"),
        failed: step.failed,
        violated: step.violated,
      })),
    });
    for (const stream of Object.keys(one.committed)) join(ofStream(stream), id);
    // One that has not committed anything yet, or is away, still reads what it asks for.
    for (const { stream } of status.streams) {
      if (one.patterns.some((pattern) => covers(pattern, stream))) join(ofStream(stream), id);
    }
  }

  for (const one of status.sinks) {
    const id = `sink ${one.sink}`;
    const staged = history.rate(id, "done");
    nodes.push({
      id,
      column: 3,
      name: id,
      condition: one.condition,
      rate: staged,
      lag: one.pending_transactions,
      pressure: one.outstanding === null ? "" : `${one.outstanding}, for ${duration(one.outstanding_ms ?? 0)}`,
      steps: [],
    });
    for (const writer of one.writers) history.noteWriter(writer, one.sink);
    // A query that has failed writes no more, and is still what stands before the sink.
    for (const writer of [...one.writers, ...Object.keys(one.committed), ...history.writersOf(one.sink)]) {
      join(`pipeline ${writer}`, id);
    }
  }
  const drawn = new Set(nodes.map((node) => node.id));
  const joined = [...edges.values()].filter(([from, to]) => drawn.has(from) && drawn.has(to));
  const nodeOf = (part: string): string | undefined => {
    const [kind, name] = splitPart(part);
    const [instance, sink] = name.split(" of sink ", 2);
    const session = sessions.get(name);
    const node =
      kind === "stream"
        ? ofStream(name)
        : kind !== "connector"
          ? part
          : sink !== undefined
            ? `sink ${sink}`
            : session
              ? ofSession(session)
              : `connector ${instance}`;
    return drawn.has(node) ? node : undefined;
  };
  return { nodes, edges: joined, causes: causePaths(status.health.problems, joined, nodeOf) };
}

/** The conditions by how much they need attention; many parts that are paused or have ended among others do not. */
const ORDER: Condition[] = [
  "trouble",
  "source stalled",
  "stalled",
  "no credit",
  "flows",
  "waits",
  "idle",
  "detached",
  "paused",
  "ended",
];

function worst(members: Fallible[]): Condition {
  return ORDER.find((one) => members.some((member) => member.condition === one)) ?? "idle";
}

/** The node of a source's connector that has no session. */
function absent(id: string, isMissed: boolean): Node {
  return {
    id,
    column: 0,
    name: id,
    condition: isMissed ? "trouble" : "detached",
    rate: null,
    lag: 0,
    pressure: "no session",
    steps: [],
  };
}

function labelled(id: string, members: number): string {
  return members > 1 ? `${id} (${members})` : id;
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
