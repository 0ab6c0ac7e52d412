package io.headrace.sdk.source;

import java.util.OptionalLong;

/**
 * The messages that a source holds beyond the messages that were read. Each figure is optional.
 *
 * @param latestSequence no message that exists now has a larger sequence; a bounded query ends when
 *     it has read that far
 * @param messages the number of messages left
 * @param bytes the number of their bytes
 */
public record Backlog(OptionalLong latestSequence, OptionalLong messages, OptionalLong bytes) {
  /**
   * A backlog of which only the last sequence is known.
   *
   * @param sequence the last sequence
   * @return the backlog
   */
  public static Backlog upTo(long sequence) {
    return new Backlog(OptionalLong.of(sequence), OptionalLong.empty(), OptionalLong.empty());
  }

  /**
   * A backlog of which only the number of messages is known.
   *
   * @param messages the number of messages
   * @return the backlog
   */
  public static Backlog ofMessages(long messages) {
    return new Backlog(OptionalLong.empty(), OptionalLong.of(messages), OptionalLong.empty());
  }
}
