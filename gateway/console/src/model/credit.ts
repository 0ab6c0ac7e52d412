import type { Session } from "./documents";

/** The fraction of its credit that a session has left, of bytes or messages, whichever is less. */
export function credit(session: Session): number {
  const left = (free: number, held: number): number => (free + held > 0 ? free / (free + held) : 1);
  return Math.min(
    left(session.credit_bytes, session.outstanding_bytes),
    left(session.credit_messages, session.outstanding_messages),
  );
}
