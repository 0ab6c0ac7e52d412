import { useState } from "react";
import { Button, Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { post } from "../client/api";
import type { Restarted } from "../model/documents";
import type { Supervised } from "../model/supervised";

const WAITS_MS = 60_000;
/** The gateway answers first, with what it knows. */
const LONGER_MS = 5_000;

/**
 * Asks whether to restart a connector of a deployment, and shows how that has ended. It stays while the connector has no session,
 * and with it no row of its own.
 */
export function Restart({ connector, onClose }: { connector: Supervised; onClose: () => void }) {
  const { name, deployment } = connector;
  const [error, setError] = useState("");
  const [done, setDone] = useState("");
  const [busy, setBusy] = useState(false);

  async function act(): Promise<void> {
    setBusy(true);
    setError("");
    try {
      const body = { name, deployment, timeout_ms: WAITS_MS };
      setDone(told((await post("connectors/restart", body, WAITS_MS + LONGER_MS)) as Restarted));
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
          <Heading slot="title">
            Restart connector {name} of {deployment}?
          </Heading>
          <p>
            It ends as with SIGTERM and starts again at once. What is not acknowledged is sent again, and no other
            process restarts.
          </p>
          <p role="status">
            {busy ? "Waits until it has a session again. The restart goes on if you close this." : done}
          </p>
          <p role="alert" className="error">
            {error}
          </p>
          <div className="buttons">
            <Button onPress={onClose}>{done || busy ? "Close" : "Cancel"}</Button>
            {!done && (
              <Button className="primary" autoFocus isDisabled={busy} onPress={() => void act()}>
                Restart
              </Button>
            )}
          </div>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}

function told(made: Restarted): string {
  const before =
    made.stopped_pid === null
      ? "it was not running"
      : `process ${made.stopped_pid} ended with exit code ${made.stopped_exit_code}`;
  const now = made.state === "runs" ? "runs" : "has reached its end";
  return `${made.name} is restarted: ${before}, process ${made.pid} ${now} (${made.seconds} s).`;
}
