package io.headrace.sdk.internal;

/** A failure of the connector's own, after which it tries again to connect. */
public final class TemporaryFailure extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** Names what failed. */
  public TemporaryFailure(String message, Throwable cause) {
    super(message, cause);
  }
}
