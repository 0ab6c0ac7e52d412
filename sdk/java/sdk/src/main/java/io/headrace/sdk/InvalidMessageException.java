package io.headrace.sdk;

/**
 * The source added something that cannot be sent, such as a message above the gateway's limit or a
 * sequence that does not increase. Or a sink returned the wrong number of outcomes.
 */
public final class InvalidMessageException extends HeadraceException {
  private static final long serialVersionUID = 1;

  /**
   * Names what is invalid.
   *
   * @param message what is wrong, in which stream and message, and what to do
   */
  public InvalidMessageException(String message) {
    super(message, null);
  }
}
