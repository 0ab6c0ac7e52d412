import type { ReactNode } from "react";
import { useState } from "react";
import { Button, Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { post } from "../client/api";

const WAITS_MS = 60_000;
/** The gateway answers first, with what it knows. */
const LONGER_MS = 5_000;

interface Props {
  title: string;
  /** What happens, and the fields to fill in; `isFixed` once they can no longer be changed. */
  children: (isFixed: boolean) => ReactNode;
  /** What the button says. */
  action: string;
  /** What is shown until there is an answer. */
  waiting: string;
  isIncomplete?: boolean;
  /** Whether the button has the focus, since there is nothing to fill in. */
  autoFocus?: boolean;
  /** The path of the API. */
  path: string;
  body: Record<string, string>;
  /** What is shown of an answer. */
  told: (answer: unknown) => string;
  onClose: () => void;
}

/** Asks whether to order something of a deployment, and shows how that has ended. */
export function Order(props: Props) {
  const {
    title,
    children,
    action,
    waiting,
    isIncomplete = false,
    autoFocus = false,
    path,
    body,
    told,
    onClose,
  } = props;
  const [error, setError] = useState("");
  const [done, setDone] = useState("");
  const [busy, setBusy] = useState(false);

  async function act(): Promise<void> {
    setBusy(true);
    setError("");
    try {
      setDone(told(await post(path, { ...body, timeout_ms: WAITS_MS }, WAITS_MS + LONGER_MS)));
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
          <Heading slot="title">{title}</Heading>
          {children(busy || done !== "")}
          <p role="status">{busy ? waiting : done}</p>
          <p role="alert" className="error">
            {error}
          </p>
          <div className="buttons">
            <Button onPress={onClose}>{done || busy ? "Close" : "Cancel"}</Button>
            {!done && (
              <Button
                className="primary"
                autoFocus={autoFocus}
                isDisabled={busy || isIncomplete}
                onPress={() => void act()}
              >
                {action}
              </Button>
            )}
          </div>
        </Dialog>
      </Modal>
    </ModalOverlay>
  );
}
