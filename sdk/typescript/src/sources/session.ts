import { setTimeout as sleep } from "node:timers/promises";

import { describe, HeadraceError, NotPermittedError, PositionLostError, SourceFailedError } from "../errors.js";
import type { PositionSchema } from "../gen/headrace/protocol/v1/frame_pb.js";
import {
  Capability,
  RejectReason,
  SourceKind,
  type IngestResponse,
  type Reject,
  type StreamOpened,
  type Welcome,
} from "../gen/headrace/protocol/v1/source_pb.js";
import type { Health } from "../health.js";
import { streamName } from "../names.js";
import type { Settings } from "../options.js";
import { UNANNOUNCED_CURSOR_BYTES } from "../wire/columns.js";
import type { Ending } from "../wire/ending.js";
import { Reporter } from "../wire/reporter.js";
import { Wakeup } from "../wire/wakeup.js";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Credit } from "./credit.js";
import type { Driver } from "./driver.js";
import { Reader } from "./reader.js";
import { Sender, type Write } from "./sender.js";
import { fromWire, Stream, type StreamLimits } from "./stream.js";

const KINDS = {
  replayable: SourceKind.REPLAYABLE,
  redelivering: SourceKind.REDELIVERING,
  resumable: SourceKind.RESUMABLE,
};
const OWNED_RETRY_MS = 1000;
const FIRST_LOST_RETRY_MS = 500;
const MAX_LOST_RETRY_MS = 30_000;
/** The share of the gateway's deadline after which a session that drains ends. */
const IGNORES = "read ignores its position: it yields what was received before; begin after position.sequence";
const DRAIN_SHARE = 0.9;
const GOODBYE_MS = 1000;
const TURN_MS = 50;
/** A frame uses at most this share of the session's first credit, so that frames flow while others are committed. */
const WINDOW_SHARE = 4;

/** The connector's side of one call, from Welcome to its end. */
export class SourceSession {
  readonly #sender: Sender;
  readonly #credit: Credit;
  readonly #limits: StreamLimits;
  readonly #maxStreams: number;
  readonly #reporter: Reporter;
  /** Streams by id, as long as anything is expected of them. */
  readonly #streams = new Map<number, Stream>();
  /** Streams whose source has ignored its position. */
  readonly #repeating = new WeakSet<Stream>();
  /** The streams of partitions that are open, or are about to be opened again. */
  readonly #current = new Map<string, Stream>();
  readonly #ended = new Set<string>();
  readonly #closed = new Set<string>();
  /** Partitions that have ended and will not be offered again, until the source lists them no longer. */
  readonly #gone = new Set<string>();
  readonly #lostInARow = new Map<string, number>();
  readonly #pollNow = new Wakeup();
  readonly #startsWanted = new Wakeup();
  readonly #tasks = new Set<Promise<void>>();
  readonly #over = new AbortController();
  #anyEnded = false;
  #nextId = 1;
  #leaving: Ending | HeadraceError | undefined;
  #leaveTimer: NodeJS.Timeout | undefined;
  #isFlushing = false;
  #finish!: (why: Ending | HeadraceError) => void;
  #fail!: (error: unknown) => void;
  readonly #end: Promise<Ending | HeadraceError>;

  constructor(
    private readonly driver: Driver,
    private readonly settings: Settings,
    welcome: Welcome,
    health: Health,
    write: Write,
    private readonly stop: AbortSignal,
  ) {
    const { bytes = 0n, messages = 0n } = welcome.credit ?? {};
    const share = (window: bigint, target: number): number =>
      Math.max(1, Math.min(target, Math.floor(Number(window) / WINDOW_SHARE)));
    this.#limits = {
      targetBytes: share(bytes, settings.frameBytes),
      targetMessages: share(messages, Math.min(settings.frameMessages, welcome.maxFrameMessages)),
      maxBytes: Number(welcome.maxFrameBytes),
      maxCursorBytes: welcome.maxCursorBytes || UNANNOUNCED_CURSOR_BYTES,
      movesCursors: welcome.capabilities.includes(Capability.CURSORS),
      maxMessages: welcome.maxFrameMessages,
      overhead: welcome.frameOverheadBytes,
    };
    this.#maxStreams = welcome.maxStreams;
    this.#credit = new Credit(Number(bytes), Number(messages));
    const lingerMs = welcome.pace?.lingerMs ?? settings.lingerMs;
    const joinedBytes = welcome.capabilities.includes(Capability.FRAMES) ? this.#limits.maxBytes : 0;
    const sent = (stream: Stream): void => {
      this.#sent(stream);
    };
    this.#sender = new Sender(this.#credit, write, lingerMs, settings.metrics, sent, joinedBytes);
    this.#reporter = new Reporter(health, (report) => {
      this.#sender.say({ case: "report", value: report });
    });
    this.#health = health;
    this.#end = new Promise((resolve, reject) => {
      this.#finish = resolve;
      this.#fail = reject;
    });
  }

  readonly #health: Health;

  /**
   * Serves the session until it ends; leaves no reader behind.
   *
   * @param responses - The gateway's messages.
   * @throws {@link HeadraceError} if the source failed or yielded what cannot be sent, if the gateway refused a stream, or
   *   when the call ends.
   */
  async run(responses: AsyncIterable<IngestResponse>): Promise<Ending> {
    const receiving = this.#receive(responses);
    const sending = this.#sender.run().catch(this.#fail);
    this.#start(this.#watchPartitions());
    this.#start(this.#answerStarts());
    const stopped = (): void => {
      this.#leave("the connector stops", this.settings.drainMs, true);
    };
    if (this.stop.aborted) stopped();
    else this.stop.addEventListener("abort", stopped);
    this.#reporter.start();
    try {
      const why = await this.#end;
      await this.#sender.goodbye(why instanceof HeadraceError ? why.message : why);
      // The gateway ends the call; cancelling it could overtake what was just written.
      await Promise.race([receiving, sleep(GOODBYE_MS, undefined, { ref: false })]);
      if (why instanceof HeadraceError) throw why;
      return why;
    } finally {
      this.stop.removeEventListener("abort", stopped);
      await this.#close();
      await sending;
    }
  }

  // Messages of the gateway

  async #receive(responses: AsyncIterable<IngestResponse>): Promise<void> {
    try {
      for await (const response of responses) this.#take(response);
    } catch (error) {
      this.#fail(error);
    }
  }

  #take({ message }: IngestResponse): void {
    switch (message.case) {
      case "ack":
        for (const { streamId, position } of message.value.streams) {
          const stream = this.#streams.get(streamId);
          if (!stream || !position) continue;
          const acknowledged = stream.acknowledge(position);
          if (acknowledged) {
            this.settings.metrics.add("headrace.acknowledged", 1, { stream: stream.name });
            this.driver.starts.acknowledged(stream.partition, acknowledged.sequence);
          }
          this.#forgetIfFinished(stream);
        }
        if (message.value.credit) this.#sender.grant(message.value.credit);
        else this.#sender.wake();
        this.#lookForEnd();
        break;
      case "credit": {
        const { streamId } = message.value;
        const stream = streamId === undefined ? undefined : this.#streams.get(streamId);
        if (stream && !stream.isMuted) this.#sender.grantTo(stream, message.value);
        else this.#sender.grant(message.value);
        break;
      }
      case "streamOpened":
        this.#opened(message.value);
        break;
      case "reject":
        this.#rejected(message.value);
        break;
      case "startsWanted":
        this.#startsWanted.set();
        break;
      case "pace":
        this.#sender.lingerMs = message.value.lingerMs;
        break;
      case "drain":
        this.settings.logger.info("the gateway asks to reconnect", { reason: message.value.reason });
        this.#leave("the gateway asked to reconnect", message.value.deadlineMs * DRAIN_SHARE, false);
        break;
      default:
        this.settings.logger.debug("ignored a message that this version does not know", { message: message.case });
    }
  }

  #opened(answer: StreamOpened): void {
    const stream = this.#streams.get(answer.streamId);
    if (!stream || stream.isMuted || stream.reader || this.#leaving !== undefined) return;
    const { resume, acknowledged } = stream.opened(answer);
    if (acknowledged) this.driver.starts.acknowledged(stream.partition, acknowledged.sequence);
    const { source } = this.driver;
    const earlier = answer.earlier && fromWire(answer.earlier);
    const position = source.kind === "redelivering" ? earlier : answer.skipLost ? undefined : resume;
    const after = source.kind === "redelivering" ? undefined : position?.sequence;
    if (source.kind !== "redelivering") stream.begin(position);
    this.settings.logger.info("reading a stream", { stream: stream.name, after });
    stream.reader = new Reader({
      source,
      partition: stream.partition,
      stream: stream.name,
      position,
      acknowledged,
      gather: stream.gather,
      logger: this.settings.logger,
      calls: this.driver.calls,
      changed: () => {
        stream.added();
        this.#sender.look(stream);
      },
      tokens: (tokens) => {
        stream.addTokens(tokens);
      },
      backlog: (left, caughtUp) => {
        if (stream.setBacklog(left, caughtUp)) this.#sender.look(stream);
      },
      leftOut: () => {
        this.settings.metrics.add("headrace.unsendable", 1, { stream: stream.name });
      },
      ended: (how) => {
        stream.end = how;
        this.#sender.look(stream);
      },
      failed: (error) => {
        this.#readerFailed(stream, error);
      },
    });
  }

  #rejected(reject: Reject): void {
    const stream = this.#streams.get(reject.streamId);
    if (!stream || stream.isMuted) return;
    const fields = { stream: stream.name, reason: reject.message };
    switch (reject.reason) {
      case RejectReason.REOPEN:
        this.settings.logger.info("a stream is opened again", fields);
        this.#reopen(stream, reject.retryAfterMs);
        break;
      case RejectReason.OWNED:
        this.settings.logger.warn("another instance owns a stream; trying again", fields);
        this.#health.survived(reject.message, stream.name);
        this.#reopen(stream, reject.retryAfterMs || OWNED_RETRY_MS);
        break;
      default: {
        const end = { status: "PERMISSION_DENIED", reason: "NOT_PERMITTED" };
        stream.mute();
        this.#leave(
          new NotPermittedError(`stream ${stream.name}: ${reject.message}`, end),
          this.settings.drainMs,
          true,
        );
      }
    }
  }

  // Streams

  /** Opens a stream for each partition, now and as they appear; ends the session when all have ended. */
  async #watchPartitions(): Promise<void> {
    while (this.#leaving === undefined) {
      const allEnded = this.#allFinished();
      // Those that have ended count no longer, here and at the gateway.
      const partitions = await this.driver.partitions(this.#maxStreams + this.#ended.size);
      if (this.#isLeaving()) return;
      this.#forgetGone(partitions);
      const fresh = partitions.filter((partition) => !this.#current.has(partition) && !this.#ended.has(partition));
      for (const partition of fresh.slice(0, Math.max(0, this.#maxStreams - this.#current.size))) this.#open(partition);
      if (allEnded && fresh.length === 0 && this.#allFinished()) {
        this.#finish("the source has ended");
        return;
      }
      await this.#pollNow.wait(this.settings.partitionPollMs);
      // Where partitions take turns, one that has ended is seldom the only one.
      if (this.driver.source.takesTurns === true) await sleep(TURN_MS, undefined, { signal: this.#over.signal });
    }
  }

  #isLeaving(): boolean {
    return this.#leaving !== undefined;
  }

  /** Keeps nothing of partitions that are gone and not listed; one that is listed later is a new one. */
  #forgetGone(partitions: readonly string[]): void {
    for (const partition of this.#gone) {
      if (partitions.includes(partition)) continue;
      this.#gone.delete(partition);
      this.#ended.delete(partition);
    }
  }

  /** Asks for a stream under a new id. */
  #open(partition: string): void {
    this.#closed.delete(partition);
    const stream = new Stream(this.#nextId++, partition, streamName(this.driver.name, partition), this.#limits);
    this.#streams.set(stream.id, stream);
    this.#current.set(partition, stream);
    this.#sender.say({
      case: "openStream",
      value: {
        streamId: stream.id,
        stream: stream.name,
        kind: KINDS[this.driver.source.kind ?? "replayable"],
        choosesStart: this.driver.choosesStart,
      },
    });
  }

  /** Tells where all streams begin, whenever the gateway asks for one. */
  async #answerStarts(): Promise<void> {
    for (;;) {
      await this.#startsWanted.wait();
      if (this.#over.signal.aborted) return;
      const starts = await this.driver.starts.of([...this.#current.keys()], this.#limits.maxCursorBytes);
      const streams: { streamId: number; position?: MessageInitShape<typeof PositionSchema> }[] = [];
      for (const [partition, start] of starts) {
        const stream = this.#current.get(partition);
        // It may have ended meanwhile.
        if (!stream) continue;
        const cursor = start?.cursor === undefined ? {} : { cursor: start.cursor };
        const position = start === undefined ? {} : { position: { sequence: start.sequence, ...cursor } };
        streams.push({ streamId: stream.id, ...position });
      }
      this.#sender.say({ case: "starts", value: { streams } });
    }
  }

  /** Stops a stream's reader and asks for the stream again, under a new id. */
  #reopen(stream: Stream, delayMs: number): void {
    stream.retire();
    const reopen = async (): Promise<void> => {
      await stream.reader?.stop(this.settings.stuckMs, () => this.stop.aborted);
      if (delayMs > 0) await sleep(delayMs, undefined, { signal: this.#over.signal });
      if (this.#leaving !== undefined) return;
      this.#streams.delete(stream.id);
      this.#open(stream.partition);
    };
    this.#start(reopen());
    this.#lookForEnd();
  }

  #readerFailed(stream: Stream, error: HeadraceError): void {
    if (stream.isMuted) {
      this.settings.logger.debug("a source threw while it was closed", { stream: stream.name, error: describe(error) });
    } else if (error instanceof PositionLostError) {
      this.#positionLost(stream, error);
    } else {
      // The messages before are sound, and are sent first.
      stream.end = undefined;
      this.#leave(error, this.settings.drainMs, true);
    }
  }

  /** Tells the gateway, and asks for the stream again; ever more rarely if that does not help. */
  #positionLost(stream: Stream, lost: PositionLostError): void {
    this.settings.logger.warn("a position is lost", { stream: stream.name, reason: lost.message });
    this.#health.survived(lost, stream.name);
    const earliest = lost.earliest === undefined ? {} : { earliestSequence: lost.earliest };
    this.#sender.say({ case: "positionLost", value: { streamId: stream.id, reason: lost.message, ...earliest } });
    const times = this.#lostInARow.get(stream.partition) ?? 0;
    this.#lostInARow.set(stream.partition, times + 1);
    this.#reopen(stream, times === 0 ? 0 : Math.min(MAX_LOST_RETRY_MS, FIRST_LOST_RETRY_MS * 2 ** (times - 1)));
  }

  // The end

  /** Reads no more; ends the session once everything is acknowledged, or after a while. */
  #leave(why: Ending | HeadraceError, ms: number, flush: boolean): void {
    if (this.#leaving !== undefined) return;
    this.#leaving = why;
    this.#isFlushing = flush;
    if (why instanceof HeadraceError) {
      this.settings.logger.warn("stopping, once what was read is acknowledged", { error: describe(why) });
    }
    for (const stream of this.#streams.values()) stream.reader?.pause();
    if (flush) this.#sender.flush(this.#streams.values());
    else this.#sender.mute();
    this.#leaveTimer = setTimeout(() => {
      const waiting = [...this.#streams.values()].filter((stream) => stream.hasUnsent || stream.hasUnacknowledged);
      const fields = { streams: waiting.slice(0, 10).map(({ name }) => name) };
      this.settings.logger.info("not acknowledged in time, to be sent again", fields);
      this.#finish(why);
    }, ms);
    this.#lookForEnd();
  }

  #sent(stream: Stream): void {
    if (stream.again > 0) this.#tellAgain(stream);
    if (stream.hasUnacknowledged) this.#lostInARow.delete(stream.partition);
    stream.reader?.wake();
    this.#forgetIfFinished(stream);
    this.#lookForEnd();
  }

  #tellAgain(stream: Stream): void {
    if (!this.#repeating.has(stream)) {
      this.#repeating.add(stream);
      this.settings.logger.warn(IGNORES, { stream: stream.name });
      this.#health.survived(new Error(IGNORES), stream.name);
    }
    if (stream.mayRepeat) return;
    this.settings.logger.warn("messages were sent again", { stream: stream.name, messages: stream.again });
    stream.again = 0;
  }

  /** Keeps nothing of a stream that has ended, or was closed for now, once all of it is acknowledged. */
  #forgetIfFinished(stream: Stream): void {
    if (!stream.isFinished || this.#leaving !== undefined || !this.#streams.delete(stream.id)) return;
    this.#current.delete(stream.partition);
    (stream.end === "closed" ? this.#closed : this.#ended).add(stream.partition);
    // Where partitions come and go, others may follow.
    if (stream.end === "gone") this.#gone.add(stream.partition);
    if (stream.end === "ended") this.#anyEnded = true;
    if (stream.reader) this.#start(stream.reader.stop(this.settings.stuckMs, () => this.stop.aborted));
    if (this.driver.source.takesTurns === true) this.#pollNow.set();
  }

  /** Ends the session if nothing is left to do. */
  #lookForEnd(): void {
    if (this.#leaving !== undefined) {
      const streams = [...this.#streams.values()];
      const isBusy = streams.some((stream) => stream.hasUnacknowledged || (this.#isFlushing && stream.hasUnsent));
      if (!isBusy) this.#finish(this.#leaving);
    } else if (this.#allFinished()) {
      this.#pollNow.set();
    }
  }

  /** Whether there were partitions, and all have ended and are acknowledged. */
  #allFinished(): boolean {
    return this.#anyEnded && this.#current.size === 0 && this.#closed.size === 0;
  }

  /** Owns a task; its failure ends the session. */
  #start(task: Promise<void>): void {
    const owned: Promise<void> = task
      .catch((error: unknown) => {
        if (this.#over.signal.aborted) return;
        const failure =
          error instanceof HeadraceError ? error : new SourceFailedError(describe(error), { cause: error });
        this.#leave(failure, this.settings.drainMs, true);
      })
      .finally(() => this.#tasks.delete(owned));
    this.#tasks.add(owned);
  }

  /** Ends every task and reader, and waits for them. */
  async #close(): Promise<void> {
    this.#leaving ??= "the connector stops";
    clearTimeout(this.#leaveTimer);
    this.#over.abort();
    this.#reporter.stop();
    this.#sender.stop();
    this.#pollNow.set();
    this.#startsWanted.set();
    const mayAbandon = (): boolean => this.stop.aborted || this.#leaving instanceof HeadraceError;
    const readers = [...this.#streams.values()].map((stream) => {
      stream.mute();
      return stream.reader?.stop(this.settings.stuckMs, mayAbandon);
    });
    await Promise.all([...readers, ...this.#tasks]);
  }
}
