/** The words of the gateway's documents. Made by scripts/generate_console_words.py. */

/** The activity of a part, as the gateway decides it. */
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

/** The kinds of problems with which nothing is wrong. */
export const NO_FAULTS: readonly string[] = ["process-starts", "replay-awaited", "paused"];

/** The progress of a message, by its state. */
export const MESSAGE_STATES: Record<string, string> = {
  "not-received": "has not arrived at the gateway",
  "not-planned": "waits for a micro-batch",
  "in-batch": "is in a micro-batch that is not committed",
  committed: "is committed, and its source is not told yet",
  acknowledged: "is acknowledged",
  redelivered: "was delivered again under another sequence",
};

/** The state of a process of a deployment. */
export const PROCESS_STATES = ["starts", "runs", "waits", "ended", "stopped"] as const;
