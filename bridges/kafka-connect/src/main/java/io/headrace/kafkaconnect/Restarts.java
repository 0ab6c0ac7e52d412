package io.headrace.kafkaconnect;

import java.time.Duration;

/** When tasks that have failed are started again: later with each failure, up to a minute. */
public final class Restarts {
  private static final long FIRST = Duration.ofSeconds(1).toNanos();
  private static final long MAX_DELAY = Duration.ofMinutes(1).toNanos();
  private static final long STOOD = Duration.ofMinutes(2).toNanos();

  private long delay = FIRST;
  private long startedAt;

  public void started(long now) {
    startedAt = now;
  }

  /** How long to wait after a failure, in nanoseconds. */
  public long next(long now) {
    if (now - startedAt >= STOOD) {
      delay = FIRST;
    }
    long next = delay;
    delay = Math.min(2 * delay, MAX_DELAY);
    return next;
  }
}
