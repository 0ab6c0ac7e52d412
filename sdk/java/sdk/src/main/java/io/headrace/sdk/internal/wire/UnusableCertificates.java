package io.headrace.sdk.internal.wire;

import io.headrace.sdk.InvalidConnectorException;

/**
 * Files of certificates cannot be used now. They may be valid later: somebody may be replacing
 * them.
 */
public final class UnusableCertificates extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final InvalidConnectorException reason;

  UnusableCertificates(InvalidConnectorException reason) {
    super(reason.getMessage(), reason);
    this.reason = reason;
  }

  /** The error that ends a connector whose files were never valid. */
  public InvalidConnectorException reason() {
    return reason;
  }
}
