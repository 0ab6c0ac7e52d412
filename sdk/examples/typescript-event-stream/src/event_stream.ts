import { setTimeout as sleep } from "node:timers/promises";

import type {
  Health,
  InvalidMessageError,
  Item,
  Logger,
  Message,
  Position,
  ReadContext,
  ReplayableSource,
} from "@headrace/sdk";

import { blocksAfter, ConnectionLost, type Endpoint } from "./connection.js";
import { refuse, type KeepOversized } from "./oversized.js";
import type { ServerEvent } from "./parser.js";
import { Retry } from "./retry.js";

/** The longest id; it is part of a position, whose cursor may have 4,096 bytes. */
const MAX_ID_BYTES = 4000;
const DEFAULT_RETRY_MS = 1000;

/** How events are read. */
export interface EventStreamOptions extends Endpoint {
  /** The name of the source. */
  readonly name: string;
  /** Where events go that are too large. Default: the first one ends the connector. */
  readonly keepOversized?: KeepOversized;
  readonly health?: Health;
  readonly logger?: Logger;
}

/** Up to where events are known: the id that the server sent last, and the number of events up to it. */
interface Known {
  readonly sequence: number;
  readonly id: string;
}

/**
 * Streams the events of an HTTP server.
 *
 * It counts the events, and keeps the server's last id in the cursor of each position. So it is replayable as far as the
 * server is: after Last-Event-ID, the server must send the same events in the same order.
 */
export class EventStream implements ReplayableSource {
  readonly name: string;
  readonly connector = "event-stream";
  readonly version = "0.1.0";
  readonly #keepOversized: KeepOversized;
  #isWarned = false;
  /** Whether the next message ends its frame: a query that resumes after it gets the first cursor at which to continue. */
  #endsFrame = false;

  constructor(private readonly options: EventStreamOptions) {
    this.name = options.name;
    this.#keepOversized = options.keepOversized ?? refuse;
  }

  async *read(_partition: string, { position, signal }: ReadContext): AsyncGenerator<Item> {
    const { health, logger } = this.options;
    const retry = new Retry(DEFAULT_RETRY_MS);
    this.#endsFrame = position === undefined;
    let last = Number(position?.sequence ?? 0n);
    let known = knownFrom(position);
    for (;;) {
      const blocks = blocksAfter(this.options, known.id, signal, () => {
        health?.running();
      });
      try {
        // The server sends again what follows the id; without one, it continues somewhere.
        let sequence = known.id === "" ? last : known.sequence;
        for (;;) {
          const { value: block, done } = await blocks.next();
          if (done === true) {
            if (block) return;
            throw new ConnectionLost("the server has ended the connection");
          }
          retry.reset();
          if (block.retryMs !== undefined) retry.leastMs = block.retryMs;
          if (block.event !== undefined) sequence += 1;
          if (block.id !== undefined) {
            this.#endsFrame ||= known.id === "";
            known = { sequence, id: checked(block.id) };
          }
          if (block.event === undefined || sequence <= last) continue;
          last = sequence;
          this.#warnWithout(known.id);
          if (block.event.bytes > this.options.maxEventBytes) await this.#leaveOut(sequence, block.event, known.id);
          else yield this.#messageOf(sequence, block.event, known, block.id);
        }
      } catch (error) {
        if (!(error instanceof ConnectionLost)) throw error;
        const waitMs = retry.next();
        health?.waiting(error);
        logger?.warn("the connection has ended; trying again", { error: error.message, waitMs: Math.round(waitMs) });
        await sleep(waitMs, undefined, { signal });
      } finally {
        await blocks.return(false); // Closes the connection.
      }
    }
  }

  /** Keeps an event that is too large for the gateway. */
  async unsendable(_partition: string, message: Message, error: InvalidMessageError): Promise<void> {
    this.#endsFrame ||= message.endsFrame === true;
    const data = Buffer.from(message.value as Buffer);
    const name = message.headers?.[0]?.[1];
    await this.#keepOversized({
      sequence: Number(message.sequence),
      id: message.messageId ?? "",
      name: name == null ? "" : Buffer.from(name).toString(),
      bytes: data.length,
      data: data.toString(),
      reason: error.message,
    });
  }

  /** Keeps an event that is too large for this connector. */
  async #leaveOut(sequence: number, { name, data, bytes }: ServerEvent, id: string): Promise<void> {
    const reason = `it has ${bytes} bytes, and --max-event-bytes is ${this.options.maxEventBytes}`;
    await this.#keepOversized({ sequence, id, name, bytes, data: data.toString(), reason });
  }

  #messageOf(sequence: number, { name, data }: ServerEvent, known: Known, id: string | undefined): Message {
    const endsFrame = this.#endsFrame;
    this.#endsFrame = false;
    return {
      value: data,
      sequence,
      cursor: Buffer.from(`${known.sequence} ${known.id}`),
      ...(endsFrame && { endsFrame }),
      ...(id !== undefined && { messageId: id }),
      ...(name !== "" && { headers: [["event", name]] as const }),
    };
  }

  #warnWithout(id: string): void {
    if (id !== "" || this.#isWarned) return;
    this.#isWarned = true;
    this.options.logger?.warn("the events have no ids: those sent while the connection is away are lost");
  }
}

/** Reads a cursor back. */
function knownFrom(position: Position | undefined): Known {
  if (position === undefined) return { sequence: 0, id: "" };
  const text = Buffer.from(position.cursor ?? []).toString();
  const found = /^(\d+) (.*)$/s.exec(text);
  if (found === null) throw new Error(`cursor ${JSON.stringify(text)} is not one of this connector`);
  return { sequence: Number(found[1]), id: found[2] };
}

function checked(id: string): string {
  const bytes = Buffer.byteLength(id);
  if (bytes <= MAX_ID_BYTES) return id;
  throw new Error(`the server sends an event id of ${bytes} bytes, and at most ${MAX_ID_BYTES} fit into a position`);
}
