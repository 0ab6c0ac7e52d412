package io.headrace.sdk;

import org.jspecify.annotations.Nullable;

/**
 * The root of the errors of this SDK.
 *
 * <pre>
 * HeadraceException
 * ├── InvalidConnectorException     the source, the sink or a setting is invalid
 * ├── InvalidMessageException       the source added something that cannot be sent
 * ├── ConnectorFailedException      a method of the source or sink threw; the cause is attached
 * └── SessionEndedException         the call to the gateway ended
 *     ├── GatewayUnavailableException   temporary; the SDK retries
 *     └── GatewayRefusedException       permanent; the SDK does not retry
 * </pre>
 */
public abstract sealed class HeadraceException extends RuntimeException
    permits InvalidConnectorException,
        InvalidMessageException,
        ConnectorFailedException,
        SessionEndedException {
  private static final long serialVersionUID = 1;

  HeadraceException(@Nullable String message, @Nullable Throwable cause) {
    super(message, cause);
  }

  /**
   * The exit code of a process that this error ends.
   *
   * @return 1, or 2 if the source, the sink or a setting is invalid
   */
  public int exitCode() {
    return 1;
  }
}
