import { EventParser, type Block } from "./parser.js";

/** The connection has broken, or the server is away or busy: another attempt may help. */
export class ConnectionLost extends Error {
  override readonly name = "ConnectionLost";
}

/** The server's answer will not change, such as 404, or something else than events. */
export class ServerRefused extends Error {
  override readonly name = "ServerRefused";
}

/** Where events come from. */
export interface Endpoint {
  readonly url: URL;
  /** The value of the header Authorization. */
  readonly authorization?: string | undefined;
  /** How many bytes of an event's data to keep. */
  readonly maxEventBytes: number;
  /** After how long without a byte the connection counts as broken, in milliseconds. */
  readonly idleMs: number;
}

const BUSY = new Set([408, 425, 429]);
const NO_CONTENT = 204;

/**
 * Connects once, and yields what the server sends after an event, until the connection ends.
 *
 * It reads no faster than its blocks are taken, so that a slow reader slows the server down.
 *
 * @param lastId - The id of the last event that is known; empty for none.
 * @param opened - Called once the server has begun to send events.
 * @returns Whether the server has said that there will never be more, by 204 No Content.
 * @throws ConnectionLost, ServerRefused; what `signal` was aborted with.
 */
export async function* blocksAfter(
  { url, authorization, maxEventBytes, idleMs }: Endpoint,
  lastId: string,
  signal: AbortSignal,
  opened: () => void,
): AsyncGenerator<Block, boolean> {
  const silence = new Silence(idleMs);
  try {
    const headers = new Headers({ accept: "text/event-stream", "cache-control": "no-cache" });
    // The bytes of a header are Latin-1 for fetch, and UTF-8 for the server.
    if (lastId !== "") headers.set("last-event-id", Buffer.from(lastId).toString("latin1"));
    if (authorization !== undefined) headers.set("authorization", authorization);
    silence.begin();
    const response = await fetch(url, { headers, signal: AbortSignal.any([signal, silence.signal]) });
    if (response.status === NO_CONTENT) return true;
    await check(response);
    opened();
    const parser = new EventParser(maxEventBytes);
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      silence.end();
      yield* parser.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
      silence.begin();
    }
    return false;
  } catch (error) {
    if (signal.aborted || error instanceof ServerRefused || error instanceof ConnectionLost) throw error;
    // What fetch throws says nothing; its cause does.
    const { message, cause } = error as Error;
    const why = silence.signal.aborted ? silence.reason : cause instanceof Error ? cause.message : message;
    throw new ConnectionLost(`${url.host}: ${why}`, { cause: error });
  } finally {
    silence.end();
  }
}

async function check(response: Response): Promise<void> {
  const { status, statusText, url } = response;
  const type = response.headers.get("content-type") ?? "no type";
  const isStream = type.split(";")[0].trim().toLowerCase() === "text/event-stream";
  if (status === 200 && isStream) return;
  await response.body?.cancel();
  const where = new URL(url);
  const address = `${where.origin}${where.pathname}`;
  if (status >= 500 || BUSY.has(status)) throw new ConnectionLost(`${address} answers ${status} ${statusText}`);
  if (status !== 200)
    throw new ServerRefused(`${address} answers ${status} ${statusText}; check the URL and the token`);
  throw new ServerRefused(`${address} answers with ${type}, and text/event-stream is needed`);
}

/** Aborts a connection that says nothing for too long. */
class Silence {
  readonly #controller = new AbortController();
  readonly signal = this.#controller.signal;
  readonly reason: string;
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly ms: number) {
    this.reason = `silent for ${ms / 1000} s`;
  }

  /** Begins to wait for the server. */
  begin(): void {
    this.#timer = setTimeout(() => {
      this.#controller.abort();
    }, this.ms);
  }

  /** The server has said something, or the connection is over. */
  end(): void {
    clearTimeout(this.#timer);
  }
}
