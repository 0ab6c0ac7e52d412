package io.headrace.sdk;

import org.jspecify.annotations.Nullable;

/** The source, the sink or a setting is invalid, such as a name that is not allowed. */
public final class InvalidConnectorException extends HeadraceException {
  private static final long serialVersionUID = 1;

  /**
   * Names what is invalid.
   *
   * @param message what is wrong, where, and what to do
   */
  public InvalidConnectorException(String message) {
    super(message, null);
  }

  /**
   * Names what is invalid.
   *
   * @param message what is wrong, where, and what to do
   * @param cause why
   */
  public InvalidConnectorException(String message, @Nullable Throwable cause) {
    super(message, cause);
  }

  @Override
  public int exitCode() {
    return 2;
  }
}
