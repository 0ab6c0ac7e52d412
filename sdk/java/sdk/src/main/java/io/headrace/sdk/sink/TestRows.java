package io.headrace.sdk.sink;

import io.headrace.sdk.Message;
import io.headrace.sdk.internal.sink.FrameRows;

/** Makes rows, for tests of sinks. */
public final class TestRows {
  private TestRows() {}

  /**
   * Makes rows of messages.
   *
   * @param messages the messages, at least one; their sequences must increase
   * @return the rows
   */
  public static Rows of(Message... messages) {
    return FrameRows.of(messages);
  }
}
