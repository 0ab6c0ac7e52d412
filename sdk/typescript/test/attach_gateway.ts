import assert from "node:assert/strict";

import { fromBinary, type MessageInitShape } from "@bufbuild/protobuf";

import type { Message } from "../src/message.js";
import type { Part, Transaction } from "../src/transaction.js";
import { Columns } from "../src/wire/columns.js";
import { cutAll, encodeCut } from "../src/wire/frame.js";
import { FakeGateway, type Session } from "./fake_gateway.js";
import {
  IngestRequestSchema,
  SinkServiceAttachRequestSchema,
  SinkServiceAttachResponseSchema,
  type Frame,
  type SinkWelcomeSchema,
} from "./generated.js";

const PATH = "/headrace.protocol.v1.SinkService/Attach";

export type AttachSession = Session<typeof SinkServiceAttachRequestSchema, typeof SinkServiceAttachResponseSchema>;

/** A gateway that a test speaks for. It ends a call after Goodbye. */
export function scripted(): FakeGateway<typeof SinkServiceAttachRequestSchema, typeof SinkServiceAttachResponseSchema> {
  return new FakeGateway(
    PATH,
    SinkServiceAttachRequestSchema,
    SinkServiceAttachResponseSchema,
    (session, { message }) => {
      if (message.case === "goodbye") session.end();
    },
  );
}

/** Answers SinkHello. */
export function welcome(session: AttachSession, more: MessageInitShape<typeof SinkWelcomeSchema> = {}): void {
  const value = { protocolVersion: 1, gatewayVersion: "fake", session: "s1", ...more };
  session.send({ case: "welcome", value: value as MessageInitShape<typeof SinkWelcomeSchema> });
}

/** A frame of messages whose places count from `first`. */
export function frameOf(first: number, ...messages: (Message | string)[]): Frame {
  const columns = new Columns({ rows: messages.length, keyBytes: 8, valueBytes: 8 });
  for (const [i, message] of messages.entries()) {
    columns.add(typeof message === "string" ? { value: message } : message, first + i);
  }
  return fromBinary(IngestRequestSchema, encodeCut(columns, 1, cutAll(columns, 1))).message.value as Frame;
}

export const transaction = (batch: number, pipeline = "p"): Transaction => ({ pipeline, batch: BigInt(batch) });

export const part = (batch: number, partition = 0, attempt = "1/0"): Part => ({
  transaction: transaction(batch),
  partition,
  attempt,
});

/** The gateway's actions, step by step. */
export class Script {
  #nextId = 0n;

  constructor(readonly session: AttachSession) {}

  /** Begins a part; returns its id. */
  start(of: Part): bigint {
    const id = (this.#nextId += 1n);
    this.session.send({ case: "startPart", value: { id, part: of } });
    return id;
  }

  rows(id: bigint, first: number, ...messages: (Message | string)[]): void {
    this.session.send({ case: "frame", value: { id, frame: frameOf(first, ...messages) } });
  }

  end(id: bigint, messages: number): void {
    this.session.send({ case: "endPart", value: { id, messages: BigInt(messages) } });
  }

  /** Delivers a part, and expects that it is staged; returns the refused places. */
  async staged(of: Part, ...values: string[]): Promise<number[]> {
    const id = this.start(of);
    if (values.length > 0) this.rows(id, 0, ...values);
    this.end(id, values.length);
    const answer = await this.session.next("staged", ["failed"]);
    assert.equal(answer.id, id);
    return answer.refused.map(({ sequence }) => Number(sequence));
  }

  prepare(of: Transaction, ...parts: Part[]): void {
    this.session.send({ case: "prepare", value: { transaction: of, parts } });
  }

  commit(of: Transaction): void {
    this.session.send({ case: "commit", value: { transaction: of } });
  }

  abort(of: Transaction): void {
    this.session.send({ case: "abort", value: { transaction: of } });
  }

  drop(id: bigint): void {
    this.session.send({ case: "dropPart", value: { id } });
  }

  /** Expects a vote. */
  async prepared(of: Transaction, ...parts: Part[]): Promise<void> {
    this.prepare(of, ...parts);
    const answer = await this.session.next("prepared", ["failed"]);
    assert.equal(answer.transaction?.batch, of.batch);
  }

  /** Expects that a transaction is made visible. */
  async committed(of: Transaction): Promise<void> {
    this.commit(of);
    const answer = await this.session.next("committed", ["failed"]);
    assert.equal(answer.transaction?.batch, of.batch);
  }

  /** Expects a failure; returns its reason. */
  async failed(): Promise<string> {
    return (await this.session.next("failed", ["staged", "prepared", "committed"])).reason;
  }
}
