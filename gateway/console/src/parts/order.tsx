import type { ReactNode } from "react";
import { post } from "../client/api";
import { Confirm } from "./confirm";

const WAITS_MS = 60_000;
/** The gateway answers first, with what it knows. */
const LONGER_MS = 5_000;

interface Props {
  title: string;
  /** What happens, and the fields to fill in; `isFixed` once they can no longer be changed. */
  children: (isFixed: boolean) => ReactNode;
  /** The label of the button. */
  action: string;
  /** Shown until there is an answer. */
  waiting: string;
  isIncomplete?: boolean;
  /** Whether the button has the focus, since there is nothing to fill in. */
  autoFocus?: boolean;
  /** The path of the API. */
  path: string;
  body: Record<string, string>;
  /** The text for an answer. */
  told: (answer: unknown) => string;
  onClose: () => void;
}

/** Asks whether to order something of a deployment, and shows how that has ended. */
export function Order({ path, body, told, ...others }: Props) {
  const act = async (): Promise<string> =>
    told(await post(path, { ...body, timeout_ms: WAITS_MS }, WAITS_MS + LONGER_MS));
  return <Confirm {...others} act={act} />;
}
