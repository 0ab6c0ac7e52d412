import { useState } from "react";
import type { Replayed } from "../model/documents";
import { Order } from "./order";

interface Props {
  sink: string;
  deployment: string;
  /** The sources that may be chosen, the most likely one first. */
  sources: string[];
  onClose: () => void;
}

/** Asks under the name of which source to replay the dead letters of a sink, and shows how that has ended. */
export function Replay({ sink, deployment, sources, onClose }: Props) {
  const [source, setSource] = useState(sources[0] ?? "");
  return (
    <Order
      title={`Replay the dead letters of ${sink}?`}
      action="Replay"
      waiting="Waits until all are acknowledged. The replay continues if you close this."
      isIncomplete={source === ""}
      path="dead-letters/replay"
      body={{ sink, source, deployment }}
      told={(answer) => told(answer as Replayed)}
      onClose={onClose}
    >
      {(isFixed) => (
        <>
          <p>
            {deployment} sends their messages again, unchanged, as streams of a source that a pipeline reads. A replay
            continues after what an earlier one with the same source has sent.
          </p>
          <label className="field">
            Source
            <input
              value={source}
              onChange={(event) => setSource(event.target.value)}
              disabled={isFixed}
              list="sources-to-replay"
              autoComplete="off"
              spellCheck={false}
            />
          </label>
          <datalist id="sources-to-replay">
            {sources.map((one) => (
              <option key={one} value={one} />
            ))}
          </datalist>
        </>
      )}
    </Order>
  );
}

function told(made: Replayed): string {
  return `All dead letters of ${made.sink} are sent as source ${made.source}, and acknowledged (${made.duration_ms / 1000} s).`;
}
