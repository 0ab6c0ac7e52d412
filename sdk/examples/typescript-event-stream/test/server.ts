import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** Answers one connection; `lastId` is its Last-Event-ID. */
export type Answer = (response: ServerResponse, lastId: string | undefined, request: IncomingMessage) => void;

/** A server of events that a test speaks for. */
export class EventServer implements AsyncDisposable {
  /** The Last-Event-ID of each connection. */
  readonly lastIds: (string | undefined)[] = [];
  readonly #server = createServer();
  readonly #answers: Answer[];

  /** @param answers - What each connection is answered; the last one also answers all further ones. */
  private constructor(answers: Answer[]) {
    this.#answers = answers;
    this.#server.on("request", (request: IncomingMessage, response: ServerResponse) => {
      const raw = request.headers["last-event-id"] as string | undefined;
      const lastId = raw === undefined ? undefined : Buffer.from(raw, "latin1").toString();
      const answer = this.#answers[Math.min(this.lastIds.length, this.#answers.length - 1)];
      this.lastIds.push(lastId);
      answer(response, lastId, request);
    });
  }

  static async start(...answers: Answer[]): Promise<EventServer> {
    const found = new EventServer(answers);
    await new Promise<void>((resolve) => found.#server.listen(0, "127.0.0.1", resolve));
    return found;
  }

  get url(): URL {
    return new URL(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/events`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Sends events; then ends the connection, or keeps it open. */
export const events =
  (text: string, then: "ends" | "stays" = "ends"): Answer =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
    response.write(text);
    if (then === "ends") response.end();
  };

/** Answers with a status alone. */
export const status =
  (code: number): Answer =>
  (response) => {
    response.writeHead(code).end();
  };

/** Serves the same events after each id. */
export const log =
  (all: readonly { id: string | undefined; data: string }[]): Answer =>
  (response, lastId, request) => {
    const after = all.findLastIndex(({ id }) => lastId !== undefined && id === lastId) + 1;
    const blocks = all.slice(after).map(({ id, data }) => `${id === undefined ? "" : `id: ${id}\n`}data: ${data}\n\n`);
    if (blocks.length === 0) status(204)(response, lastId, request);
    else events(`retry: 1\n\n${blocks.join("")}`)(response, lastId, request);
  };
