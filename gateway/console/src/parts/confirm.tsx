import { useId, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { createPortal } from "react-dom";

interface Props {
  title: string;
  /** What happens, and the fields to fill in; `isFixed` once they can no longer be changed. */
  children: (isFixed: boolean) => ReactNode;
  /** The label of the button. */
  action: string;
  /** Whether it cannot be taken back: then nothing happens to somebody who only presses Enter. */
  isDangerous?: boolean;
  isIncomplete?: boolean;
  /** Whether a button has the focus, since there is nothing to fill in. */
  autoFocus?: boolean;
  /** Shown until it is done. */
  waiting?: string;
  /** Does it; returns what is shown of the outcome, or null to close the dialog. */
  act: () => Promise<string | null>;
  onClose: () => void;
}

/** Asks in a modal dialog before something is done, and shows how it has ended, or why it was refused. */
export function Confirm(props: Props) {
  const { title, children, action, isDangerous = false, isIncomplete = false, autoFocus = false, act, onClose } = props;
  const [error, setError] = useState("");
  const [done, setDone] = useState("");
  const [busy, setBusy] = useState(false);
  const titleId = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  const focused = useRef<HTMLButtonElement>(null);

  // Closed before it leaves the page, so that what had the focus before gets it again.
  useLayoutEffect(() => {
    const opened = dialog.current;
    opened?.showModal();
    focused.current?.focus();
    return () => opened?.close();
  }, []);

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

  return createPortal(
    <dialog
      ref={dialog}
      className="modal"
      role="alertdialog"
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      // A browser may close it without asking.
      onClose={() => !dialog.current?.open && onClose()}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <div>
        <h2 id={titleId}>{title}</h2>
        {children(busy || done !== "")}
        <p role="status">{busy ? props.waiting : done}</p>
        <p role="alert" className="error">
          {error}
        </p>
        <div className="buttons">
          <button type="button" ref={autoFocus && isDangerous ? focused : null} onClick={onClose}>
            {done || (busy && props.waiting) ? "Close" : "Cancel"}
          </button>
          {!done && (
            <button
              type="button"
              ref={autoFocus && !isDangerous ? focused : null}
              className={isDangerous ? "danger" : "primary"}
              disabled={busy || isIncomplete}
              onClick={() => void begin()}
            >
              {action}
            </button>
          )}
        </div>
      </div>
    </dialog>,
    document.body,
  );
}
