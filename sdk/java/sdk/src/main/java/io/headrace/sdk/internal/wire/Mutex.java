package io.headrace.sdk.internal.wire;

import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** A lock that a {@code try} block holds until its end. It does not pin virtual threads. */
public final class Mutex {
  private final ReentrantLock lock = new ReentrantLock();
  private final Held held = lock::unlock;

  /** Releases the lock at the end of the block. */
  public interface Held extends AutoCloseable {
    @Override
    void close();
  }

  /** Waits for the lock. */
  public Held hold() {
    lock.lock();
    return held;
  }

  /** A condition of what the lock guards. */
  public Condition newCondition() {
    return lock.newCondition();
  }
}
