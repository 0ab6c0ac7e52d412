package io.headrace.sdk;

/** The gateway cannot be reached or is stopping, or the connection broke. The SDK reconnects. */
public final class GatewayUnavailableException extends SessionEndedException {
  private static final long serialVersionUID = 1;

  /**
   * Names what happened.
   *
   * @param message what happened
   * @param status the name of the gRPC status
   * @param reason the reason that the gateway gave, or an empty text
   */
  public GatewayUnavailableException(String message, String status, String reason) {
    super(message, status, reason);
  }
}
