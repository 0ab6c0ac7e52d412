import { Client, credentials, Metadata, type ChannelCredentials, type ClientOptions } from "@grpc/grpc-js";

import { describe, InvalidOptionsError } from "../errors.js";
import type { Settings } from "../options.js";
import type { Tls } from "../tls.js";
import { leadsHere } from "./address.js";

const OPTIONS: ClientOptions = {
  // Frames are limited by the gateway's Welcome, not here.
  "grpc.max_send_message_length": -1,
  "grpc.max_receive_message_length": -1,
  // Detects within 15 s that the gateway has disappeared without closing the connection.
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 5_000,
  "grpc.keepalive_permit_without_calls": 1,
  // Every attempt uses a new connection; the caller handles backoff.
  "grpc.use_local_subchannel_pool": 1,
  // Retries inside gRPC would keep copies of sent messages.
  "grpc.enable_retries": 0,
  // The default of 64 KiB would need a round trip for every few rows of a sink.
  "grpc-node.flow_control_window": 4 << 20,
};

/** Creates a client for one session, which connects on the first call. */
export function openChannel(settings: Settings): Client {
  const options: ClientOptions = { ...OPTIONS };
  if (leadsHere(settings.gateway)) options["grpc.enable_http_proxy"] = 0;
  const tls = settings.tls;
  if (tls?.serverName !== undefined) options["grpc.ssl_target_name_override"] = tls.serverName;
  return new Client(settings.gateway, channelCredentials(tls), options);
}

/** The metadata of every call. */
export function metadata(settings: Settings): Metadata {
  const found = new Metadata();
  if (settings.token !== undefined) found.set("authorization", `Bearer ${settings.token}`);
  return found;
}

function channelCredentials(tls: Tls | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  try {
    return credentials.createSsl(pem(tls.ca), pem(tls.key), pem(tls.cert));
  } catch (error) {
    throw new InvalidOptionsError(`a certificate or key in option tls is invalid: ${describe(error)}`, {
      cause: error,
    });
  }
}

function pem(content: string | Buffer | undefined): Buffer | null {
  return content === undefined ? null : Buffer.from(content);
}
