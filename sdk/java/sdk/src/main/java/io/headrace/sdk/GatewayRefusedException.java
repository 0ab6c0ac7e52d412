package io.headrace.sdk;

/**
 * The gateway refused the session or a stream, and would refuse it again. The {@link #status()} is
 * {@code ABORTED} if a newer session of the same instance took over: give each running copy of a
 * connector an instance of its own.
 */
public final class GatewayRefusedException extends SessionEndedException {
  private static final long serialVersionUID = 1;

  /**
   * Names what was refused.
   *
   * @param message what was refused, and why
   * @param status the name of the gRPC status
   * @param reason the reason that the gateway gave, or an empty text
   */
  public GatewayRefusedException(String message, String status, String reason) {
    super(message, status, reason);
  }
}
