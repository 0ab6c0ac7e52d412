import { useState, type ReactNode } from "react";
import { Button, Dialog, Heading, Modal, ModalOverlay } from "react-aria-components";

interface Props {
  title: string;
  /** What happens, and the fields to fill in; `isFixed` once they can no longer be changed. */
  children: (isFixed: boolean) => ReactNode;
  /** What the button says. */
  action: string;
  /** Whether it cannot be taken back: then nothing happens to somebody who only presses Enter. */
  isDangerous?: boolean;
  isIncomplete?: boolean;
  /** Whether a button has the focus, since there is nothing to fill in. */
  autoFocus?: boolean;
  /** What is shown until it is done. */
  waiting?: string;
  /** Does it; returns what is shown of the outcome, or null to close the dialog. */
  act: () => Promise<string | null>;
  onClose: () => void;
}

/** Asks before something is done, and shows how it has ended, or why it was refused. */
export function Confirm(props: Props) {
  const { title, children, action, isDangerous = false, isIncomplete = false, autoFocus = false, act, onClose } = props;
  const [error, setError] = useState("");
  const [done, setDone] = useState("");
  const [busy, setBusy] = useState(false);

  async function begin(): Promise<void> {
    setBusy(true);
    setError("");
    try {
      const told = await act();
      if (told === null) onClose();
      else setDone(told);
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
          <p role="status">{busy ? props.waiting : done}</p>
          <p role="alert" className="error">
            {error}
          </p>
          <div className="buttons">
            <Button autoFocus={autoFocus && isDangerous} onPress={onClose}>
              {done || (busy && props.waiting) ? "Close" : "Cancel"}
            </Button>
            {!done && (
              <Button
                className={isDangerous ? "danger" : "primary"}
                autoFocus={autoFocus && !isDangerous}
                isDisabled={busy || isIncomplete}
                onPress={() => void begin()}
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
