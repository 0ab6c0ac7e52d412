import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";
import { status as Status, type Client, type ClientDuplexStream, type StatusObject } from "@grpc/grpc-js";

import { GatewayUnavailableError } from "../errors.js";
import type { Settings } from "../options.js";
import { metadata } from "./channel.js";
import { sessionEnded, through } from "./ending.js";

/** A call of the gateway, and its messages in both directions. */
export class Call<Request extends DescMessage, Response extends DescMessage> {
  readonly #stream: ClientDuplexStream<Uint8Array, MessageShape<Response>>;
  readonly #request: Request;
  readonly #gateway: string;
  #status: StatusObject | undefined;
  #written: (() => void) | undefined;

  constructor(client: Client, path: string, request: Request, response: Response, settings: Settings) {
    this.#request = request;
    this.#gateway = settings.gateway;
    this.#stream = client.makeBidiStreamRequest(
      path,
      (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength),
      (bytes: Buffer) => fromBinary(response, bytes),
      metadata(settings),
    );
    this.#stream.on("status", (status) => {
      this.#status = status;
      this.#written?.();
    });
    // Errors are thrown by the iterator of messages; without a listener they would end the process.
    this.#stream.on("error", () => undefined);
  }

  /** Whether the call has ended. */
  get ended(): boolean {
    return this.#status !== undefined;
  }

  /**
   * Sends a message, or one that is already serialized. Resolves when the transport has taken it, or the call has ended.
   * Only one may be under way.
   */
  async write(message: MessageInitShape<Request> | Uint8Array): Promise<void> {
    if (this.ended) return;
    const bytes = message instanceof Uint8Array ? message : toBinary(this.#request, create(this.#request, message));
    await new Promise<void>((resolve) => {
      this.#written = resolve;
      this.#stream.write(bytes, () => {
        resolve();
      });
    });
    this.#written = undefined;
  }

  /**
   * The gateway's messages. Not asking for the next one applies back pressure.
   *
   * @throws {@link SessionEndedError} when the call ends.
   */
  async *messages(): AsyncGenerator<MessageShape<Response>, never> {
    try {
      // The iterator must not destroy the stream when it is left: the call may still have to be written to.
      yield* this.#stream.iterator({ destroyOnReturn: false }) as AsyncIterable<MessageShape<Response>>;
    } catch (error) {
      if (!isStatus(error)) throw error;
      throw sessionEnded(this.#gateway, error);
    }
    throw sessionEnded(this.#gateway, this.#status ?? { code: Status.OK, details: "the gateway ended the session" });
  }

  /** Says that no more messages follow. */
  end(): void {
    if (!this.ended) this.#stream.end();
  }

  /** Ends the call at once. */
  cancel(): void {
    this.#stream.cancel();
  }
}

/**
 * Waits for a promise, but not for longer than a gateway may take to answer, nor after `signal` is aborted.
 *
 * @returns Its result, or undefined if the signal was first.
 * @throws {@link GatewayUnavailableError} if the time has passed.
 */
export async function answerWithin<T>(
  answer: Promise<T>,
  { gateway, welcomeMs }: Pick<Settings, "gateway" | "welcomeMs">,
  signal: AbortSignal,
): Promise<T | undefined> {
  let stop: (() => void) | undefined;
  let timer: NodeJS.Timeout | undefined;
  try {
    return await new Promise<T | undefined>((resolve, reject) => {
      answer.then(resolve, reject);
      stop = () => {
        resolve(undefined);
      };
      if (signal.aborted) stop();
      signal.addEventListener("abort", stop);
      timer = setTimeout(() => {
        const text = `gateway ${gateway}${through(gateway)}: it has not answered within ${welcomeMs} ms`;
        reject(new GatewayUnavailableError(text, { status: "DEADLINE_EXCEEDED" }));
      }, welcomeMs);
    });
  } finally {
    clearTimeout(timer);
    if (stop) signal.removeEventListener("abort", stop);
  }
}

function isStatus(error: unknown): error is StatusObject {
  return error instanceof Error && "code" in error && "details" in error;
}
