/**
 * Every error of the SDK.
 *
 *     HeadraceError
 *     ├── InvalidOptionsError        an option is invalid
 *     ├── InvalidSourceError         the source is invalid
 *     ├── InvalidSinkError           the sink is invalid
 *     ├── InvalidMessageError        the source yielded something that cannot be sent
 *     │   └── MessageTooLargeError   a single message is above the gateway's limit
 *     ├── SourceFailedError          a method of the source threw
 *     ├── SinkFailedError            a method of the sink threw before a session could begin
 *     ├── InvalidOutcomesError       the sink did not return exactly one outcome for each message
 *     ├── PositionLostError          thrown *by* a source that no longer has the position
 *     └── SessionEndedError          the call to the gateway ended
 *         ├── GatewayUnavailableError   temporary; the SDK reconnects
 *         └── GatewayRefusedError       permanent; the SDK does not reconnect
 *             ├── SessionTakenOverError   a newer session of the same instance took over
 *             └── NotPermittedError       the token does not permit a stream, or a sink
 */

/** The root of all errors that the SDK throws. */
export class HeadraceError extends Error {
  /** The exit code with which {@link run} ends the process. */
  readonly exitCode: number = 1;

  /**
   * @param message - What was wrong, where, and what to do.
   * @param options - The cause, if there is one.
   */
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An option is invalid: for instance a certificate that cannot be read. */
export class InvalidOptionsError extends HeadraceError {
  override readonly exitCode: number = 2;
}

/** The source is invalid: for instance a name that is not allowed, or a partition that is listed twice. */
export class InvalidSourceError extends HeadraceError {
  override readonly exitCode: number = 2;
}

/** The sink is invalid: for instance a name that is not allowed. */
export class InvalidSinkError extends HeadraceError {
  override readonly exitCode: number = 2;
}

/** The source yielded what cannot be sent: for instance a sequence that does not increase. */
export class InvalidMessageError extends HeadraceError {}

/** A single message exceeds the gateway's limit. The text names its sequence and size, and the limit. */
export class MessageTooLargeError extends InvalidMessageError {}

/** A method of the source threw. The error is the `cause`. */
export class SourceFailedError extends HeadraceError {}

/** A method of the sink threw before a session could begin. The error is the `cause`. The SDK tries again. */
export class SinkFailedError extends HeadraceError {}

/** The sink did not return exactly one outcome for each message. Nothing of the part counts as written. */
export class InvalidOutcomesError extends HeadraceError {}

/** Throw it from {@link SourceBase.read} if the source no longer has the messages after the position. */
export class PositionLostError extends HeadraceError {
  /** The first sequence that the source still has; undefined if it is unknown. */
  readonly earliest: bigint | undefined;

  /**
   * @param message - What happened.
   * @param options - The first sequence that the source still has, if it is known.
   */
  constructor(
    message = "the source no longer has this position",
    options: ErrorOptions & { earliest?: bigint | number } = {},
  ) {
    super(message, options);
    this.earliest = options.earliest === undefined ? undefined : BigInt(options.earliest);
  }
}

/** How the gateway ended a session. */
export interface SessionEnd {
  /** The name of the gRPC status, such as `UNAVAILABLE`. */
  readonly status: string;
  /** The reason for programs, such as `CREDIT_OVERRUN`; undefined if the gateway gave none. */
  readonly reason?: string | undefined;
  /** The objects of the reason, such as the stream and the limit. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** The call to the gateway ended. */
export class SessionEndedError extends HeadraceError implements SessionEnd {
  readonly status: string;
  readonly reason: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;

  /**
   * @param message - What happened, and where.
   * @param end - How the gateway ended the session.
   */
  constructor(message: string, end: SessionEnd) {
    super(message);
    this.status = end.status;
    this.reason = end.reason;
    this.metadata = end.metadata ?? {};
  }
}

/** The gateway is away or stops, or the connection broke. The SDK reconnects. */
export class GatewayUnavailableError extends SessionEndedError {}

/** The gateway refused the session, and would refuse it again. */
export class GatewayRefusedError extends SessionEndedError {}

/** A newer session of the same instance took over. Give every running copy of a connector a different instance. */
export class SessionTakenOverError extends GatewayRefusedError {}

/** The connector's token does not permit a stream, or a sink. */
export class NotPermittedError extends GatewayRefusedError {}

/** The text of anything that was thrown. */
export function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message === "" ? error.name : `${error.name}: ${error.message}`;
}
