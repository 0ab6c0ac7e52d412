/** The documents of the gateway's API, as far as the console shows them; see headrace/gateway_status/document.py. */

import type { Condition } from "./words";
import type { HistoryFields } from "./history_fields";

/** A 64-bit integer: a bigint if a number does not hold it exactly. */
export type Large = number | bigint;

export interface Position {
  epoch: Large;
  sequence: Large;
  cursor: string | null;
}

export interface Pause {
  part: string;
  by: string;
  age_ms: number;
}

/** What went wrong last. It is over once health lists no problem of the part. */
export interface LastError {
  message: string;
  at: string;
  is_over: boolean;
}

/** A row whose ages are as of when the page heard of it: the gateway does not send a row again that only grows older. */
export interface Heard {
  heard_at?: number;
}

/** A part with what it does, and its last error. */
export interface Fallible extends Heard {
  /** Null if the gateway is of a version that does not tell. */
  condition: Condition | null;
  last_error: LastError | null;
  last_error_age_ms: number | null;
}

export interface Gateway extends Heard {
  address: string;
  version: string;
  uptime_ms: number;
  buffered_bytes: number;
  buffer_limit_bytes: number;
  buffered_messages: number;
  draining: boolean;
  received_messages: number;
  acknowledged_messages: number;
}

export interface Stream extends Fallible {
  stream: string;
  state: "parked" | "live" | "detached" | "ended" | "lost";
  detail: string;
  state_age_ms: number;
  instance: string | null;
  last_instance: string | null;
  readers: number;
  received: Position | null;
  acknowledged: Position | null;
  received_messages: number;
  acknowledged_messages: number;
  lag_messages: number;
  lag_bytes: number;
  oldest_unacknowledged_ms: number;
  stalled_ms: number | null;
  holders: { pipeline: string; state: string; held_ms: number }[];
  paused: Pause | null;
}

/** What a connector reports about itself. */
export interface Reported extends Fallible {
  session: string;
  connector: string;
  connector_version: string;
  instance: string;
  peer: string;
  age_ms: number;
  sdk: { name: string; version: string; language: string } | null;
  state: "connecting" | "running" | "degraded" | "waiting" | null;
  state_age_ms: number | null;
  reason: string;
  errors: { message: string; age_ms: number; stream: string | null }[];
}

export interface Session extends Reported {
  streams: number;
  credit_bytes: number;
  credit_messages: number;
  outstanding_bytes: number;
  outstanding_messages: number;
  paused: Pause | null;
}

export interface SinkSession extends Reported {
  sink: string;
}

export interface Step {
  step: string;
  received: number;
  sent: number;
  failed: number;
  late: number;
  keys: number;
  time_ms: number;
}

export interface Pipeline extends Fallible {
  pipeline: string;
  run: number;
  attached: boolean;
  state: "attached" | "away" | "detached" | "awaited";
  patterns: string[];
  committed: Record<string, Position | null>;
  idle_ms: number;
  planned_batches: number;
  batch_ms: number | null;
  paused: Pause | null;
  lag_messages: number;
  lag_bytes: number;
  steps: Step[];
}

export interface Sink extends Fallible {
  sink: string;
  mode: string | null;
  instances: string[];
  away: string[];
  absent_ms: number | null;
  /** The last visible micro-batch of each pipeline. */
  committed?: Record<string, number>;
  writers: string[];
  failures: number;
  failure: string | null;
  failure_age_ms: number | null;
  open_parts: number;
  pending_transactions: number;
  staged_messages: number;
  dead_letters: number;
  paused: Pause | null;
  outstanding: string | null;
  outstanding_ms: number | null;
}

/** A deployment whose supervisor is registered. */
export interface Deployment extends Heard {
  deployment: string;
  connectors: {
    name: string;
    instance: string;
    replays: string | null;
    failure: string | null;
    failing_ms: number | null;
  }[];
  restarting: string[];
  processes: Process[];
  /** The connectors whose dead letters are being replayed. */
  replaying: string[];
}

/** A process of a deployment. */
export interface Process {
  name: string;
  kind: "gateway" | "connector" | "application" | "query";
  pipelines: string[];
  state: "starts" | "runs" | "waits" | "ended" | "stopped";
  state_age_ms: number;
  restarts: number;
  reason: string | null;
  reason_age_ms: number | null;
  log_fault: string | null;
  log_fault_age_ms: number | null;
  next_start_ms: number | null;
  version: string | null;
  memory_bytes: number | null;
  pid: number | null;
}

/** The last lines of the log of a process. */
export interface ProcessLog {
  name: string;
  deployment: string;
  path: string;
  lines: string[];
}

/** A replay of dead letters that has ended: all is acknowledged. */
export interface Replayed {
  sink: string;
  source: string;
  deployment: string;
  connector: string;
  pid: number;
  seconds: number;
}

/** What a connector was restarted with. */
export interface Restarted {
  name: string;
  deployment: string;
  state: "runs" | "ended";
  pid: number;
  stopped_pid: number | null;
  stopped_exit_code: number | null;
  seconds: number;
}

export interface Problem {
  part: string;
  kind: string;
  cause: string;
  root: string;
  since: string;
  remedy: string;
}

export interface Health {
  status: string;
  problems: Problem[];
  problems_in_all: number;
}

export interface Status {
  gateway: Gateway;
  streams: Stream[];
  sessions: Session[];
  pipelines: Pipeline[];
  sinks: Sink[];
  sink_sessions: SinkSession[];
  deployments: Deployment[];
  health: Health;
}

export const STAGES = [
  "planned",
  "read",
  "processed",
  "staged",
  "voted",
  "committed",
  "sink_committed",
  "acknowledged",
] as const;
export type Stage = (typeof STAGES)[number];

export interface Batch {
  batch: number | null;
  rebuilt: boolean;
  redelivered: boolean;
  stages: Partial<Record<Stage, string>>;
  streams: { stream: string; epoch: Large; after: Large | null; end: Large; messages: number | null }[];
  streams_in_all: number;
}

export interface Timeline {
  pipeline: string;
  batches: Batch[];
  summary: Partial<Record<Stage, { min_ms: number; avg_ms: number; max_ms: number }>>;
}

/** Where a message stands. */
export interface Located {
  stream: string;
  epoch: Large;
  sequence: Large;
  state: string;
  reason: string;
  held_by: string[];
  pipelines: {
    pipeline: string;
    state: string;
    batch: number | null;
    stage: Stage | null;
    reason: string;
    problem: Problem | null;
  }[];
  problem: Problem | null;
}

export type HistoryField = HistoryFields[keyof HistoryFields];

/** The values of a part in the last hour. */
export interface PartHistory {
  kind: keyof HistoryFields;
  name: string;
  interval_ms: number;
  times_ms: number[];
  values: Partial<Record<HistoryField, (number | null)[]>>;
}

/** Something that happened. */
export interface HappenedEvent {
  number: number;
  at: string;
  kind: string;
  part: string;
  text: string;
}
