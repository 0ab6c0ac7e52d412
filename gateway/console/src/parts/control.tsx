import { memo, useState } from "react";
import { Button, Dialog, DialogTrigger, Heading, Modal, ModalOverlay } from "react-aria-components";
import { post } from "../client/api";

export type Kind = "stream" | "connector" | "pipeline" | "sink";
type Action = "pause" | "resume" | "forget";

const MEANING: Record<Action, string> = {
  pause: "No new micro-batch reads or writes it until somebody resumes it. What is in flight ends as usual.",
  resume: "Work on it goes on where it stopped.",
  forget:
    "The gateway drops what it knows of it. A forgotten pipeline no longer holds acknowledgements; " +
    "a forgotten stream counts as ended by its source.",
};

interface ControlsProps {
  kind: Kind;
  name: string;
  paused: boolean;
}

/** Buttons that pause or resume a part, and forget it if that is possible. Each asks before it acts. */
export const Controls = memo(function Controls({ kind, name, paused }: ControlsProps) {
  return (
    <span className="controls">
      <Control action={paused ? "resume" : "pause"} kind={kind} name={name} />
      {(kind === "stream" || kind === "pipeline") && <Control action="forget" kind={kind} name={name} />}
    </span>
  );
});

export function Control({ action, kind, name }: { action: Action; kind: Kind; name: string }) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const title = action.charAt(0).toUpperCase() + action.slice(1);

  async function act(close: () => void): Promise<void> {
    setBusy(true);
    try {
      await post(`${kind}s/${action}`, { name });
      close();
    } catch (refused) {
      setError(refused instanceof Error ? refused.message : String(refused));
    } finally {
      setBusy(false);
    }
  }

  return (
    <DialogTrigger onOpenChange={() => setError("")}>
      <Button className="quiet" aria-label={`${title} ${kind} ${name}`}>
        {title}
      </Button>
      <ModalOverlay className="overlay" isDismissable>
        <Modal className="modal">
          <Dialog role="alertdialog">
            {({ close }) => (
              <>
                <Heading slot="title">
                  {title} {kind} {name}?
                </Heading>
                <p>{MEANING[action]}</p>
                <p role="alert" className="error">
                  {error}
                </p>
                <div className="buttons">
                  <Button onPress={close}>Cancel</Button>
                  <Button className="primary" autoFocus isDisabled={busy} onPress={() => void act(close)}>
                    {title}
                  </Button>
                </div>
              </>
            )}
          </Dialog>
        </Modal>
      </ModalOverlay>
    </DialogTrigger>
  );
}
