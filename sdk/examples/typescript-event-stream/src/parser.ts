/** An event of a server. */
export interface ServerEvent {
  /** Its name; empty if it has none. */
  readonly name: string;
  /** Its data; the beginning of them if there are more bytes than the limit. */
  readonly data: Buffer;
  /** The size of its data, in bytes. */
  readonly bytes: number;
}

/** The end of a block of lines: perhaps an event, perhaps an id, perhaps a time to wait before reconnecting. */
export interface Block {
  /** The event, unless the block has no data. */
  readonly event?: ServerEvent;
  /** The id that the block sets: where the server continues after a reconnect. */
  readonly id?: string;
  /** How long to wait before reconnecting, in milliseconds. */
  readonly retryMs?: number;
}

const LF = 10;
const CR = 13;
const COLON = 58;
const SPACE = 32;
const BYTE_ORDER_MARK = Buffer.from("\uFEFF");
/** How much of a line is kept besides its data: the name of the field. */
const FIELD_BYTES = 16;

/**
 * Parses a stream of server-sent events, as https://html.spec.whatwg.org/multipage/server-sent-events.html defines it.
 *
 * It keeps at most the lines of one event. Of data above the limit it keeps the beginning, and counts the rest. A block that
 * the end of the stream cuts off is no event.
 */
export class EventParser {
  #line: Buffer[] = [];
  #lineBytes = 0;
  #isFirstLine = true;
  #isAfterCr = false;
  #data: Buffer[] = [];
  #kept = 0;
  #bytes = 0;
  #dataLines = 0;
  #name = "";
  #id: string | undefined;
  #retryMs: number | undefined;

  /** @param maxBytes - How many bytes of an event's data to keep. */
  constructor(private readonly maxBytes: number) {}

  /** Takes bytes; yields the blocks that are complete. */
  *push(chunk: Buffer): Generator<Block> {
    let begin = 0;
    if (this.#isAfterCr && chunk.length > 0) {
      this.#isAfterCr = false;
      if (chunk[0] === LF) begin = 1;
    }
    for (let at = begin; at < chunk.length; at++) {
      const byte = chunk[at];
      if (byte !== LF && byte !== CR) continue;
      this.#add(chunk.subarray(begin, at));
      const block = this.#endLine();
      if (block !== undefined) yield block;
      if (byte === CR) {
        if (at + 1 === chunk.length) this.#isAfterCr = true;
        else if (chunk[at + 1] === LF) at += 1;
      }
      begin = at + 1;
    }
    this.#add(chunk.subarray(begin));
  }

  /** Adds to the line, as far as it can be needed. */
  #add(piece: Buffer): void {
    const room = Math.max(0, this.maxBytes + FIELD_BYTES - this.#lineBytes);
    // A chunk is reused by nobody, but a small piece would keep all of it alive.
    if (piece.length > 0 && room > 0) this.#line.push(Buffer.from(piece.subarray(0, room)));
    this.#lineBytes += piece.length;
  }

  #endLine(): Block | undefined {
    let line = this.#line.length === 1 ? this.#line[0] : Buffer.concat(this.#line);
    let bytes = this.#lineBytes;
    this.#line = [];
    this.#lineBytes = 0;
    if (this.#isFirstLine) {
      this.#isFirstLine = false;
      if (line.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK)) {
        line = line.subarray(BYTE_ORDER_MARK.length);
        bytes -= BYTE_ORDER_MARK.length;
      }
    }
    if (bytes === 0) return this.#endBlock();
    const colon = line.indexOf(COLON);
    const field = line.toString("latin1", 0, colon < 0 ? line.length : Math.min(colon, FIELD_BYTES));
    const begin = colon < 0 ? line.length : colon + (line[colon + 1] === SPACE ? 2 : 1);
    this.#take(field, line.subarray(begin), bytes - begin);
    return undefined;
  }

  /** @param bytes - How long the value was, before it was cut. */
  #take(field: string, value: Buffer, bytes: number): void {
    if (field === "data") {
      // Lines of data are joined by a line feed.
      const joined = this.#dataLines > 0 ? [Buffer.of(LF), value] : [value];
      for (const piece of joined) {
        const room = Math.max(0, this.maxBytes - this.#kept);
        if (room === 0) break;
        this.#data.push(piece.subarray(0, room));
        this.#kept += Math.min(piece.length, room);
      }
      this.#bytes += bytes + (this.#dataLines > 0 ? 1 : 0);
      this.#dataLines += 1;
    } else if (field === "event") {
      this.#name = value.toString();
    } else if (field === "id") {
      if (!value.includes(0)) this.#id = value.toString();
    } else if (field === "retry") {
      const text = value.toString();
      if (/^[0-9]{1,9}$/.test(text)) this.#retryMs = Number(text);
    }
  }

  #endBlock(): Block | undefined {
    const hasData = this.#dataLines > 0;
    const event = { name: this.#name, data: Buffer.concat(this.#data), bytes: this.#bytes };
    const block = {
      ...(hasData && { event }),
      ...(this.#id !== undefined && { id: this.#id }),
      ...(this.#retryMs !== undefined && { retryMs: this.#retryMs }),
    };
    this.#data = [];
    this.#kept = this.#bytes = this.#dataLines = 0;
    this.#name = "";
    this.#id = this.#retryMs = undefined;
    return Object.keys(block).length === 0 ? undefined : block;
  }
}
