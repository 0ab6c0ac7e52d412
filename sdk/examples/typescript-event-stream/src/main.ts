import { parseArgs } from "node:util";

import { Health, stderrLogger, run } from "@headrace/sdk";

import { EventStream } from "./event_stream.js";
import { appendTo } from "./oversized.js";

const USAGE = `Streams server-sent events into Headrace.

  node dist/src/main.js --url URL [options]

  --url URL               where the events are
  --source NAME           name of the source; the stream is NAME/0. Default: events
  --oversized FILE        append events that are too large to this file. Default: the first one ends the connector
  --max-event-bytes N     the largest event to read. Default: 1048576
  --idle-seconds N        reconnect after this long without a byte. Default: 300

The variable EVENT_STREAM_AUTHORIZATION is sent to the server as Authorization. HEADRACE_GATEWAY, HEADRACE_TOKEN,
HEADRACE_TOKEN_FILE, HEADRACE_INSTANCE and HEADRACE_TLS say how to reach the gateway.
`;

async function main(): Promise<number> {
  let stream: EventStream;
  const health = new Health();
  try {
    const { values } = parseArgs({
      options: {
        url: { type: "string" },
        source: { type: "string", default: "events" },
        oversized: { type: "string" },
        "max-event-bytes": { type: "string", default: String(1 << 20) },
        "idle-seconds": { type: "string", default: "300" },
        help: { type: "boolean", default: false },
      },
    });
    if (values.help) {
      process.stdout.write(USAGE);
      return 0;
    }
    if (values.url === undefined) throw new Error("--url is missing");
    const url = new URL(values.url);
    if (!/^https?:$/.test(url.protocol)) throw new Error(`--url ${values.url}: http or https is needed`);
    stream = new EventStream({
      name: values.source,
      url,
      authorization: process.env["EVENT_STREAM_AUTHORIZATION"] || undefined,
      maxEventBytes: positive("--max-event-bytes", values["max-event-bytes"]),
      idleMs: positive("--idle-seconds", values["idle-seconds"]) * 1000,
      ...(values.oversized !== undefined && { keepOversized: appendTo(values.oversized) }),
      health,
      logger: stderrLogger,
    });
  } catch (error) {
    process.stderr.write(`Error: ${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  return run(stream, { health });
}

function positive(option: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`${option} ${text}: a whole number from 1 is needed`);
  return value;
}

process.exitCode = await main();
