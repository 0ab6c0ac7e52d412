package io.headrace.kafkaconnect;

import java.time.Duration;

/** When tasks that have failed are started again: later with each failure, up to a minute. */
final class Restarts {
  private static final long FIRST = Duration.ofSeconds(1).toNanos();
  private static final long LONGEST = Duration.ofMinutes(1).toNanos();
  private static final long STOOD = Duration.ofMinutes(2).toNanos();

  private long delay = FIRST;
  private long startedAt;

  void started(long now) {
    startedAt = now;
  }

  /** How long to wait after a failure, in nanoseconds. */
  long next(long now) {
    if (now - startedAt >= STOOD) {
      delay = FIRST;
    }
    long next = delay;
    delay = Math.min(2 * delay, LONGEST);
    return next;
  }
}
