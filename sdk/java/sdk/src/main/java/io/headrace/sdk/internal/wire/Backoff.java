package io.headrace.sdk.internal.wire;

import java.time.Duration;
import java.util.function.DoubleSupplier;

/**
 * Exponential backoff with full jitter, so that the clients of a server that was away do not return
 * all at once. Not for several threads.
 */
public final class Backoff {
  private static final int MAX_DOUBLINGS = 60;

  private final double firstSeconds;
  private final double maxSeconds;
  private final DoubleSupplier random;
  private int attempts;

  /**
   * Begins with the first wait.
   *
   * @param first the upper bound of the first wait; it doubles with each further one
   * @param longest the upper bound of all waits
   * @param random returns a number from 0 to 1, the share of the bound to wait
   */
  public Backoff(Duration first, Duration longest, DoubleSupplier random) {
    this.firstSeconds = first.toNanos() / 1e9;
    this.maxSeconds = longest.toNanos() / 1e9;
    this.random = random;
  }

  /** How long to wait now. */
  public Duration next() {
    double bound =
        Math.min(maxSeconds, Math.scalb(firstSeconds, Math.min(attempts, MAX_DOUBLINGS)));
    attempts++;
    return Duration.ofNanos((long) (bound * random.getAsDouble() * 1e9));
  }

  /** Starts again with the first wait: an attempt has succeeded. */
  public void reset() {
    attempts = 0;
  }
}
