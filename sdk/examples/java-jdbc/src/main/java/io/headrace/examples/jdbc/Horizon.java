package io.headrace.examples.jdbc;

import io.headrace.examples.jdbc.Growth.Mark;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Optional;
import java.util.function.LongSupplier;

/**
 * How far a table may be read: up to the newest row that was seen a while ago. A transaction that
 * had numbered its rows by then has had that while to commit.
 */
final class Horizon {
  private final long lagNanos;
  private final LongSupplier clock;
  private final ArrayDeque<Seen> seen = new ArrayDeque<>();
  private Mark limit;

  /** The newest row, and when it was seen. */
  private record Seen(Mark newest, long at) {}

  /** A horizon that lags behind, by a clock in nanoseconds. */
  Horizon(Duration lag, LongSupplier clock) {
    this.lagNanos = lag.toNanos();
    this.clock = clock;
  }

  /** Notes the newest row of the table. */
  void saw(Mark newest) {
    if (!newest.equals(seen.isEmpty() ? limit : seen.getLast().newest)) {
      seen.add(new Seen(newest, clock.getAsLong()));
    }
  }

  /** The last row that may be read now; empty if there is none. */
  Optional<Mark> limit() {
    long now = clock.getAsLong();
    while (!seen.isEmpty() && now - seen.getFirst().at >= lagNanos) {
      limit = seen.removeFirst().newest;
    }
    return Optional.ofNullable(limit);
  }

  /** Whether rows were seen that may not be read yet. */
  boolean isAhead() {
    return !seen.isEmpty();
  }
}
