import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const DEADLINE_MS = 20_000;

/** Waits for a condition. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (!condition()) {
    if (performance.now() > deadline) assert.fail(`not within ${DEADLINE_MS} ms: ${what}`);
    await sleep(2);
  }
}

/** A browser's connection, whose reading a test controls. */
export class Client {
  /** The lines that have arrived, also of HTTP; without the data of events. */
  text = "";
  /** The data of the events. */
  readonly data: string[] = [];
  /** The id of the last event. */
  lastId = "";
  isClosed = false;
  readonly #socket: Socket;

  constructor(url: string, path: string, headers = "") {
    const { hostname, port } = new URL(url);
    this.#socket = connect(Number(port), hostname);
    this.#socket.setEncoding("utf8");
    let rest = "";
    this.#socket.on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#take(line);
    });
    this.#socket.on("error", () => undefined);
    this.#socket.on("close", () => {
      this.isClosed = true;
    });
    this.#socket.write(`GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\n${headers}\r\n`);
  }

  /** Reads no more. */
  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  close(): void {
    this.#socket.destroy();
  }

  async caughtUp(): Promise<void> {
    await until("caught up", () => this.text.includes("event: caught-up"));
  }

  #take(line: string): void {
    if (line.startsWith("data: ")) {
      this.data.push(line.slice(6));
    } else {
      if (line.startsWith("id: ")) this.lastId = line.slice(4);
      this.text += `${line}\n`;
    }
  }
}
