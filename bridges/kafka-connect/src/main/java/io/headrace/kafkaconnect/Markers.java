package io.headrace.kafkaconnect;

import java.time.Duration;

/**
 * When a message without content is due, as a frame needs a message to carry a cursor. It is not
 * needed by a protocol whose frames may carry a cursor alone.
 */
final class Markers {
  private static final long QUIET = Duration.ofSeconds(1).toNanos();
  private static final long BETWEEN = Duration.ofSeconds(10).toNanos();
  private static final long FIRST_FILL = Duration.ofSeconds(5).toNanos();
  private static final long FILL_EXACT = Duration.ofSeconds(60).toNanos();
  private static final int MOST = 1024;

  private long appended;
  private long marked;
  private boolean waiting = true;
  private long fillAfter = FIRST_FILL;
  private int fill = 1;

  Markers(long now) {
    this.appended = now;
    this.marked = now - BETWEEN;
  }

  void appended(Entry entry, long now) {
    appended = now;
    if (entry.isMarker()) {
      marked = now;
    }
  }

  /** Something that was sent since the beginning is acknowledged: no batch lacks a message. */
  void acknowledged() {
    waiting = false;
  }

  /** Whether a batch may be read again that lacks a message. */
  boolean isWaiting() {
    return waiting;
  }

  /**
   * How many are due where the records that are read again may be others, and fewer.
   *
   * @param untold whether everything is acknowledged, and no acknowledged cursor says it
   * @param unacknowledged whether something is sent and not acknowledged
   */
  int due(long now, boolean untold, boolean unacknowledged) {
    if (untold) {
      return isQuiet(now) ? 1 : 0;
    }
    if (!waiting || !unacknowledged || now - appended < fillAfter) {
      return 0;
    }
    int number = fill;
    fillAfter = 2 * fillAfter;
    fill = Math.min(4 * fill, MOST);
    return number;
  }

  /**
   * How many are due where the same records get the same sequences. A batch that is read again ends
   * with a record, which comes, or with a marker: only after long, none may take the sequence of a
   * record.
   */
  int dueExact(long now, boolean untold) {
    boolean due = waiting ? now - appended >= FILL_EXACT : untold && isQuiet(now);
    return due ? 1 : 0;
  }

  private boolean isQuiet(long now) {
    return now - appended >= QUIET && now - marked >= BETWEEN;
  }
}
