package io.headrace.sdk;

/** The call to the gateway ended. */
public abstract sealed class SessionEndedException extends HeadraceException
    permits GatewayUnavailableException, GatewayRefusedException {
  private static final long serialVersionUID = 1;

  /** The status. */
  private final String status;

  /** The reason. */
  private final String reason;

  SessionEndedException(String message, String status, String reason) {
    super(message, null);
    this.status = status;
    this.reason = reason;
  }

  /**
   * The status of the call.
   *
   * @return the name of a gRPC status, such as {@code UNAVAILABLE}
   */
  public String status() {
    return status;
  }

  /**
   * Why the gateway ended the session.
   *
   * @return the name of an {@code ErrorReason} of the protocol without its prefix, such as {@code
   *     TAKEN_OVER}; empty if gRPC ended the call, or the gateway is older
   */
  public String reason() {
    return reason;
  }
}
