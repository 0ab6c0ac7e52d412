/** What a part does, in a word that the gateway decides. Made by scripts/generate_conditions.py. */

export const CONDITIONS = [
  "flows",
  "idle",
  "waits",
  "no credit",
  "stalled",
  "source stalled",
  "trouble",
  "paused",
  "detached",
  "ended",
] as const;

export type Condition = (typeof CONDITIONS)[number];
