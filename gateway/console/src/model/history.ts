/** What streams were like in the last minutes, for rates and for the lag over time. */

import type { Stream } from "./documents";

export interface Sample {
  at: number;
  lag: number;
  received: number;
  acknowledged: number;
}

export const EVERY_MS = 2000;
export const SAMPLES = 90;
const RATE_MS = 10_000;

export class History {
  private samples = new Map<string, Sample[]>();
  private last = 0;

  /** Takes a sample of all streams, unless the last one is too recent. */
  record(streams: Stream[], at: number): void {
    if (at - this.last < EVERY_MS) return;
    this.last = at;
    const next = new Map<string, Sample[]>();
    for (const row of streams) {
      const before = this.samples.get(row.stream) ?? [];
      const sample = {
        at,
        lag: row.lag_messages,
        received: row.received_messages,
        acknowledged: row.acknowledged_messages,
      };
      next.set(row.stream, [...before.slice(1 - SAMPLES), sample]);
    }
    this.samples = next;
  }

  of(stream: string): Sample[] {
    return this.samples.get(stream) ?? [];
  }

  /** Messages for each second, received or acknowledged, in the last ten seconds. */
  rate(stream: string, field: "received" | "acknowledged"): number {
    const samples = this.of(stream);
    const end = samples.at(-1);
    const start = samples.find((sample) => end !== undefined && end.at - sample.at <= RATE_MS);
    if (!end || !start || end.at === start.at) return 0;
    return Math.max(0, ((end[field] - start[field]) / (end.at - start.at)) * 1000);
  }
}
