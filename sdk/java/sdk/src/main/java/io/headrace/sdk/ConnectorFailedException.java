package io.headrace.sdk;

import org.jspecify.annotations.Nullable;

/** A method of the source or sink threw an exception, which is the cause. */
public final class ConnectorFailedException extends HeadraceException {
  private static final long serialVersionUID = 1;

  /**
   * Names what failed.
   *
   * @param message which method of which stream or sink
   * @param cause what it threw
   */
  public ConnectorFailedException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }
}
