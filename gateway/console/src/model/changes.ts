/** Applies the changes that the gateway sends to the status before them. */

import { isFault } from "./causes";
import type {
  Deployment,
  Gateway,
  Health,
  Heard,
  Pipeline,
  Session,
  Sink,
  SinkSession,
  Status,
  StatusDocument,
  Stream,
} from "./documents";

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
export function changedRows<Row extends Heard>(
  rows: Row[],
  changes: RowChanges<Row> | undefined,
  key: keyof Row,
  at: number,
): Row[] {
  if (changes === undefined || (!changes.set?.length && !changes.removed?.length)) return rows;
  const set = new Map((changes.set ?? []).map((row) => [row[key], row]));
  const removed = new Set<unknown>(changes.removed);
  const kept = rows
    .filter((row) => !removed.has(row[key]))
    .map((row) => {
      const next = set.get(row[key]);
      set.delete(row[key]);
      return next ? { ...row, ...next, heard_at: at } : row;
    });
  return [...kept, ...heard([...(set.values() as Iterable<Row>)], at)];
}

function heard<Row extends object>(rows: Row[], at: number): (Row & Heard)[] {
  return rows.map((row) => ({ ...row, heard_at: at }));
}

/**
 * Returns a status with changes.
 *
 * @param at when the page heard of them, by its own clock
 */
export function changed(status: Status, changes: Changes, at: number): Status {
  return {
    gateway: changes.gateway ? { ...changes.gateway, heard_at: at } : status.gateway,
    health: changes.health ?? status.health,
    streams: changedRows(status.streams, changes.streams, "stream", at),
    sessions: changedRows(status.sessions, changes.sessions, "session", at),
    pipelines: changedRows(status.pipelines, changes.pipelines, "pipeline", at),
    sinks: changedRows(status.sinks, changes.sinks, "sink", at),
    sink_sessions: changedRows(status.sink_sessions, changes.sink_sessions, "session", at),
    deployments: changedRows(status.deployments, changes.deployments, "deployment", at),
  };
}

/** Returns a status as the page hears of it, with its health: `/api/v1/status` lists problems, an event has `health`. */
export function whole(document: StatusDocument, at: number): Status {
  return {
    gateway: { ...document.gateway, heard_at: at },
    health: document.health ?? healthOf(document),
    streams: heard(document.streams, at),
    sessions: heard(document.sessions, at),
    pipelines: heard(document.pipelines, at),
    sinks: heard(document.sinks, at),
    sink_sessions: heard(document.sink_sessions, at),
    deployments: heard(document.deployments, at),
  };
}

function healthOf(document: StatusDocument): Health {
  const { problems, problems_in_all } = document;
  const degraded = problems.some(isFault);
  return { status: degraded ? "degraded" : "ready", problems, problems_in_all };
}

/** How old something is now: the gateway's age of it, and the time since the page heard of its row. */
export function ageOf(ms: number, row: Heard, now: number): number {
  return ms + Math.max(0, now - (row.heard_at ?? now));
}
