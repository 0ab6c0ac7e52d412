package io.headrace.sdk.source;

import java.util.OptionalLong;

/**
 * Thrown by a source that no longer has the messages after the position from which to continue. The
 * query then fails with the stream and the range, or skips the range if it is configured to.
 */
public final class PositionLostException extends Exception {
  private static final long serialVersionUID = 1;

  /** The earliest sequence; negative if it is unknown. */
  private final long earliest;

  /**
   * Messages are lost, and it is not known which one is the first that is left.
   *
   * @param reason what happened, for people
   */
  public PositionLostException(String reason) {
    super(reason);
    this.earliest = -1;
  }

  /**
   * Messages are lost.
   *
   * @param reason what happened, for people
   * @param earliest the first sequence that the source still has
   */
  public PositionLostException(String reason, long earliest) {
    super(reason);
    this.earliest = earliest;
  }

  /**
   * The first sequence that the source still has.
   *
   * @return the sequence; empty if it is unknown
   */
  public OptionalLong earliest() {
    return earliest < 0 ? OptionalLong.empty() : OptionalLong.of(earliest);
  }
}
