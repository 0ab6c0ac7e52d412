import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

// A server for trying the source: it serves the lines of a file as events, and follows the file. The id of an event is the
// offset of the byte after its line, so that Last-Event-ID says where to continue.
//
//   node dist/demo/feed.js FILE [PORT]

const [path = "events.txt", port = "8080"] = process.argv.slice(2);
const FOLLOW_MS = 20;
const RETRY_MS = 200;

async function serve(response: ServerResponse, after: number): Promise<void> {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  response.write(`retry: ${RETRY_MS}\n\n`);
  let offset = after;
  while (!response.closed) {
    const { size } = await stat(path);
    if (size > offset) offset = await sendLines(response, offset, size);
    await sleep(FOLLOW_MS);
  }
}

/** Sends the whole lines of a range; returns where the last one ends. */
async function sendLines(response: ServerResponse, begin: number, end: number): Promise<number> {
  const input = createReadStream(path, { start: begin, end: end - 1 });
  let offset = begin;
  for await (const line of createInterface({ input, crlfDelay: Infinity })) {
    const after = offset + Buffer.byteLength(line) + 1;
    if (after > end) break; // A line without an end may still be growing.
    offset = after;
    if (!response.write(`id: ${offset}\ndata: ${line}\n\n`) && !response.closed) await drained(response);
    if (response.closed) break;
  }
  input.destroy();
  return offset;
}

/** Waits until there is room again, or nobody is left. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off("drain", done).off("close", done);
      resolve();
    };
    response.on("drain", done).on("close", done);
  });
}

const server = createServer((request, response) => {
  const after = Number(request.headers["last-event-id"] ?? 0);
  serve(response, Number.isSafeInteger(after) ? after : 0).catch((error: unknown) => {
    process.stderr.write(`${String(error)}\n`);
    response.destroy();
  });
});
server.listen(Number(port), "127.0.0.1", () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}/\n`);
});
