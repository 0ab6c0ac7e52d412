/** Finds parts by their names, whatever they are. */

import type { Status } from "./documents";

export interface Found {
  /** The part, such as "stream orders/0". */
  part: string;
  kind: string;
  name: string;
  /** Its state, in a word. */
  state: string;
}

const COLLATOR = new Intl.Collator("en", { numeric: true });

/** Returns the parts whose names contain each word; names that begin with the text come first. */
export function search(status: Status, text: string): Found[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const begins = (one: Found): number => (one.name.toLowerCase().startsWith(words[0] ?? "") ? 0 : 1);
  return parts(status)
    .filter((one) => words.every((word) => one.part.toLowerCase().includes(word)))
    .sort((a, b) => begins(a) - begins(b) || COLLATOR.compare(a.part, b.part));
}

function parts(status: Status): Found[] {
  const found = (kind: string, name: string, state: string): Found => ({ part: `${kind} ${name}`, kind, name, state });
  return [
    ...status.streams.map((one) => found("stream", one.stream, one.condition)),
    ...status.pipelines.map((one) => found("pipeline", one.pipeline, one.condition)),
    ...status.pipelines.flatMap((one) =>
      one.steps.map((step) => found("step", step.step, `of pipeline ${one.pipeline}`)),
    ),
    ...status.sinks.map((one) => found("sink", one.sink, one.condition)),
    ...status.sessions.map((one) => found("connector", one.instance, one.condition)),
    ...status.sink_sessions.map((one) => found("connector", `${one.instance} of sink ${one.sink}`, one.condition)),
    ...status.deployments.flatMap((one) => [
      found("deployment", one.deployment, "registered"),
      ...one.processes.map((process) => found("process", `${process.name} of ${one.deployment}`, process.state)),
    ]),
  ];
}
