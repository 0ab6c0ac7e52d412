import { useState } from "react";
import { Button, Dialog, Heading, Input, Label, Modal, ModalOverlay, TextField } from "react-aria-components";
import { post } from "../client/api";
import type { Replayed } from "../model/documents";

const WAITS_MS = 60_000;
/** The gateway answers first, with what it knows. */
const LONGER_MS = 5_000;

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
  const [error, setError] = useState("");
  const [done, setDone] = useState("");
  const [busy, setBusy] = useState(false);

  async function act(): Promise<void> {
    setBusy(true);
    setError("");
    try {
      const body = { sink, source, deployment, timeout_ms: WAITS_MS };
      const made = (await post("dead-letters/replay", body, WAITS_MS + LONGER_MS)) as Replayed;
      setDone(
        `All dead letters of ${made.sink} are sent as source ${made.source}, and acknowledged (${made.seconds} s).`,
      );
    } catch (refused) {
      setError(refused instanceof Error ? refused.message : String(refused));
    } finally {
      setBusy(false);
    }
  }

  return (
    <ModalOverlay className="overlay" isDismissable isOpen onOpenChange={onClose}>
      <Modal className="modal">
        <Dialog role="alertdialog">
          <Heading slot="title">Replay the dead letters of {sink}?</Heading>
          <p>
            {deployment} sends their messages again, unchanged, as streams of a source that a pipeline reads. A replay
            continues after what an earlier one with the same source has sent.
          </p>
          <TextField value={source} onChange={setSource} isDisabled={busy || done !== ""}>
            <Label>Source</Label>
            <Input list="sources-to-replay" autoComplete="off" spellCheck={false} />
          </TextField>
          <datalist id="sources-to-replay">
            {sources.map((one) => (
              <option key={one} value={one} />
            ))}
          </datalist>
          <p role="status">{busy ? "Waits until all are acknowledged. The replay goes on if you close this." : done}</p>
          <p role="alert" className="error">
            {error}
          </p>
          <div className="buttons">
            <Button onPress={onClose}>{done || busy ? "Close" : "Cancel"}</Button>
            {!done && (
              <Button className="primary" isDisabled={busy || source === ""} onPress={() => void act()}>
                Replay
              </Button>
            )}
          </div>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}
