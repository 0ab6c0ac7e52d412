import { open } from "node:fs/promises";

/** An event that is too large to be sent. */
export interface OversizedEvent {
  readonly sequence: number;
  readonly id: string;
  readonly name: string;
  /** The size of its data, in bytes. */
  readonly bytes: number;
  /** The data, or the beginning of them. */
  readonly data: string;
  /** The fault. */
  readonly reason: string;
}

/** Keeps an event that is too large. It is left out once this has returned; if this throws, the connector ends. */
export type KeepOversized = (event: OversizedEvent) => Promise<void>;

/** Appends events that are too large to a file, durably, as lines of JSON. After a restart, one may be appended again. */
export function appendTo(path: string): KeepOversized {
  return async (event) => {
    const file = await open(path, "a", 0o600);
    try {
      await file.appendFile(`${JSON.stringify(event)}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
  };
}

/** Ends the connector at the first event that is too large. */
export const refuse: KeepOversized = ({ sequence, id, reason }) =>
  Promise.reject(
    new Error(`event ${sequence}, id ${JSON.stringify(id)}: ${reason}; name a file for such events with --oversized`),
  );
