import { parseArgs } from "node:util";

import { run } from "@headrace/sdk";

import { Ring } from "./ring.js";
import { EventServer } from "./server.js";
import { BrowserSink } from "./sink.js";

const USAGE = `Pushes the rows of Spark queries to browsers.

  node dist/src/main.js [options]

  --sink NAME             name of the sink. Default: browsers
  --host ADDRESS          where to listen. Default: 127.0.0.1
  --port N                where to listen; 0 for any free port. Default: 8000
  --folder FOLDER         where the last events are kept. Default: browser-sink
  --ring-events N         how many events are kept. Default: 10000
  --ring-bytes N          how many bytes of events are kept. Default: 67108864
  --browsers N            how many browsers may be connected. Default: 1000
  --stall-seconds N       after how long a browser that reads nothing is disconnected. Default: 10

The address of the page is printed. HEADRACE_GATEWAY, HEADRACE_TOKEN, HEADRACE_TOKEN_FILE, HEADRACE_INSTANCE and HEADRACE_TLS
say how to reach the gateway.
`;

async function main(): Promise<number> {
  let ring: Ring;
  let server: EventServer;
  let name: string;
  try {
    const { values } = parseArgs({
      options: {
        sink: { type: "string", default: "browsers" },
        host: { type: "string", default: "127.0.0.1" },
        port: { type: "string", default: "8000" },
        folder: { type: "string", default: "browser-sink" },
        "ring-events": { type: "string", default: "10000" },
        "ring-bytes": { type: "string", default: String(64 << 20) },
        browsers: { type: "string", default: "1000" },
        "stall-seconds": { type: "string", default: "10" },
        help: { type: "boolean", default: false },
      },
    });
    if (values.help) {
      process.stdout.write(USAGE);
      return 0;
    }
    name = values.sink;
    ring = await Ring.open(values.folder, {
      events: atLeast(1, "--ring-events", values["ring-events"]),
      bytes: atLeast(1, "--ring-bytes", values["ring-bytes"]),
    });
    server = await EventServer.start(ring, {
      host: values.host,
      port: atLeast(0, "--port", values.port),
      maxBrowsers: atLeast(1, "--browsers", values.browsers),
      stallMs: atLeast(1, "--stall-seconds", values["stall-seconds"]) * 1000,
      heartbeatMs: 15_000,
    });
  } catch (error) {
    process.stderr.write(`Error: ${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  process.stdout.write(`${server.url}\n`);
  try {
    return await run(new BrowserSink(name, ring));
  } finally {
    await server[Symbol.asyncDispose]();
    await ring.close();
  }
}

function atLeast(least: number, option: string, text: string): number {
  const value = Number(text);
  if (text === "" || !Number.isSafeInteger(value) || value < least) {
    throw new Error(`${option} ${text}: a whole number from ${least} is needed`);
  }
  return value;
}

process.exitCode = await main();
