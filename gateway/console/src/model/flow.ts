/** What a part does, in a word, as in `headrace top`: one that has nothing to do differs from one that makes no progress. */

import type { Session, Stream } from "./documents";

export const FLOWS = ["flows", "idle", "waits", "no credit", "stalled", "source stalled", "trouble", "paused"] as const;
export type Flow = (typeof FLOWS)[number];

const STALLED_MS = 10_000;
const NO_CREDIT = 0.02;

/** The fraction of its credit that a session has left, of bytes or messages, whichever is less. */
export function credit(session: Session): number {
  const left = (free: number, held: number): number => (free + held > 0 ? free / (free + held) : 1);
  return Math.min(
    left(session.credit_bytes, session.outstanding_bytes),
    left(session.credit_messages, session.outstanding_messages),
  );
}

export function hasNoCredit(session: Session | undefined): boolean {
  return session !== undefined && credit(session) < NO_CREDIT;
}

/** What becomes of messages that wait: `waitMs` is the age of the oldest one. */
export function flow(lag: number, doneRate: number, waitMs: number, noCredit = false): Flow {
  if (!lag) return doneRate ? "flows" : "idle";
  if (doneRate) return "flows";
  if (waitMs >= STALLED_MS) return "stalled";
  return noCredit ? "no credit" : "waits";
}

/** The same of a stream, or its state if no connector sends it. */
export function streamFlow(row: Stream, doneRate: number, session: Session | undefined): Flow | Stream["state"] {
  if (row.paused) return "paused";
  if (row.state !== "live") return row.state;
  if (row.stalled_ms !== null) return "source stalled";
  return flow(row.lag_messages, doneRate, row.oldest_unacknowledged_ms, hasNoCredit(session));
}
