/**
 * A counter of the SDK.
 *
 * - `headrace.sessions`: sessions that began; all but the first are reconnects.
 * - `headrace.frames`, `headrace.messages`, `headrace.bytes`: what was sent by a source, or received by a sink.
 * - `headrace.acknowledged`: acknowledgements that a stream received.
 * - `headrace.unsendable`: messages that a source left out because the gateway cannot take them.
 * - `headrace.transactions`: transactions that a sink voted for, committed, aborted, or failed.
 */
export type Counter =
  | "headrace.sessions"
  | "headrace.frames"
  | "headrace.messages"
  | "headrace.bytes"
  | "headrace.acknowledged"
  | "headrace.unsendable"
  | "headrace.transactions";

/** What a count concerns: `stream` for a source, `sink` and `outcome` for a sink. */
export type Attributes = Readonly<Record<string, string>>;

/**
 * Receives the counts of a connector. It has the shape of OpenTelemetry's counters:
 *
 *     const metrics = { add: (name, value, attributes) => counters[name].add(value, attributes) };
 *
 * Called once for each frame, never for single messages.
 */
export interface Metrics {
  /** Adds to a counter. */
  add(counter: Counter, value: number, attributes: Attributes): void;
}

/** Counts nothing. The default of the SDK. */
export const noMetrics: Metrics = { add: () => undefined };
