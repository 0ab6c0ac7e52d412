import { create } from "@bufbuild/protobuf";

import { describe } from "./errors.js";
import { ConnectorState, ReportSchema, type Report } from "./gen/headrace/protocol/v1/connector_pb.js";

const MAX_ERRORS = 100;
const MAX_TEXT_BYTES = 4096;
const MAX_STREAM_BYTES = 255;

interface SurvivedError {
  readonly message: string;
  readonly at: number;
  readonly stream: string;
}

/**
 * How a connector is, for operators: `headrace status` shows it, if the gateway accepts reports.
 *
 * The SDK reports by itself that the connector runs, and errors that it survives. Make a `Health`, and pass it in the
 * options, if the connector has more to say: that its system is away, or that it works worse than it should. It may be used
 * before, during and after sessions, as often as you like: the SDK sends at most one report a second, with the last state.
 * It changes nothing else.
 *
 * A reason is a text, or what was thrown. At most 4,096 bytes of it are sent.
 */
export class Health {
  /** Whether the connector has said how it is; else the SDK says it. */
  #isSaid = false;
  #state = ConnectorState.CONNECTING;
  #reason = "";
  #since = performance.now();
  #errors: SurvivedError[] = [];
  #isNews = false;
  #changed: (() => void) | undefined;

  /** The connector starts: it connects to its system. */
  connecting(reason: unknown = ""): void {
    this.#say(ConnectorState.CONNECTING, reason);
  }

  /** The connector works. Call it when an earlier trouble is over. */
  running(): void {
    this.#say(ConnectorState.RUNNING, "");
  }

  /** The connector works, but not as it should. */
  degraded(reason: unknown): void {
    this.#say(ConnectorState.DEGRADED, reason);
  }

  /** The connector can do nothing until its system is back. */
  waiting(reason: unknown): void {
    this.#say(ConnectorState.WAITING, reason);
  }

  /**
   * Records an error that the connector survived. The last hundred are kept until they are reported.
   *
   * @param error - What was thrown, or a text.
   * @param stream - The stream that it concerns, if it concerns a single one.
   */
  survived(error: unknown, stream = ""): void {
    this.#errors.push({ message: describe(error), at: performance.now(), stream });
    if (this.#errors.length > MAX_ERRORS) this.#errors.shift();
    this.#isNews = true;
    this.#changed?.();
  }

  /**
   * Calls a function after each change, instead of the one that was set before.
   *
   * @internal
   */
  onChange(changed: (() => void) | undefined): void {
    this.#changed = changed;
  }

  /**
   * The first state of a session: running, unless the connector said otherwise.
   *
   * @internal
   */
  sessionBegan(): void {
    this.#isNews = true;
    if (!this.#isSaid) this.#become(ConnectorState.RUNNING, "");
  }

  /**
   * The changes since the last report, or undefined without any.
   *
   * @internal
   */
  takeReport(isHeartbeat = false): Report | undefined {
    if (!this.#isNews && !isHeartbeat) return undefined;
    this.#isNews = false;
    const now = performance.now();
    const errors = this.#errors.map(({ message, at, stream }) => ({
      message: shortened(message, MAX_TEXT_BYTES),
      ageMs: BigInt(Math.round(now - at)),
      stream: shortened(stream, MAX_STREAM_BYTES),
    }));
    this.#errors = [];
    return create(ReportSchema, {
      state: this.#state,
      stateAgeMs: BigInt(Math.round(now - this.#since)),
      reason: shortened(this.#reason, MAX_TEXT_BYTES),
      errors,
    });
  }

  #say(state: ConnectorState, reason: unknown): void {
    this.#isSaid = true;
    this.#become(state, describe(reason));
  }

  #become(state: ConnectorState, reason: string): void {
    if (state === this.#state && reason === this.#reason) return;
    if (state !== this.#state) this.#since = performance.now();
    this.#state = state;
    this.#reason = reason;
    this.#isNews = true;
    this.#changed?.();
  }
}

/** A text, cut to a number of bytes of UTF-8. */
function shortened(text: string, bytes: number): string {
  const encoded = Buffer.from(text);
  if (encoded.length <= bytes) return text;
  // A character that is cut in two becomes a replacement character of three bytes.
  return encoded
    .subarray(0, bytes - 3)
    .toString()
    .replace(/\uFFFD$/, "");
}
