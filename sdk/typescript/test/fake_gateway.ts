import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import {
  Metadata,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServiceDefinition,
  status as Status,
} from "@grpc/grpc-js";

export const DEADLINE_MS = 20_000;

/** Rejects if something takes too long, and says what. */
export async function within<T>(what: string, promise: Promise<T>, ms = DEADLINE_MS): Promise<T> {
  const late = new AbortController();
  const timeout = sleep(ms, undefined, { signal: late.signal }).then(
    () => assert.fail(`not within ${ms} ms: ${what}`),
    () => undefined as never,
  );
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    late.abort();
  }
}

/** Waits for a condition. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (!condition()) {
    if (performance.now() > deadline) assert.fail(`not within ${DEADLINE_MS} ms: ${what}`);
    await sleep(2);
  }
}

type Message = { case: string | undefined; value?: unknown };
type CaseOf<T> = T extends { message: infer M } ? Exclude<M, { case: undefined }> : never;
type Case<T> = Extract<CaseOf<T>, { case: string }>["case"];
type ValueOf<T, C> = Extract<CaseOf<T>, { case: C }> extends { value: infer V } ? V : never;

/** One call of a connector. */
export class Session<Request extends DescMessage, Response extends DescMessage> {
  readonly received: MessageShape<Request>[] = [];
  #isOver = false;
  #taken = 0;
  #changed: (() => void)[] = [];

  constructor(
    private readonly call: ServerDuplexStream<MessageShape<Request>, Uint8Array>,
    private readonly response: Response,
    readonly metadata: Metadata,
  ) {
    call.on("error", () => {
      this.#over();
    });
    call.on("cancelled", () => {
      this.#over();
    });
  }

  /** Whether the connector has ended the call. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Notes what the connector sent. */
  note(message: MessageShape<Request>): void {
    this.received.push(message);
    this.#wake();
  }

  #over(): void {
    this.#isOver = true;
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#changed.splice(0)) wake();
  }

  /** Sends a message. */
  send(message: NonNullable<MessageInitShape<Response> extends { message?: infer M } ? M : never>): void {
    if (this.#isOver) return;
    const init = { message } as unknown as MessageInitShape<Response>;
    this.call.write(toBinary(this.response, create(this.response, init)));
  }

  /** Sends bytes as a message. */
  sendBytes(bytes: Uint8Array): void {
    if (!this.#isOver) this.call.write(bytes);
  }

  /** The next message of any kind. */
  async take(): Promise<MessageShape<Request>> {
    while (this.#taken === this.received.length) {
      if (this.#isOver) assert.fail(`the call ended; received: ${this.kinds.join(", ")}`);
      await within("a message", new Promise<void>((resolve) => this.#changed.push(resolve)));
    }
    return this.received[this.#taken++];
  }

  /** The next message of a kind; others in between are skipped, unless they are forbidden. */
  async next<C extends Case<MessageShape<Request>>>(
    kind: C,
    without: string[] = [],
  ): Promise<ValueOf<MessageShape<Request>, C>> {
    return within(
      `message ${kind}; received: ${this.kinds.join(", ")}`,
      (async () => {
        for (;;) {
          while (this.#taken < this.received.length) {
            const { message } = this.received[this.#taken++] as unknown as { message: Message };
            if (message.case === kind) return message.value as ValueOf<MessageShape<Request>, C>;
            assert.ok(!without.includes(message.case ?? ""), `unexpected ${message.case}`);
          }
          if (this.#isOver) assert.fail(`the call ended without ${kind}; received: ${this.kinds.join(", ")}`);
          await new Promise<void>((resolve) => this.#changed.push(resolve));
        }
      })(),
    );
  }

  /** The kinds of all messages that were received. */
  get kinds(): string[] {
    return this.received.map((request) => (request as unknown as { message: Message }).message.case ?? "?");
  }

  /** Ends the call. */
  end(code = Status.OK, details = "as the test says", info?: Buffer): void {
    if (code === Status.OK) {
      this.call.end();
      return;
    }
    const metadata = new Metadata();
    if (info) metadata.set("grpc-status-details-bin", info);
    this.call.emit("error", { code, details, metadata });
  }
}

/** A gRPC server with one service of one method, which a test speaks for. */
export class FakeGateway<Request extends DescMessage, Response extends DescMessage> {
  readonly sessions: Session<Request, Response>[] = [];
  readonly #waiting: ((session: Session<Request, Response>) => void)[] = [];
  readonly #unseen: Session<Request, Response>[] = [];
  #server = new Server();
  #port = 0;

  /** @param onMessage - Called for each message, after it was noted. */
  constructor(
    private readonly path: string,
    private readonly request: Request,
    private readonly response: Response,
    private readonly onMessage: (session: Session<Request, Response>, message: MessageShape<Request>) => void = () =>
      undefined,
  ) {}

  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  async start(credentials = ServerCredentials.createInsecure()): Promise<void> {
    const definition: ServiceDefinition = {
      call: {
        path: this.path,
        requestStream: true,
        responseStream: true,
        requestSerialize: () => Buffer.alloc(0),
        requestDeserialize: (bytes: Buffer) => fromBinary(this.request, bytes),
        responseSerialize: (bytes: Uint8Array) => Buffer.from(bytes),
        responseDeserialize: () => undefined,
      },
    };
    this.#server = new Server({ "grpc.max_receive_message_length": -1 });
    this.#server.addService(definition, { call: this.#serve.bind(this) });
    this.#port = await new Promise<number>((resolve, reject) => {
      this.#server.bindAsync(this.address, credentials, (error, port) => {
        if (error) reject(error);
        else resolve(port);
      });
    });
  }

  /** Breaks all connections. */
  stop(): void {
    this.#server.forceShutdown();
  }

  /** The next session that a connector opens. */
  async session(): Promise<Session<Request, Response>> {
    const known = this.#unseen.shift();
    if (known) return known;
    return within(
      "a session",
      new Promise((resolve) => {
        this.#waiting.push(resolve);
      }),
    );
  }

  #serve(call: ServerDuplexStream<MessageShape<Request>, Uint8Array>): void {
    const session = new Session(call, this.response, call.metadata);
    this.sessions.push(session);
    const waiting = this.#waiting.shift();
    if (waiting) waiting(session);
    else this.#unseen.push(session);
    call.on("data", (message: MessageShape<Request>) => {
      session.note(message);
      this.onMessage(session, message);
    });
    call.on("end", () => {
      session.end();
    });
  }
}
