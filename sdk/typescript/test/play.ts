import assert from "node:assert/strict";

import {
  create,
  fromJson,
  toBinary,
  toJson,
  type DescMessage,
  type JsonObject,
  type JsonValue,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";

import type { Connector } from "../src/index.js";
import { frameOf } from "./attach_gateway.js";
import { within, type FakeGateway, type Session } from "./fake_gateway.js";
import type { Frame } from "./generated.js";
import { columnsOf, messagesOf, readVectors, type FrameColumns } from "./vectors.js";

/** Messages that a connector may send at any time. */
const PASSED_OVER = new Set(["backlog", "credit_request", "report", "busy"]);

/** Steps that are for a tester of gateways. */
const OF_OTHERS = ["query", "others", "operator"];

/** Facts of the connector with which a script is played. */
export interface Played<Request extends DescMessage, Response extends DescMessage> {
  readonly gateway: FakeGateway<Request, Response>;
  readonly request: Request;
  readonly response: Response;
  readonly connector: Connector;
  /** Does what a step says of the source or sink, or waits for it. */
  act(what: JsonObject): Promise<void>;
  /** Called for each message of the gateway, and of the connector. */
  sent?(response: MessageShape<Response>): void;
  received?(request: MessageShape<Request>): void;
}

/** Plays the gateway of a script of conformance/vectors/sessions. */
export class Play<Request extends DescMessage, Response extends DescMessage> {
  #session: Session<Request, Response> | undefined;
  /** The ids of streams by their labels. */
  readonly #ids = new Map<JsonValue, JsonValue>();

  constructor(private readonly played: Played<Request, Response>) {}

  /** Takes the steps in order. */
  async run(steps: readonly JsonObject[]): Promise<void> {
    let isStopped = false;
    for (const step of steps) {
      const [[kind, what] = ["nothing", null]] = Object.entries(step);
      switch (kind) {
        case "connector":
          await this.#expect([what as JsonObject]);
          break;
        case "connector_in_any_order":
          await this.#expect(what as JsonObject[]);
          break;
        case "gateway":
          this.#send(what as JsonObject);
          break;
        case "gateway_bytes":
          this.#session!.sendBytes(Buffer.from(what as string, "hex"));
          break;
        case "lost":
          this.#end("UNAVAILABLE");
          break;
        case "end":
          this.#end(...(Object.values(what as JsonObject) as [string, string?]));
          break;
        case "outcome":
          await this.#outcome(what as string);
          break;
        case "source":
        case "sink":
          if ("stop" in (what as JsonObject)) {
            isStopped = true;
            void this.played.connector.stop();
          } else {
            await this.played.act(what as JsonObject);
          }
          break;
        default:
          assert.ok(OF_OTHERS.includes(kind), `this player does not know the step ${kind}`);
      }
    }
    if (isStopped) await within("the end of a connector that was stopped", this.played.connector.done);
  }

  /** Ends the call; after Goodbye it has ended by itself. */
  #end(name: string, reason?: string): void {
    const session = this.#session!;
    this.#session = undefined;
    if (name !== "OK") session.end(status[name as keyof typeof status], "as the script says", details(reason));
  }

  async #outcome(what: string): Promise<void> {
    const { connector, gateway } = this.played;
    if (what === "ended") await within("the end of the connector", connector.done);
    else if (what === "failed") await within("the failure of the connector", assert.rejects(connector.done));
    else this.#session = await gateway.session();
  }

  #send(what: JsonObject): void {
    const { response } = this.played;
    const message =
      "frame" in what ? partFrame(response, what["frame"] as JsonObject) : fromJson(response, this.#withIds(what));
    this.played.sent?.(message);
    this.#session!.sendBytes(toBinary(response, message));
  }

  /** Takes messages of the connector until all that are wanted have come, in any order. */
  async #expect(wanted: readonly JsonObject[]): Promise<void> {
    this.#session ??= await this.played.gateway.session();
    const left = structuredClone(wanted) as JsonObject[];
    while (left.length > 0) {
      const request: MessageShape<Request> = await this.#session.take();
      this.played.received?.(request);
      const [kind, got] = fieldsOf(this.played.request, request);
      const at = left.findIndex((want) => kind in want && this.#matches(want[kind], got, kind));
      if (at >= 0) left.splice(at, 1);
      else if (!PASSED_OVER.has(kind) && !(kind === "frame" && this.#isBeginning(left, got))) {
        assert.deepEqual({ [kind]: got }, left[0], "the connector says something else than the script");
        assert.fail(`the connector says ${kind}, and the script wants ${JSON.stringify(left)}`);
      }
    }
  }

  /** Takes the beginning of a wanted frame, if the connector has split it. */
  #isBeginning(wanted: readonly JsonObject[], got: JsonObject): boolean {
    const count = (got["sequences"] as JsonValue[]).length;
    for (const { frame } of wanted as { frame?: JsonObject }[]) {
      if (frame === undefined || (frame["sequences"] as JsonValue[]).length <= count) continue;
      const isList = (entry: [string, JsonValue]): entry is [string, JsonValue[]] => Array.isArray(entry[1]);
      const entries = Object.entries(frame);
      const begin = entries.map((entry) => (isList(entry) ? [entry[0], entry[1].slice(0, count)] : entry));
      if (!this.#matches(Object.fromEntries(begin) as JsonObject, got, "frame")) continue;
      for (const [name, list] of entries.filter(isList)) frame[name] = list.slice(count);
      return true;
    }
    return false;
  }

  /** Whether a message has the fields that a script names. The label of a new stream gets its meaning. */
  #matches(want: JsonValue | undefined, got: JsonValue | undefined, kind = ""): boolean {
    if (Array.isArray(want)) {
      return Array.isArray(got) && got.length === want.length && want.every((entry, i) => this.#matches(entry, got[i]));
    }
    if (typeof want === "object" && want !== null) {
      if (typeof got !== "object" || got === null || Array.isArray(got)) return false;
      if (kind === "open_stream" && want["stream"] === got["stream"])
        this.#ids.set(want["stream_id"], got["stream_id"]);
      return Object.entries(this.#withIds(want)).every(([name, value]) => this.#matches(value, got[name]));
    }
    return want === got || (got !== undefined && JSON.stringify(want) === JSON.stringify(got));
  }

  /** A message with the ids of streams where a script has labels. */
  #withIds<T extends JsonValue>(what: T): T {
    if (Array.isArray(what)) return what.map((entry) => this.#withIds(entry)) as unknown as T;
    if (typeof what !== "object" || what === null) return what;
    const named = Object.entries(what).map(([name, value]) => [
      name,
      name === "stream_id" ? (this.#ids.get(value) ?? value) : this.#withIds(value),
    ]);
    return Object.fromEntries(named) as T;
  }
}

/** The kind of a message of the connector, and its fields. */
function fieldsOf<Request extends DescMessage>(schema: Request, request: MessageShape<Request>): [string, JsonObject] {
  const { message } = request as unknown as { message: { case?: string; value?: unknown } };
  if (message.case === "frame") return ["frame", columnsOf(message.value as Frame)];
  const json = toJson(schema, request, { useProtoFieldName: true, alwaysEmitImplicit: true }) as JsonObject;
  return Object.entries(json)[0] as [string, JsonObject];
}

/** A frame of a part. */
function partFrame<Response extends DescMessage>(schema: Response, what: JsonObject): MessageShape<Response> {
  const messages = messagesOf(what["frame"] as unknown as FrameColumns);
  const value = { id: BigInt(what["id"] as string), frame: frameOf(Number(messages[0].sequence), ...messages) };
  return create(schema, { message: { case: "frame", value } } as unknown as MessageInitShape<Response>);
}

/** The details of a status with a reason. */
function details(reason: string | undefined): Buffer | undefined {
  if (reason === undefined) return undefined;
  const { cases } = readVectors<{ cases: { reason?: string; details_hex?: string }[] }>("errors");
  const found = cases.find((ending) => ending.reason === reason && ending.details_hex !== undefined);
  assert.ok(found, `errors.json has no case of ${reason}`);
  return Buffer.from(found.details_hex!, "hex");
}
