import type { MessageInitShape } from "@bufbuild/protobuf";

import type { FrameSchema, Position as WirePosition } from "../gen/headrace/protocol/v1/frame_pb.js";
import type { BacklogSchema, CreditRequestSchema, StreamOpened } from "../gen/headrace/protocol/v1/source_pb.js";
import type { Backlog, Position } from "../message.js";
import type { Columns } from "../wire/columns.js";
import { cutFitting, cutOne, encodeCut, take, type Cut } from "../wire/frame.js";
import { cheapest, plus } from "../wire/sequence.js";
import { Credit } from "./credit.js";
import { Gather, type FrameLimits } from "./gather.js";
import type { ReadEnd, Reader } from "./reader.js";
import { Tokens } from "./tokens.js";

/** The limits of frames. */
export interface StreamLimits extends FrameLimits {
  /** The largest frame that the gateway accepts, in messages. */
  readonly maxMessages: number;
  /** Whether the gateway accepts frames without messages. */
  readonly movesCursors: boolean;
  /** The credit that a frame uses besides its own bytes. */
  readonly overhead: number;
}

/** A frame, ready to be sent. */
export interface OutgoingFrame {
  readonly bytes: Buffer;
  readonly messages: number;
}

/** A stream that was opened under one id: what is to be sent, what is outstanding, what was acknowledged. */
export class Stream {
  reader: Reader | undefined;
  gather: Gather;
  /** Whether it has its turn to send, or waits for it. */
  isDue = false;
  timer: NodeJS.Timeout | undefined;
  lastFrameAt = -Infinity;
  /** When to report the backlog, even though there are messages to send. */
  backlogAt = 0;
  /** Whether it sends no more; what was sent may still be acknowledged. */
  isMuted = false;
  closeSent = false;
  end: ReadEnd | undefined;
  /** Whether a request for credit is in force: since the stream's last frame. */
  askedForCredit = false;
  /** How many messages the source has yielded at or before its position, although they were received already. */
  again = 0;
  readonly #lent = new Credit();
  readonly #tokens = new Tokens();
  #epoch = 0n;
  #resume: bigint | undefined;
  /** The position that the source has, without a cursor, until it has yielded a later message. */
  #floor: bigint | undefined;
  #lastSent: bigint | undefined;
  #acknowledged = -1n;
  #moves = 0n;
  #backlog: Backlog | undefined;
  #caughtUp = false;
  #reported = "";

  constructor(
    readonly id: number,
    readonly partition: string,
    readonly name: string,
    private readonly limits: StreamLimits,
  ) {
    this.gather = new Gather(id, limits, 1);
  }

  /** Takes the gateway's answer; returns where to resume, and what is acknowledged, if they are of this epoch. */
  opened(answer: StreamOpened): { resume: Position | undefined; acknowledged: Position | undefined } {
    this.#epoch = answer.epoch;
    const ofThisEpoch = (position: WirePosition | undefined): Position | undefined =>
      position?.epoch === this.#epoch ? fromWire(position) : undefined;
    const resume = ofThisEpoch(answer.resume);
    const acknowledged = ofThisEpoch(answer.acknowledged);
    if (resume) {
      this.#resume = resume.sequence;
      this.gather = new Gather(this.id, this.limits, plus(cheapest(resume.sequence), 1));
    }
    if (acknowledged) {
      this.#acknowledged = acknowledged.sequence;
      this.#moves = answer.acknowledged?.moves ?? 0n;
    }
    return { resume, acknowledged };
  }

  /** Notes the position of a replayable source. With a cursor, it may yield again what follows the cursor. */
  begin(position: Position | undefined): void {
    this.#floor = position?.cursor === undefined ? position?.sequence : undefined;
  }

  /** Whether the source may still yield what precedes its position. */
  get mayRepeat(): boolean {
    return this.#floor !== undefined;
  }

  /** Whether something was read and not sent. */
  get hasUnsent(): boolean {
    return !this.isMuted && !this.gather.isEmpty;
  }

  /** Whether something was sent and not acknowledged. */
  get hasUnacknowledged(): boolean {
    return this.#lastSent !== undefined && this.#acknowledged < this.#lastSent;
  }

  /** Whether the stream was closed, and everything before that is acknowledged. */
  get isFinished(): boolean {
    if (!this.closeSent || this.isMuted) return false;
    const last = this.#lastSent ?? this.#resume;
    return last === undefined || this.#acknowledged >= last;
  }

  /** Whether the source has nothing more for now. */
  get caughtUp(): boolean {
    return this.#caughtUp;
  }

  /** Notes the tokens of the messages that were added last. */
  addTokens(tokens: readonly unknown[]): void {
    this.#tokens.add(tokens, Number(this.gather.lastAdded));
  }

  /**
   * Cuts the next frame and spends its credit.
   *
   * A frame is sent whole, or else waits for credit: using up the rest would make ever smaller frames. Only if nothing of
   * the stream is outstanding, it is cut to what there is.
   *
   * @returns undefined if it has to wait for credit.
   */
  nextFrame(session: Credit): OutgoingFrame | undefined {
    const columns = this.gather.front()!;
    const { overhead } = this.limits;
    const bytes = session.bytes + this.#lent.bytes;
    const messages = session.messages + this.#lent.messages;
    const fits = (cut: Cut): boolean => cut.size + overhead <= bytes && cut.stop - cut.start <= messages;
    let cut: Cut | undefined = this.#wholeFrame();
    if (!fits(cut)) {
      if (this.hasUnacknowledged && this.#lent.messages === 0) return undefined;
      cut = cutFitting(columns, this.id, Math.min(bytes - overhead, this.limits.maxBytes), messages);
      if (cut === undefined) return undefined;
    }
    const count = cut.stop - cut.start;
    this.releaseLent(session);
    session.spend(cut.size + overhead, count);
    const frame = { bytes: encodeCut(columns, this.id, cut), messages: count };
    this.#countAgain(columns, cut);
    take(columns, cut);
    if (columns.at === columns.rows) this.gather.shift();
    this.#lastSent = BigInt(cut.last);
    this.askedForCredit = false;
    return frame;
  }

  #countAgain(columns: Columns, cut: Cut): void {
    if (this.#floor === undefined) return;
    let sequence = columns.firstSequence;
    for (let row = cut.start; row < cut.stop && BigInt(sequence) <= this.#floor; row++) {
      this.again++;
      sequence = plus(sequence, columns.hasGaps ? (columns.deltas[row + 1] ?? 1) : 1);
    }
    if (BigInt(cut.last) > this.#floor) this.#floor = undefined;
  }

  /** A frame without messages, if the cursor has moved since the last message was sent; otherwise undefined. */
  cursorFrame(): MessageInitShape<typeof FrameSchema> | undefined {
    const cursor = this.gather.takeCursor();
    if (cursor === undefined || !this.limits.movesCursors) return undefined;
    return { streamId: this.id, firstSequence: this.#lastSent ?? this.#resume ?? 0n, cursor };
  }

  /** The request for credit for what waits. */
  creditRequest(): MessageInitShape<typeof CreditRequestSchema> {
    this.askedForCredit = true;
    const smallest = cutOne(this.gather.front()!, this.id);
    const whole = this.#wholeFrame();
    return {
      streamId: this.id,
      bytes: BigInt(smallest.size),
      messages: 1n,
      readyBytes: BigInt(whole.size),
      readyMessages: BigInt(whole.stop - whole.start),
    };
  }

  /** Takes credit that is for this stream's next frame. */
  grant(bytes: bigint, messages: bigint): void {
    this.#lent.grant(bytes, messages);
  }

  /** Gives credit that was for this stream alone to the session: its frame is sent, or never will be. */
  releaseLent(session: Credit): void {
    this.#lent.moveTo(session);
  }

  /** Notes what the source has left. Returns whether that is news. */
  setBacklog(left: Backlog | undefined, caughtUp: boolean): boolean {
    if (left === undefined && !caughtUp && !this.#caughtUp) return false;
    this.#backlog = left;
    this.#caughtUp = caughtUp;
    return true;
  }

  /** Notes that a message was added. */
  added(): void {
    this.#caughtUp = false;
  }

  /** What to report about what is left; undefined if that was reported. */
  takeBacklog(): MessageInitShape<typeof BacklogSchema> | undefined {
    const left = this.#backlog;
    if (left === undefined && !this.#caughtUp) return undefined;
    const unsent = this.gather.content;
    // The backlog may shrink while it is measured.
    const plusUnsent = (count: bigint | number | undefined, more: number): bigint | undefined =>
      count === undefined ? undefined : (count > 0 ? BigInt(count) : 0n) + BigInt(more);
    let latest = left?.latestSequence === undefined ? undefined : BigInt(left.latestSequence);
    const nothingLeft = left === undefined || Number(left.messages) <= 0 || Number(left.bytes) <= 0;
    if (this.#caughtUp && nothingLeft && unsent.messages === 0) {
      latest = this.#lastSent ?? this.#resume ?? 0n;
    }
    const messages = plusUnsent(left === undefined ? 0 : left.messages, unsent.messages);
    const bytes = plusUnsent(left === undefined ? 0 : left.bytes, unsent.bytes);
    const key = `${latest} ${messages} ${bytes}`;
    if (key === this.#reported) return undefined;
    this.#reported = key;
    return {
      streamId: this.id,
      ...(latest === undefined ? {} : { latestSequence: latest }),
      ...(messages === undefined ? {} : { messages }),
      ...(bytes === undefined ? {} : { bytes }),
    };
  }

  /**
   * Takes an acknowledgement, and passes it to the source. One of another epoch concerns messages that come again, and counts
   * for nothing.
   *
   * @returns The position, if it is new.
   */
  acknowledge(position: WirePosition): Position | undefined {
    const hasMoved = position.sequence === this.#acknowledged && position.moves > this.#moves;
    if (position.epoch !== this.#epoch || (position.sequence <= this.#acknowledged && !hasMoved)) return undefined;
    this.#acknowledged = position.sequence;
    this.#moves = position.moves;
    const acknowledged = fromWire(position);
    this.reader?.acknowledge(acknowledged, this.#tokens.takeThrough(position.sequence));
    return acknowledged;
  }

  /** Sends no more; what was sent may still be acknowledged. */
  mute(): void {
    this.isMuted = true;
    this.gather.clear();
    this.cancelTimer();
  }

  /** Sends no more, and expects nothing. */
  retire(): void {
    this.mute();
    this.#lastSent = undefined;
    this.#tokens.clear();
  }

  cancelTimer(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  /** The frame that should be sent next: of the usual size, or of one larger message. */
  #wholeFrame(): Cut {
    const columns = this.gather.front()!;
    const { targetBytes, targetMessages, maxBytes, maxMessages } = this.limits;
    const most = Math.min(maxMessages, targetMessages);
    // Columns hold about one frame of the usual size, unless they are of a large batch.
    const bytes = Math.min(maxBytes, targetBytes * 2);
    return cutFitting(columns, this.id, bytes, most) ?? cutOne(columns, this.id);
  }
}

/** Converts a position from the protocol. */
export function fromWire(position: WirePosition): Position {
  return { epoch: position.epoch, sequence: position.sequence, cursor: position.cursor };
}
