/** Applies the changes that the gateway sends to the status before them. */

import type { Deployment, Gateway, Health, Pipeline, Session, Sink, SinkSession, Status, Stream } from "./documents";

export interface RowChanges<Row> {
  /** Rows that are new, and of the others the name and the fields that are different. */
  set?: Partial<Row>[];
  removed?: string[];
}

export interface Changes {
  at_ms: number;
  gateway?: Gateway;
  health?: Health;
  streams?: RowChanges<Stream>;
  sessions?: RowChanges<Session>;
  pipelines?: RowChanges<Pipeline>;
  sinks?: RowChanges<Sink>;
  sink_sessions?: RowChanges<SinkSession>;
  deployments?: RowChanges<Deployment>;
}

/** Returns rows with changes; the same array if nothing has changed, so that views need not draw again. */
export function changedRows<Row>(rows: Row[], changes: RowChanges<Row> | undefined, key: keyof Row): Row[] {
  if (changes === undefined || (!changes.set?.length && !changes.removed?.length)) return rows;
  const set = new Map((changes.set ?? []).map((row) => [row[key], row]));
  const removed = new Set<unknown>(changes.removed);
  const kept = rows
    .filter((row) => !removed.has(row[key]))
    .map((row) => {
      const next = set.get(row[key]);
      set.delete(row[key]);
      return next ? { ...row, ...next } : row;
    });
  return [...kept, ...(set.values() as Iterable<Row>)];
}

export function changed(status: Status, changes: Changes): Status {
  return {
    gateway: changes.gateway ?? status.gateway,
    health: changes.health ?? status.health,
    streams: changedRows(status.streams, changes.streams, "stream"),
    sessions: changedRows(status.sessions, changes.sessions, "session"),
    pipelines: changedRows(status.pipelines, changes.pipelines, "pipeline"),
    sinks: changedRows(status.sinks, changes.sinks, "sink"),
    sink_sessions: changedRows(status.sink_sessions, changes.sink_sessions, "session"),
    deployments: changedRows(status.deployments, changes.deployments, "deployment"),
  };
}

/** Returns a status with its health: `/api/v1/status` has the problems themselves, an event has a field `health`. */
export function withHealth(document: Omit<Status, "health"> & Partial<Health> & { health?: Health }): Status {
  if (document.health) return document as Status;
  const problems = document.problems ?? [];
  const degraded = problems.some((problem) => problem.kind !== "paused");
  const health = { status: degraded ? "degraded" : "ready", problems, problems_in_all: document.problems_in_all ?? 0 };
  return { ...document, health };
}
