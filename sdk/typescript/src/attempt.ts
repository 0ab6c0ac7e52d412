import type { MessageInitShape, MessageShape } from "@bufbuild/protobuf";

import { GatewayRefusedError } from "./errors.js";
import { SinkServiceAttachRequestSchema, SinkServiceAttachResponseSchema } from "./gen/headrace/protocol/v1/sink_pb.js";
import { Capability, IngestRequestSchema, IngestResponseSchema } from "./gen/headrace/protocol/v1/source_pb.js";
import type { Health } from "./health.js";
import { ofSession, type Settings } from "./options.js";
import type { SinkDriver } from "./sinks/driver.js";
import { SinkSession } from "./sinks/session.js";
import type { Driver } from "./sources/driver.js";
import { SourceSession } from "./sources/session.js";
import { PROTOCOL_VERSION, SDK } from "./version.js";
import { answerWithin, Call } from "./wire/call.js";
import { openChannel } from "./wire/channel.js";
import type { Ending } from "./wire/ending.js";

/** What sources and sinks send and receive. */
type Requests = typeof IngestRequestSchema | typeof SinkServiceAttachRequestSchema;
type Responses = typeof IngestResponseSchema | typeof SinkServiceAttachResponseSchema;

/** Connects a source and serves one session; throws what ends it. */
export async function ingest(driver: Driver, settings: Settings, health: Health, stop: AbortSignal): Promise<Ending> {
  const hello = {
    protocolVersion: PROTOCOL_VERSION,
    connector: driver.connector,
    connectorVersion: driver.version,
    instance: settings.instance,
    capabilities: [Capability.PACE, Capability.HEARTBEAT, Capability.FRAMES, Capability.CURSORS],
    sdk: SDK,
  };
  const call = { path: "/headrace.protocol.v1.SourceService/Ingest", labels: { source: driver.name } };
  const request = { message: { case: "hello" as const, value: hello } };
  return attempt(
    call,
    IngestRequestSchema,
    IngestResponseSchema,
    request,
    settings,
    stop,
    (own, welcome, write, responses) => new SourceSession(driver, own, welcome, health, write, stop).run(responses),
  );
}

/** Connects a sink and serves one session; throws what ends it. */
export async function attach(
  driver: SinkDriver,
  settings: Settings,
  health: Health,
  stop: AbortSignal,
): Promise<Ending> {
  const hello = await driver.hello(settings.instance);
  if (stop.aborted) return "the connector stops";
  const call = { path: "/headrace.protocol.v1.SinkService/Attach", labels: { sink: driver.name } };
  const request = { message: { case: "hello" as const, value: hello } };
  const schemas = [SinkServiceAttachRequestSchema, SinkServiceAttachResponseSchema] as const;
  return attempt(call, ...schemas, request, settings, stop, (own, welcome, write, responses) =>
    new SinkSession(driver, own, welcome, health, write, stop).run(responses),
  );
}

/** Opens a call, says hello, and serves the session once the gateway has answered with Welcome. */
async function attempt<Request extends Requests, Response extends Responses>(
  { path, labels }: { path: string; labels: Record<string, string> },
  request: Request,
  response: Response,
  hello: MessageInitShape<Request>,
  settings: Settings,
  stop: AbortSignal,
  serve: (
    settings: Settings,
    welcome: Extract<MessageShape<Response>["message"], { case: "welcome" }>["value"],
    write: Call<Request, Response>["write"],
    responses: AsyncIterable<MessageShape<Response>>,
  ) => Promise<Ending>,
): Promise<Ending> {
  const client = openChannel(settings);
  const call = new Call(client, path, request, response, settings);
  const responses = call.messages();
  try {
    await call.write(hello);
    const first = await answerWithin(responses.next(), settings, stop);
    if (first === undefined) return "the connector stops";
    const { message }: MessageShape<Responses> = first.value;
    if (message.case !== "welcome") {
      const text = `the gateway answered Hello with ${message.case ?? "a message that this version does not know"}`;
      throw new GatewayRefusedError(text, { status: "FAILED_PRECONDITION" });
    }
    const { gatewayVersion, session } = message.value;
    settings.logger.info("connected", { gateway: settings.gateway, gateway_version: gatewayVersion, session });
    settings.metrics.add("headrace.sessions", 1, labels);
    return await serve(ofSession(settings, session), message.value, call.write.bind(call), responses);
  } finally {
    call.cancel();
    client.close();
  }
}
