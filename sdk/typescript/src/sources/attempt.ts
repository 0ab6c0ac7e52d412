import { create } from "@bufbuild/protobuf";

import { GatewayRefusedError } from "../errors.js";
import {
  Capability,
  IngestRequestSchema,
  IngestResponseSchema,
  type IngestResponse,
  type Welcome,
} from "../gen/headrace/protocol/v1/source_pb.js";
import type { Health } from "../health.js";
import type { Settings } from "../options.js";
import { PROTOCOL_VERSION, SDK } from "../version.js";
import { answerWithin, Call } from "../wire/call.js";
import { openChannel } from "../wire/channel.js";
import type { Ending } from "../wire/ending.js";
import type { Driver } from "./driver.js";
import { SourceSession } from "./session.js";

const PATH = "/headrace.protocol.v1.SourceService/Ingest";

/** Connects a source and serves one session; throws what ends it. */
export async function ingest(driver: Driver, settings: Settings, health: Health, stop: AbortSignal): Promise<Ending> {
  const client = openChannel(settings);
  const call = new Call(client, PATH, IngestRequestSchema, IngestResponseSchema, settings);
  const responses = call.messages();
  try {
    await call.write({
      message: {
        case: "hello",
        value: {
          protocolVersion: PROTOCOL_VERSION,
          connector: driver.connector,
          connectorVersion: driver.version,
          instance: settings.instance,
          capabilities: [Capability.PACE, Capability.REPORT, Capability.HEARTBEAT, Capability.FRAMES],
          sdk: SDK,
        },
      },
    });
    const first = await answerWithin(responses.next(), settings, stop);
    if (first === undefined) return "the connector stops";
    const welcome = welcomeOf(first.value);
    const { gatewayVersion, session } = welcome;
    settings.logger.info("connected", { gateway: settings.gateway, gatewayVersion, session });
    settings.metrics.add("headrace.sessions", 1, { source: driver.name });
    const write = call.write.bind(call);
    return await new SourceSession(driver, settings, welcome, health, write, stop).run(responses);
  } finally {
    call.cancel();
    client.close();
  }
}

function welcomeOf({ message }: IngestResponse = create(IngestResponseSchema)): Welcome {
  if (message.case === "welcome") return message.value;
  const text = `the gateway answered Hello with ${message.case ?? "a message that this version does not know"}`;
  throw new GatewayRefusedError(text, { status: "FAILED_PRECONDITION" });
}
