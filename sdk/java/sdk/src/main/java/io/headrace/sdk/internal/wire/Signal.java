package io.headrace.sdk.internal.wire;

import java.util.concurrent.locks.Condition;

/** Wakes the one thread that waits for it. A signal that nobody waits for is kept. */
public final class Signal {
  private final Mutex lock = new Mutex();
  private final Condition raised = lock.newCondition();
  private volatile boolean set;

  /** Wakes the thread, now or when it begins to wait. */
  public void raise() {
    if (set) {
      return;
    }
    try (var ignored = lock.hold()) {
      set = true;
      raised.signal();
    }
  }

  /** Waits for a signal, at most until a time of {@link System#nanoTime()}, and takes it. */
  public void await(long deadline) throws InterruptedException {
    try (var ignored = lock.hold()) {
      long left = deadline - System.nanoTime();
      while (!set && left > 0) {
        left = raised.awaitNanos(left);
      }
      set = false;
    }
  }
}
