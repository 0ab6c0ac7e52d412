import { memo, useState } from "react";
import { post } from "../client/api";
import { Confirm } from "./confirm";

export type Kind = "stream" | "connector" | "pipeline" | "sink";
type Action = "pause" | "resume" | "forget";

const MEANING: Record<Action, string> = {
  pause: "No new micro-batch reads or writes it until somebody resumes it. Micro-batches in flight end as usual.",
  resume: "Work on it continues where it stopped.",
  forget:
    "This cannot be taken back. The gateway drops what it knows of it. A forgotten pipeline no longer holds " +
    "acknowledgements, so that sources may drop what it has not read; a forgotten stream counts as ended by its source.",
};

interface PartProps {
  kind: Kind;
  name: string;
}

/** The button that pauses or resumes a part. It asks before it acts. */
export const Controls = memo(function Controls({ kind, name, paused }: PartProps & { paused: boolean }) {
  return (
    <span className="controls">
      <Control action={paused ? "resume" : "pause"} kind={kind} name={name} />
    </span>
  );
});

/** Changes that nobody can take back, away from the buttons that are pressed every day. */
export const Danger = memo(function Danger({ kind, name }: PartProps) {
  return (
    <details className="danger-zone">
      <summary>Danger zone</summary>
      <p>
        Only for a {kind} that will not come back. <Control action="forget" kind={kind} name={name} />
      </p>
    </details>
  );
});

export function Control({ action, kind, name }: PartProps & { action: Action }) {
  const [isOpen, setOpen] = useState(false);
  const title = action.charAt(0).toUpperCase() + action.slice(1);
  const act = async (): Promise<null> => {
    await post(`${kind}s/${action}`, { name });
    return null;
  };
  return (
    <>
      <button
        type="button"
        className={action === "forget" ? "danger" : "quiet"}
        aria-label={`${title} ${kind} ${name}`}
        onClick={() => setOpen(true)}
      >
        {title}
      </button>
      {isOpen && (
        <Confirm
          title={`${title} ${kind} ${name}?`}
          action={title}
          isDangerous={action === "forget"}
          autoFocus
          act={act}
          onClose={() => setOpen(false)}
        >
          {() => <p>{MEANING[action]}</p>}
        </Confirm>
      )}
    </>
  );
}
