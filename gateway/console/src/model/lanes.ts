/** The lanes of a commit timeline: a bar for each stage, from the stage before it that the micro-batch has reached. */

import { STAGES, type Batch, type Stage } from "./documents";

export interface Bar {
  stage: Stage;
  from: number;
  to: number;
}

/** Returns the bars of a micro-batch, in ms since its first stage. A stage that it does not have leaves no gap. */
export function bars(batch: Batch): Bar[] {
  const found: Bar[] = [];
  let start: number | null = null;
  let before = 0;
  for (const stage of STAGES) {
    const text = batch.stages[stage];
    if (text === undefined) continue;
    const at = Date.parse(text);
    start ??= at;
    found.push({ stage, from: before, to: at - start });
    before = at - start;
  }
  return found;
}

/** How long a micro-batch has taken, or has taken so far. */
export function span(batch: Batch): number {
  return bars(batch).at(-1)?.to ?? 0;
}

/** The last stage that a micro-batch has reached. */
export function lastStage(batch: Batch): Stage | null {
  return bars(batch).at(-1)?.stage ?? null;
}

/** How much longer than all others a micro-batch is drawn that runs and has taken longer: by how much does not matter. */
const RUNNING = 1.25;

/**
 * The upper end of a scale that most micro-batches fit: one that took an hour must not flatten all others.
 *
 * @param batches the micro-batches that have ended
 * @param runningMs for how long another one runs; null if none does
 */
export function scale(batches: Batch[], runningMs: number | null = null): number {
  const spans = batches.map(span).sort((a, b) => a - b);
  const typical = spans[Math.floor(spans.length * 0.95)] ?? 0;
  const top = Math.max(1, Math.min(spans.at(-1) ?? 0, typical * 3) || (spans.at(-1) ?? 1));
  return runningMs !== null && runningMs > top ? top * RUNNING : top;
}
