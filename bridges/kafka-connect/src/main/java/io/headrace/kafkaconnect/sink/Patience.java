package io.headrace.kafkaconnect.sink;

import java.time.Duration;
import java.util.OptionalLong;

/** Waits between tries, longer each time, until it is time to give up. */
final class Patience {
  private final Clock clock;
  private final Duration most;
  private final long maxDelay;
  private final long deadline;
  private long delay;

  /**
   * Begins now.
   *
   * @param most how long there may be further tries
   * @param firstDelay how long to wait after the first one
   * @param maxDelay the longest wait
   */
  Patience(Clock clock, Duration most, Duration firstDelay, Duration maxDelay) {
    this.clock = clock;
    this.most = most;
    this.maxDelay = maxDelay.toNanos();
    this.deadline = clock.nanos() + most.toNanos();
    this.delay = firstDelay.toNanos();
  }

  /** Whether it is time to give up. */
  boolean isOver() {
    return clock.nanos() - deadline >= 0;
  }

  /** What to say of tries that are given up. */
  String givenUp(String why) {
    return "%s; given up after %d s (retry_for), and Spark delivers the part again"
        .formatted(why, most.toSeconds());
  }

  /**
   * Waits before the next try.
   *
   * @param asked how many nanoseconds the task asked for, instead of the usual
   */
  void await(OptionalLong asked) throws InterruptedException {
    clock.sleep(Math.min(asked.orElse(delay), deadline - clock.nanos()));
    delay = Math.min(2 * delay, maxDelay);
  }
}
