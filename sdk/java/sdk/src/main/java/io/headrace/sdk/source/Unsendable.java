package io.headrace.sdk.source;

/** What to do with a message that can never be sent. */
public enum Unsendable {
  /** End the connector, after everything before the message is sent. */
  FAIL,
  /** Leave the message out; the stream continues with the next one. */
  SKIP
}
