/** A shape and a tone for each condition: different ones have different shapes, for readers who see no colours. */

export type Shape =
  "disc" | "ring" | "triangle" | "down" | "diamond" | "square" | "frame" | "cross" | "bars" | "dash" | "half";

export type Tone =
  "good" | "idle" | "waits" | "credit" | "stalled" | "source" | "bad" | "paused" | "detached" | "ended";

export interface Mark {
  shape: Shape;
  tone: Tone;
}

const UNKNOWN: Mark = { shape: "half", tone: "idle" };

export const MARKS: Record<string, Mark> = {
  // The activity of a part.
  flows: { shape: "disc", tone: "good" },
  idle: { shape: "ring", tone: "idle" },
  waits: { shape: "down", tone: "waits" },
  "no credit": { shape: "diamond", tone: "credit" },
  stalled: { shape: "square", tone: "stalled" },
  "source stalled": { shape: "frame", tone: "source" },
  trouble: { shape: "cross", tone: "bad" },
  paused: { shape: "bars", tone: "paused" },
  detached: { shape: "dash", tone: "detached" },
  ended: { shape: "half", tone: "ended" },
  // Of connectors of deployments, and of sinks, without a session.
  "no connector": { shape: "cross", tone: "bad" },
  "no session": { shape: "dash", tone: "bad" },
  fails: { shape: "cross", tone: "bad" },
  // The states of processes.
  runs: { shape: "disc", tone: "good" },
  starts: { shape: "half", tone: "waits" },
  waits_to_start: { shape: "triangle", tone: "bad" },
  stopped: { shape: "square", tone: "idle" },
};

export function markOf(condition: string): Mark {
  return MARKS[condition] ?? UNKNOWN;
}
