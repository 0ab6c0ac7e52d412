/** What parts were like in the last minutes, for rates and for the lag over time. */

import type { Status } from "./documents";

export interface Sample {
  at: number;
  lag: number;
  /** Counts since the gateway or the run started: what came in, and what is done. */
  received: number;
  done: number;
}

export const EVERY_MS = 2000;
export const SAMPLES = 90;
const RATE_SAMPLES = 5;

export class History {
  private samples = new Map<string, Sample[]>();
  private last = 0;
  /** Which pipelines have written to which sinks: a gateway forgets it ten seconds after a query has ended. */
  private writers = new Map<string, Set<string>>();

  /** Takes a sample of all parts, unless the last one is too recent. */
  record(status: Status, at: number): void {
    if (at - this.last < EVERY_MS) return;
    this.last = at;
    const before = this.samples;
    this.samples = new Map();
    const note = (part: string, received: number, done: number, lag = 0): void => {
      const samples = before.get(part) ?? [];
      if (samples.push({ at, lag, received, done }) > SAMPLES) samples.shift();
      this.samples.set(part, samples);
    };
    const received = new Map<string, number>();
    for (const row of status.streams) {
      received.set(row.stream, row.received_messages);
      note(`stream ${row.stream}`, row.received_messages, row.acknowledged_messages, row.lag_messages);
    }
    for (const row of status.pipelines) {
      const read = Object.keys(row.committed).reduce((sum, stream) => sum + (received.get(stream) ?? 0), 0);
      note(`pipeline ${row.pipeline}`, read, read - row.lag_messages, row.lag_messages);
      for (const step of row.steps) note(stepPart(row.pipeline, step.step), step.received, step.sent);
    }
    for (const row of status.sinks) note(`sink ${row.sink}`, row.staged_messages, row.staged_messages);
  }

  noteWriter(pipeline: string, sink: string): void {
    this.writers.set(sink, (this.writers.get(sink) ?? new Set<string>()).add(pipeline));
  }

  writersOf(sink: string): string[] {
    return [...(this.writers.get(sink) ?? [])];
  }

  of(part: string): Sample[] {
    return this.samples.get(part) ?? [];
  }

  /** How many there were in a second, over the last ten. */
  rate(part: string, field: "received" | "done"): number {
    const samples = this.of(part);
    const end = samples.at(-1);
    const start = samples.at(-1 - RATE_SAMPLES) ?? samples[0];
    if (!end || !start || end.at === start.at) return 0;
    return Math.max(0, ((end[field] - start[field]) / (end.at - start.at)) * 1000);
  }
}

export function stepPart(pipeline: string, step: string): string {
  return `step ${pipeline}\n${step}`;
}
