/** How long micro-batches took to each stage. */

import { STAGES, type Batch, type Stage } from "./documents";

export interface Durations {
  stage: Stage;
  min: number;
  p50: number;
  p99: number;
  max: number;
}

/** Returns the durations since `planned` of each stage that a micro-batch has reached, in ms. */
export function durations(batches: Batch[]): Durations[] {
  return STAGES.flatMap((stage) => {
    const found = batches.flatMap(({ stages }) => {
      const [planned, at] = [stages.planned, stages[stage]];
      return planned === undefined || at === undefined || stage === "planned"
        ? []
        : [Date.parse(at) - Date.parse(planned)];
    });
    if (!found.length) return [];
    found.sort((a, b) => a - b);
    return [{ stage, min: found[0] ?? 0, p50: rank(found, 0.5), p99: rank(found, 0.99), max: found.at(-1) ?? 0 }];
  });
}

/** The smallest value that so much of all does not exceed: one that there was, not one in between. */
function rank(sorted: number[], fraction: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * fraction) - 1)] ?? 0;
}
