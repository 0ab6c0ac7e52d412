import { toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";

import {
  FrameSchema,
  IngestRequestSchema,
  IngestResponseSchema,
  type Capability,
  type Frame,
  type IngestRequest,
} from "./generated.js";
import { Rows, type Row } from "../src/rows.js";
import { checkFrame } from "../src/wire/check.js";
import { FakeGateway, type Session } from "./fake_gateway.js";

const PATH = "/headrace.protocol.v1.SourceService/Ingest";
export const OVERHEAD = 300;

export type IngestSession = Session<typeof IngestRequestSchema, typeof IngestResponseSchema>;

/** A gateway that a test speaks for. It ends a call after Goodbye. */
export function scripted(): FakeGateway<typeof IngestRequestSchema, typeof IngestResponseSchema> {
  return new FakeGateway(PATH, IngestRequestSchema, IngestResponseSchema, (session, { message }) => {
    if (message.case === "goodbye") session.end();
  });
}

/** Limits of a gateway that matter to a test. */
export interface Limits {
  readonly maxFrameBytes?: bigint;
  readonly maxFrameMessages?: number;
  readonly maxStreams?: number;
  readonly maxCursorBytes?: number;
  readonly credit?: { bytes: bigint; messages: bigint };
  readonly pace?: { lingerMs: number };
  readonly capabilities?: Capability[];
}

const PLENTY = { bytes: BigInt(64 << 20), messages: 1_000_000n };

/** Answers Hello, with generous limits. */
export function welcome(session: IngestSession, limits: Limits = {}): void {
  const value = {
    protocolVersion: 1,
    gatewayVersion: "fake",
    session: "s1",
    maxFrameBytes: BigInt(4 << 20),
    maxFrameMessages: 65536,
    maxStreams: 100,
    frameOverheadBytes: OVERHEAD,
    credit: PLENTY,
    pace: { lingerMs: 1 },
    ...limits,
  };
  session.send({ case: "welcome", value });
}

/** The rows of a frame. */
export function rowsOf(frame: Frame): Row[] {
  return [...new Rows(frame)];
}

/** The values of frames, as text. */
export function texts(...frames: Frame[]): string[] {
  return frames.flatMap((frame) => rowsOf(frame).map(({ value }) => value?.toString() ?? "null"));
}

interface Stream {
  rows: Row[];
  isEnded: boolean;
}

/** A gateway that commits by itself whatever it receives, and checks every rule that a source must keep. */
export class CommittingGateway {
  readonly fake: FakeGateway<typeof IngestRequestSchema, typeof IngestResponseSchema>;
  readonly streams = new Map<string, Stream>();
  readonly violations: string[] = [];
  frames = 0;
  /** Ends the session once a number of messages was received. */
  endAfter = Infinity;
  readonly #sessions = new Map<IngestSession, { names: Map<number, string>; bytes: bigint; messages: bigint }>();

  constructor(private readonly limits: Limits = {}) {
    this.fake = new FakeGateway(PATH, IngestRequestSchema, IngestResponseSchema, (session, request) => {
      this.#take(session, request);
    });
  }

  /** The values of a stream, as text. */
  values(name: string): string[] {
    return this.streams.get(name)?.rows.map(({ value }) => value?.toString() ?? "null") ?? [];
  }

  #take(session: IngestSession, { message }: IngestRequest): void {
    const state = this.#sessions.get(session);
    switch (message.case) {
      case "hello": {
        const { bytes, messages } = this.limits.credit ?? PLENTY;
        this.#sessions.set(session, { names: new Map(), bytes, messages });
        welcome(session, this.limits);
        break;
      }
      case "openStream": {
        const { streamId, stream: name } = message.value;
        state!.names.set(streamId, name);
        const stream = this.streams.get(name) ?? { rows: [], isEnded: false };
        this.streams.set(name, stream);
        const last = stream.rows.at(-1);
        const position = last ? { resume: { sequence: last.sequence }, acknowledged: { sequence: last.sequence } } : {};
        session.send({ case: "streamOpened", value: { streamId, ...position } });
        break;
      }
      case "frame":
        this.#takeFrame(session, message.value);
        break;
      case "creditRequest": {
        const missing = message.value.bytes + BigInt(OVERHEAD) - state!.bytes;
        if (missing > 0n) {
          state!.bytes += missing;
          session.send({ case: "credit", value: { bytes: missing } });
        }
        break;
      }
      case "closeStream":
        this.streams.get(state!.names.get(message.value.streamId)!)!.isEnded = true;
        break;
      case "goodbye":
        session.end();
        break;
      default:
        break;
    }
  }

  #takeFrame(session: IngestSession, frame: Frame): void {
    const state = this.#sessions.get(session)!;
    this.frames += 1;
    checkFrame(frame);
    const bytes = BigInt(toBinary(FrameSchema, frame).length + OVERHEAD);
    const messages = BigInt(frame.count);
    if (bytes > state.bytes || messages > state.messages)
      this.violations.push(`credit overrun by frame ${this.frames}`);
    const stream = this.streams.get(state.names.get(frame.streamId)!)!;
    for (const row of rowsOf(frame)) {
      const last = stream.rows.at(-1)?.sequence ?? -1n;
      if (row.sequence <= last) this.violations.push(`sequence ${row.sequence} after ${last}`);
      else stream.rows.push(row);
    }
    const received = [...this.streams.values()].reduce((sum, { rows }) => sum + rows.length, 0);
    if (received >= this.endAfter) {
      this.endAfter = Infinity;
      session.end(status.UNAVAILABLE);
      return;
    }
    const position = { sequence: stream.rows.at(-1)!.sequence };
    const streams = [{ streamId: frame.streamId, position }];
    session.send({ case: "ack", value: { streams, credit: { bytes, messages } } });
  }
}
