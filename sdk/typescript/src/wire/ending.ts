import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { status as Status, type Metadata } from "@grpc/grpc-js";

import {
  GatewayRefusedError,
  GatewayUnavailableError,
  NotPermittedError,
  SessionTakenOverError,
  type SessionEnd,
  type SessionEndedError,
} from "../errors.js";
import { leadsHere } from "./address.js";

/** Why a session ended cleanly. */
export type Ending = "the source has ended" | "the connector stops" | "the gateway asked to reconnect";

const DOMAIN = "headrace";

/** Whether to reconnect, by the reasons that this version knows. */
const RECONNECT: Readonly<Record<string, boolean>> = {
  MALFORMED_MESSAGE: false,
  PROTOCOL_VERSION_UNSUPPORTED: false,
  MESSAGE_OUT_OF_ORDER: false,
  MESSAGE_UNKNOWN: false,
  UNKNOWN_STREAM: false,
  SEQUENCE_OUT_OF_RANGE: false,
  FRAME_TOO_LARGE: false,
  CREDIT_OVERRUN: false,
  TOO_MANY_STREAMS: false,
  TOO_MANY_SESSIONS: true,
  TOO_MANY_NAMES: false,
  LIST_TOO_LONG: false,
  HELLO_TIMEOUT: true,
  READ_TIMEOUT: true,
  UNAUTHENTICATED: false,
  TOKEN_REVOKED: false,
  NOT_PERMITTED: false,
  TAKEN_OVER: false,
  GATEWAY_STOPPING: true,
  SINK_MODE_MISMATCH: false,
};

// gRPC reports broken transports and internal failures of a gateway as INTERNAL or UNKNOWN.
const TRANSIENT = new Set<Status>([
  Status.OK,
  Status.CANCELLED,
  Status.UNKNOWN,
  Status.DEADLINE_EXCEEDED,
  Status.INTERNAL,
  Status.UNAVAILABLE,
]);

// The answer of a server, or a proxy before it, with a stricter limit of pings. The status is the one of the gateway's limits.
const PINGED_TOO_OFTEN = /too[ _]many[ _]pings|ENHANCE_YOUR_CALM/i;

/** The status with which a call ended. */
export interface CallStatus {
  readonly code: Status;
  readonly details: string;
  readonly metadata?: Metadata | undefined;
}

/** Returns the error for a call that ended; its class says whether to reconnect. */
export function sessionEnded(gateway: string, { code, details, metadata }: CallStatus): SessionEndedError {
  const status = Status[code];
  const end: SessionEnd = { status, ...errorInfo(metadata?.get("grpc-status-details-bin")[0]) };
  // Without a reason, the gateway may never have been reached.
  const proxied = end.reason === undefined ? through(gateway) : "";
  const text = `gateway ${gateway}${proxied}: ${details || "no reason given"} (${end.reason ?? status})`;
  const known = end.reason === undefined ? undefined : RECONNECT[end.reason];
  const mayReconnect =
    known ?? (TRANSIENT.has(code) || (code === Status.RESOURCE_EXHAUSTED && PINGED_TOO_OFTEN.test(details)));
  if (mayReconnect) return new GatewayUnavailableError(text, end);
  if (end.reason === "TAKEN_OVER" || (known === undefined && code === Status.ABORTED)) {
    return new SessionTakenOverError(`${text}; give each running copy of a connector an instance of its own`, end);
  }
  if (end.reason === "NOT_PERMITTED" || (known === undefined && code === Status.PERMISSION_DENIED)) {
    return new NotPermittedError(text, end);
  }
  return new GatewayRefusedError(text, end);
}

/** Names the proxy through which gRPC reaches a gateway, without user and password; empty for none. */
export function through(gateway: string, environ: Readonly<Record<string, string | undefined>> = process.env): string {
  const variable = ["grpc_proxy", "https_proxy", "http_proxy"].find((name) => environ[name]);
  if (variable === undefined || leadsHere(gateway)) return "";
  const excepted = (environ["no_grpc_proxy"] ?? environ["no_proxy"] ?? "").split(",").map((name) => name.trim());
  const host = gateway.slice(0, gateway.lastIndexOf(":"));
  if (excepted.some((name) => name !== "" && host.endsWith(name))) return "";
  const proxy = (environ[variable] ?? "").replace(/^([a-z]+:\/\/)?.*@/, "$1");
  return ` through the proxy ${proxy} (${variable})`;
}

/** Reads the `google.rpc.ErrorInfo` of a `google.rpc.Status`; empty if there is none of Headrace, or it is malformed. */
export function errorInfo(details: string | Buffer | undefined): {
  reason?: string;
  metadata?: Record<string, string>;
} {
  if (!Buffer.isBuffer(details)) return {};
  try {
    for (const detail of fieldsOf(details).get(3) ?? []) {
      const any = fieldsOf(detail);
      if (!text(any.get(1)?.[0]).endsWith("/google.rpc.ErrorInfo")) continue;
      const info = fieldsOf(any.get(2)?.[0] ?? new Uint8Array());
      if (text(info.get(2)?.[0]) !== DOMAIN) continue;
      const pairs = (info.get(3) ?? []).map((entry) => {
        const pair = fieldsOf(entry);
        return [text(pair.get(1)?.[0]), text(pair.get(2)?.[0])] as const;
      });
      return { reason: text(info.get(1)?.[0]), metadata: Object.fromEntries(pairs) };
    }
  } catch {
    // Malformed: the status decides.
  }
  return {};
}

/** The fields of a message that have a length, by number. */
function fieldsOf(message: Uint8Array): Map<number, Uint8Array[]> {
  const reader = new BinaryReader(message);
  const found = new Map<number, Uint8Array[]>();
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag();
    if (type !== WireType.LengthDelimited) {
      reader.skip(type);
      continue;
    }
    const values = found.get(number) ?? [];
    values.push(reader.bytes());
    found.set(number, values);
  }
  return found;
}

function text(bytes: Uint8Array | undefined): string {
  return Buffer.from(bytes ?? []).toString();
}
