import type { MessageInitShape } from "@bufbuild/protobuf";

import type { Credit as WireCredit, IngestRequestSchema } from "../gen/headrace/protocol/v1/source_pb.js";
import type { Metrics } from "../metrics.js";
import { Wakeup } from "../wire/wakeup.js";
import type { Credit } from "./credit.js";
import type { Stream } from "./stream.js";

/** A message of the connector. */
export type Outgoing = NonNullable<MessageInitShape<typeof IngestRequestSchema>["message"]>;

/** How long the stream whose turn it is waits for credit before those behind it ask for their own, in milliseconds. */
const ASK_FOR_OTHERS_MS = 100;
const BACKLOG_MS = 1000;
const GOODBYE_MS = 1000;
const MAX_REASON = 500;
/** How many frames may share a message (FRM-17). */
const MAX_JOINED_FRAMES = 256;
/** How large the frames are that share a message, in bytes: a larger frame gains nothing. */
const MAX_JOINED_BYTES = 64 * 1024;
/** The tags of `IngestRequest.frames` and of `Frames.frames`. */
const FRAMES_TAG = (11 << 3) | 2;
const ONE_OF_FRAMES_TAG = (1 << 3) | 2;

/** Writes to the call. */
export type Write = (message: MessageInitShape<typeof IngestRequestSchema> | Uint8Array) => Promise<void>;

/** Decides what a session sends next, and sends it: control messages first, then frames by turns, within credit and pace. */
export class Sender {
  readonly #control: Outgoing[] = [];
  readonly #due: Stream[] = [];
  readonly #wakeup = new Wakeup();
  /** What comes after frames that share a message. */
  #following: Outgoing | Uint8Array | undefined;
  #othersMayAsk = false;
  #othersTimer: NodeJS.Timeout | undefined;
  #isMuted = false;
  #isFlushing = false;
  #ended = false;
  #saidGoodbye: (() => void) | undefined;

  /**
   * @param credit - The session's credit.
   * @param write - Writes one message; resolves when the transport has taken it.
   * @param lingerMs - How long to gather messages.
   * @param sent - Called after something of a stream was sent.
   * @param joinedBytes - The largest message of several frames that the gateway takes; 0 if it takes none.
   */
  constructor(
    private readonly credit: Credit,
    private readonly write: Write,
    public lingerMs: number,
    private readonly metrics: Metrics,
    private readonly sent: (stream: Stream) => void,
    private readonly joinedBytes: number,
  ) {}

  /** Sends until `stop` is called, or Goodbye was sent. */
  async run(): Promise<void> {
    while (!this.#ended) {
      await this.#wakeup.wait();
      for (let next = this.#joined(); next !== undefined && !this.#ended; next = this.#joined()) {
        await this.write(next instanceof Uint8Array ? next : { message: next });
        if (!(next instanceof Uint8Array) && next.case === "goodbye") {
          this.#saidGoodbye?.();
          return;
        }
      }
    }
  }

  /** Ends `run`. */
  stop(): void {
    this.#ended = true;
    clearTimeout(this.#othersTimer);
    this.#wakeup.set();
  }

  /** Sends a control message, before any further frame. */
  say(message: Outgoing): void {
    this.#control.push(message);
    this.#wakeup.set();
  }

  /** Sends the last message of the session, and waits until it is sent, for a moment. */
  async goodbye(reason: string): Promise<void> {
    this.mute();
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#saidGoodbye = resolve;
      timer = setTimeout(resolve, GOODBYE_MS);
      this.say({ case: "goodbye", value: { reason: reason.slice(0, MAX_REASON) } });
    });
    clearTimeout(timer);
  }

  /** Looks again whether something can be sent. */
  wake(): void {
    this.#wakeup.set();
  }

  /** Takes credit for any stream. */
  grant(credit: WireCredit): void {
    this.credit.grant(credit.bytes, credit.messages);
    this.#wakeup.set();
  }

  /** Takes credit for one stream, and sends its frame next: a batch waits for it. */
  grantTo(stream: Stream, credit: WireCredit): void {
    stream.grant(credit.bytes, credit.messages);
    const place = this.#due.indexOf(stream);
    if (place >= 0 && stream.hasUnsent) {
      this.#due.splice(place, 1);
      this.#due.unshift(stream);
    } else if (stream.hasUnsent) {
      stream.cancelTimer();
      stream.isDue = true;
      this.#due.unshift(stream);
    } else {
      stream.releaseLent(this.credit);
    }
    this.#wakeup.set();
  }

  /** Sends no more frames. */
  mute(): void {
    this.#isMuted = true;
  }

  /** Sends everything that was gathered, from now on without waiting for more. */
  flush(streams: Iterable<Stream>): void {
    this.#isFlushing = true;
    for (const stream of streams) this.look(stream);
  }

  /** Sees whether a stream has something to send, now or after it has gathered for a while. */
  look(stream: Stream): void {
    if (stream.isMuted || stream.isDue || this.#isMuted || stream.closeSent) return;
    const { gather } = stream;
    if (this.#isFlushing || gather.hasFrame || stream.end !== undefined || gather.isEmpty) {
      this.#makeDue(stream);
    } else if (stream.caughtUp) {
      // Nothing more comes for now: no need to wait, as long as that does not make more frames than the pace allows.
      this.#makeDueIn(stream, stream.lastFrameAt + this.lingerMs - performance.now());
    } else if (stream.timer === undefined) {
      this.#makeDueIn(stream, this.lingerMs);
    }
  }

  #makeDueIn(stream: Stream, ms: number): void {
    if (ms <= 0) {
      this.#makeDue(stream);
      return;
    }
    stream.cancelTimer();
    stream.timer = setTimeout(() => {
      this.#makeDue(stream);
    }, ms);
  }

  #makeDue(stream: Stream): void {
    stream.cancelTimer();
    if (stream.isDue || stream.isMuted) return;
    stream.isDue = true;
    this.#due.push(stream);
    this.#wakeup.set();
  }

  /** The next message to write, with as many small frames as are due; undefined if there is none, or no credit for it. */
  #joined(): Outgoing | Uint8Array | undefined {
    const first = this.#following ?? this.#next();
    this.#following = undefined;
    const most = Math.min(MAX_JOINED_BYTES, this.joinedBytes);
    if (!(first instanceof Uint8Array) || first.length > most) return first;
    const frames = [first];
    let size = first.length;
    while (frames.length < MAX_JOINED_FRAMES) {
      const following = this.#next();
      if (following === undefined) break;
      if (!(following instanceof Uint8Array) || size + following.length > most) {
        this.#following = following;
        break;
      }
      size += following.length;
      frames.push(following);
    }
    return frames.length === 1 ? first : join(frames, size);
  }

  /** The next message; undefined if there is none, or no credit for it. */
  #next(): Outgoing | Uint8Array | undefined {
    const control = this.#control.shift();
    if (control !== undefined) return control;
    while (this.#due.length > 0 && !this.#isMuted) {
      const stream = this.#due[0];
      if (stream.isMuted) {
        this.#turnOver(stream);
        continue;
      }
      const message = this.#nextOf(stream);
      if (message !== undefined) return message;
      // The stream whose turn it is keeps it until it has credit, or a large message would wait for ever.
      if (stream.isDue) return this.#askForCredit(stream) ?? this.#askForOthers();
    }
    return undefined;
  }

  /** The next message of a stream; undefined if it has none and its turn is over, or no credit and its turn continues. */
  #nextOf(stream: Stream): Outgoing | Uint8Array | undefined {
    const now = performance.now();
    if (stream.gather.isEmpty) {
      this.#turnOver(stream);
      const cursor = stream.closeSent ? undefined : stream.cursorFrame();
      if (cursor !== undefined) {
        if (stream.end !== undefined || stream.caughtUp) this.#makeDue(stream);
        return { case: "frame", value: cursor };
      }
      const backlog = stream.closeSent ? undefined : stream.takeBacklog();
      if (backlog !== undefined) {
        if (stream.end !== undefined) this.#makeDue(stream);
        return { case: "backlog", value: backlog };
      }
      if (stream.end === undefined || stream.closeSent) return undefined;
      stream.closeSent = true;
      queueMicrotask(() => {
        this.sent(stream);
      });
      const closed = { streamId: stream.id, endOfStream: stream.end !== "closed", gone: stream.end === "gone" };
      return { case: "closeStream", value: closed };
    }
    if (now >= stream.backlogAt) {
      stream.backlogAt = now + BACKLOG_MS;
      const backlog = stream.takeBacklog();
      if (backlog !== undefined) return { case: "backlog", value: backlog };
    }
    const frame = stream.nextFrame(this.credit);
    if (frame === undefined) return undefined;
    stream.lastFrameAt = now;
    this.#othersMayAsk = false;
    this.#turnOver(stream);
    if (stream.gather.hasFrame) this.#makeDue(stream);
    else if (!stream.gather.isEmpty || stream.end !== undefined || stream.caughtUp) this.look(stream);
    const attributes = { stream: stream.name };
    this.metrics.add("headrace.frames", 1, attributes);
    this.metrics.add("headrace.messages", frame.messages, attributes);
    this.metrics.add("headrace.bytes", frame.bytes.length, attributes);
    this.sent(stream);
    return frame.bytes;
  }

  #turnOver(stream: Stream): void {
    stream.releaseLent(this.credit);
    this.#due.splice(this.#due.indexOf(stream), 1);
    stream.isDue = false;
  }

  /** Asks for credit for a frame, once for each frame. */
  #askForCredit(stream: Stream): Outgoing | undefined {
    return stream.askedForCredit ? undefined : { case: "creditRequest", value: stream.creditRequest() };
  }

  /**
   * Asks for credit for the streams behind the one whose turn it is, once that has waited for a while. A batch may wait for
   * any of them, and what the first one holds may come back only after that batch.
   */
  #askForOthers(): Outgoing | undefined {
    const silent = this.#due.find((stream, place) => place > 0 && !stream.askedForCredit && stream.hasUnsent);
    if (silent === undefined) return undefined;
    if (!this.#othersMayAsk) {
      this.#othersTimer ??= setTimeout(() => {
        this.#othersTimer = undefined;
        this.#othersMayAsk = true;
        this.#wakeup.set();
      }, ASK_FOR_OTHERS_MS);
      return undefined;
    }
    return { case: "creditRequest", value: silent.creditRequest() };
  }
}

/** Joins messages of one frame each. They differ from the entries of `Frames.frames` by their tags, of one byte. */
function join(requests: Uint8Array[], size: number): Uint8Array {
  const length: number[] = [];
  for (let left = size; ; left >>>= 7) {
    length.push(left > 0x7f ? (left & 0x7f) | 0x80 : left);
    if (left <= 0x7f) break;
  }
  const joined = new Uint8Array(1 + length.length + size);
  joined.set([FRAMES_TAG, ...length]);
  let at = 1 + length.length;
  for (const request of requests) {
    joined.set(request, at);
    joined[at] = ONE_OF_FRAMES_TAG;
    at += request.length;
  }
  return joined;
}
