import { create } from "@bufbuild/protobuf";

import { GatewayRefusedError } from "../errors.js";
import {
  SinkServiceAttachRequestSchema,
  SinkServiceAttachResponseSchema,
  type SinkServiceAttachResponse,
  type SinkWelcome,
} from "../gen/headrace/protocol/v1/sink_pb.js";
import type { Health } from "../health.js";
import type { Settings } from "../options.js";
import { answerWithin, Call } from "../wire/call.js";
import { openChannel } from "../wire/channel.js";
import type { Ending } from "../wire/ending.js";
import type { SinkDriver } from "./driver.js";
import { SinkSession } from "./session.js";

const PATH = "/headrace.protocol.v1.SinkService/Attach";

/** Connects a sink and serves one session; throws what ends it. */
export async function attach(
  driver: SinkDriver,
  settings: Settings,
  health: Health,
  stop: AbortSignal,
): Promise<Ending> {
  const hello = await driver.hello(settings.instance);
  if (stop.aborted) return "the connector stops";
  const client = openChannel(settings);
  const call = new Call(client, PATH, SinkServiceAttachRequestSchema, SinkServiceAttachResponseSchema, settings);
  const responses = call.messages();
  try {
    await call.write({ message: { case: "hello", value: hello } });
    const first = await answerWithin(responses.next(), settings, stop);
    if (first === undefined) return "the connector stops";
    const welcome = welcomeOf(first.value);
    const { gatewayVersion, session } = welcome;
    settings.logger.info("connected", { gateway: settings.gateway, gatewayVersion, session });
    settings.metrics.add("headrace.sessions", 1, { sink: driver.name });
    const write = call.write.bind(call);
    return await new SinkSession(driver, settings, welcome, health, write, stop).run(responses);
  } finally {
    call.cancel();
    client.close();
  }
}

function welcomeOf({ message }: SinkServiceAttachResponse = create(SinkServiceAttachResponseSchema)): SinkWelcome {
  if (message.case === "welcome") return message.value;
  const text = `the gateway answered SinkHello with ${message.case ?? "a message that this version does not know"}`;
  throw new GatewayRefusedError(text, { status: "FAILED_PRECONDITION" });
}
