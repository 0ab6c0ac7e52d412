package io.headrace.sdk.internal;

/** How a session ends normally. */
public enum Ending {
  /** The source has ended and everything is acknowledged. */
  SOURCE_ENDED("the source has ended and everything is acknowledged"),
  /** The connector was stopped. */
  STOPPED("stopped"),
  /** The gateway asked the connector to reconnect. */
  DRAINED("drained");

  private final String goodbye;

  Ending(String goodbye) {
    this.goodbye = goodbye;
  }

  /** The reason for the gateway. */
  public String goodbye() {
    return goodbye;
  }
}
