/** Which plots show the history of a part, and what each is measured in. */

import type { HistoryField, PartHistory } from "./documents";
import { bytes, count, duration, rate } from "./format";
import type { HistoryFields } from "./history_fields";

export interface PlotLine {
  name: string;
  values: (number | null)[];
}

export interface PlotOf {
  title: string;
  format: (value: number) => string;
  lines: PlotLine[];
}

interface Kind<Field extends HistoryField> {
  title: string;
  format: (value: number) => string;
  /** The fields of the document, and what they are called. */
  fields: Partial<Record<Field, string>>;
}

const DECIMAL = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** (power - 3))).flat();
const BINARY = Array.from({ length: 51 }, (_, power) => 2 ** power);
const DURATIONS = [
  ...DECIMAL.filter((ms) => ms <= 10_000),
  ...[20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200].map((seconds) => seconds * 1000),
  ...Array.from({ length: 10 }, (_, power) => 86_400_000 * 2 ** power),
];

/** The distances between lines of a plot that are round numbers in the units in which its values are shown. */
export function steps(format: (value: number) => string): number[] {
  return format === bytes ? BINARY : format === duration ? DURATIONS : DECIMAL;
}

const MESSAGES = (value: number): string => count(Math.round(value));

type Common = HistoryFields["gateway"] & HistoryFields["stream"];

const FLOW: Kind<Common> = {
  title: "Messages in a second",
  format: rate,
  fields: { received_messages_per_s: "received", acknowledged_messages_per_s: "acknowledged" },
};
const LAG: Kind<"lag_messages"> = { title: "Lag in messages", format: MESSAGES, fields: { lag_messages: "lag" } };
const BUFFERED: Kind<Common> = { title: "Buffered", format: bytes, fields: { buffered_bytes: "bytes" } };

const PLOTS: { [Of in keyof HistoryFields]: Kind<HistoryFields[Of]>[] } = {
  gateway: [
    FLOW,
    { title: "How late", format: duration, fields: { oldest_unacknowledged_ms: "oldest unacknowledged" } },
    LAG,
    BUFFERED,
  ],
  stream: [
    FLOW,
    {
      title: "How late",
      format: duration,
      fields: { oldest_unacknowledged_ms: "oldest unacknowledged", commit_latency_ms: "arrival to commit" },
    },
    LAG,
    BUFFERED,
  ],
  pipeline: [
    {
      title: "Micro-batches",
      format: duration,
      fields: { batch_duration_ms: "committed", batch_running_ms: "running" },
    },
    {
      title: "Latency",
      format: duration,
      fields: { commit_latency_ms: "arrival to commit", acknowledgement_latency_ms: "commit to acknowledgement" },
    },
    LAG,
    { title: "Micro-batches in a second", format: rate, fields: { batches_per_s: "planned" } },
  ],
  sink: [
    { title: "Messages in a second", format: rate, fields: { staged_messages_per_s: "staged" } },
    { title: "Waits for an answer", format: duration, fields: { outstanding_ms: "longest" } },
    {
      title: "Transactions in a second",
      format: rate,
      fields: { committed_transactions_per_s: "committed", failures_per_s: "failed" },
    },
    { title: "Pending transactions", format: MESSAGES, fields: { pending_transactions: "pending" } },
  ],
};

/** Returns the plots of a part. */
export function plotsOf(history: PartHistory): PlotOf[] {
  return (PLOTS[history.kind] as Kind<HistoryField>[]).map(({ title, format, fields }) => ({
    title,
    format,
    lines: (Object.entries(fields) as [HistoryField, string][]).map(([field, name]) => ({
      name,
      values: history.values[field] ?? [],
    })),
  }));
}

/** The last value of a field that there is; null if there is none. */
export function lastOf(history: PartHistory | null, field: HistoryField): number | null {
  return history?.values[field]?.findLast((value) => value !== null) ?? null;
}
