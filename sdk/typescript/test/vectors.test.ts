import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { fromBinary } from "@bufbuild/protobuf";
import { Metadata, status } from "@grpc/grpc-js";

import { Backoff } from "../src/backoff.js";
import { GatewayRefusedError, GatewayUnavailableError } from "../src/errors.js";
import { FrameSchema, type Frame } from "../src/gen/headrace/protocol/v1/frame_pb.js";
import { PartFrameSchema } from "../src/gen/headrace/protocol/v1/sink_pb.js";
import { isName, streamName } from "../src/names.js";
import { leadsHere } from "../src/wire/address.js";
import { checkFrame } from "../src/wire/check.js";
import { Columns } from "../src/wire/columns.js";
import { sessionEnded } from "../src/wire/ending.js";
import { cutAll, encodeCut } from "../src/wire/frame.js";
import { columnsOf, messagesOf, readVectors, type FrameColumns } from "./vectors.js";

interface ValidFrame {
  name: string;
  message: "Frame" | "PartFrame";
  decode_only: boolean;
  hex: string;
  size: number;
  columns: FrameColumns;
}

function decoded({ message, hex: bytes }: Pick<ValidFrame, "message" | "hex">): Frame {
  const buffer = Buffer.from(bytes, "hex");
  return message === "Frame" ? fromBinary(FrameSchema, buffer) : fromBinary(PartFrameSchema, buffer).frame!;
}

describe("frames", () => {
  const { valid, invalid } = readVectors<{
    valid: ValidFrame[];
    invalid: { name: string; rule: string; hex: string }[];
  }>("frames");
  for (const vector of valid) {
    const { columns } = vector;
    it(`decodes: ${vector.name}`, () => {
      const { cursor, ...lists } = columnsOf(decoded(vector));
      const count = columns.sequences.length;
      const nulls = Array.from({ length: count }, () => null);
      assert.deepEqual(lists, {
        stream_id: columns.stream_id ?? 0,
        sequences: columns.sequences,
        values: columns.values,
        keys: columns.keys ?? nulls,
        event_times: columns.event_times ?? nulls,
        message_ids: columns.message_ids ?? nulls,
        headers: columns.headers ?? nulls.map(() => []),
      });
      assert.equal(cursor, columns.cursor || null);
    });
    if (vector.decode_only || vector.message !== "Frame") continue;
    it(`encodes: ${vector.name}`, () => {
      const packed = new Columns({ rows: 1, keyBytes: 1, valueBytes: 1 });
      for (const message of messagesOf(columns)) packed.add(message, message.sequence!);
      const streamId = columns.stream_id ?? 0;
      const cut = cutAll(packed, streamId);
      const request = encodeCut(packed, streamId, cut);
      assert.equal(request.subarray(-vector.size).toString("hex"), vector.hex);
      assert.equal(cut.size, vector.size);
    });
  }
  const checked = new Set(Array.from({ length: 9 }, (_, i) => `FRM-${i + 3}`));
  for (const vector of invalid.filter(({ rule }) => checked.has(rule))) {
    it(`refuses: ${vector.name}`, () => {
      assert.throws(() => {
        checkFrame(decoded({ message: "Frame", hex: vector.hex }));
      });
    });
  }
});

describe("names", () => {
  const vectors = readVectors<Record<string, { cases: { name: string; valid: boolean }[] }>>("names");
  for (const { name, valid } of vectors["names"].cases) {
    it(`${valid ? "accepts" : "refuses"} the name ${JSON.stringify(name)}`, () => {
      assert.equal(isName(name), valid);
    });
  }
  for (const { name, valid } of vectors["streams"].cases) {
    it(`${valid ? "accepts" : "refuses"} the stream ${JSON.stringify(name)}`, () => {
      const [source = "", ...rest] = name.split("/");
      const make = (): string => streamName(source, rest.join("/"));
      if (valid) assert.equal(make(), name);
      else assert.throws(make);
    });
  }
});

describe("addresses", () => {
  const vectors = readVectors<Record<string, { cases: { address: string; here: boolean }[] }>>("addresses");
  for (const { address, here } of vectors["addresses"].cases) {
    it(`${here ? "finds" : "does not find"} ${address} on this machine`, () => {
      assert.equal(leadsHere(address), here);
    });
  }
});

describe("ends of sessions", () => {
  interface Ending {
    name: string;
    code: number;
    text: string;
    reason?: string;
    domain?: string;
    metadata?: Record<string, string>;
    details_hex?: string;
    reconnect: boolean;
  }
  for (const vector of readVectors<{ cases: Ending[] }>("errors").cases) {
    it(`${vector.reconnect ? "reconnects after" : "gives up after"} ${vector.name}`, () => {
      const metadata = new Metadata();
      if (vector.details_hex) metadata.set("grpc-status-details-bin", Buffer.from(vector.details_hex, "hex"));
      const { text: details } = vector;
      const code = status[status[vector.code] as keyof typeof status];
      const error = sessionEnded("gateway:1", { code, details, metadata });
      assert.ok(error instanceof (vector.reconnect ? GatewayUnavailableError : GatewayRefusedError));
      assert.ok(error.message.includes(vector.text));
      if (vector.domain === "headrace") {
        assert.equal(error.reason, vector.reason);
        assert.deepEqual(error.metadata, vector.metadata);
      }
    });
  }
});

describe("backoff", () => {
  interface Case {
    first_ms: number;
    max_ms: number;
    bounds: { attempt: number; bound_ms: number }[];
  }
  for (const vector of readVectors<{ cases: Case[] }>("backoff").cases) {
    it(`doubles from ${vector.first_ms} ms to ${vector.max_ms} ms`, () => {
      for (const { attempt, bound_ms: bound } of vector.bounds) {
        for (const draw of [0, 0.5, 0.999]) {
          const backoff = new Backoff(vector.first_ms, vector.max_ms, () => draw);
          for (let i = 1; i < attempt; i++) backoff.next();
          assert.equal(backoff.bound, bound);
          assert.equal(backoff.next(), bound * draw);
          backoff.reset();
          assert.equal(backoff.bound, vector.first_ms);
        }
      }
    });
  }
  it("of cursors that move after one message, the latest is kept", () => {
    const columns = new Columns({ rows: 2, keyBytes: 1, valueBytes: 1 });
    for (const sequence of [1, 2]) {
      columns.add({ value: "v" }, sequence);
      for (let number = 0; number < 1000; number++) columns.moveCursor(Buffer.from(`${sequence}-${number}`));
    }
    assert.deepEqual(
      columns.cursors.map(([row, cursor]) => [row, String(cursor)]),
      [
        [0, "1-999"],
        [1, "2-999"],
      ],
    );
  });
});
