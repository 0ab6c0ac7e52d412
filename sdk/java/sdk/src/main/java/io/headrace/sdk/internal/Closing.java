package io.headrace.sdk.internal;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The last call of a source or sink. */
public final class Closing {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");

  private Closing() {}

  /** Waits until no other method runs; returns whether that is so. */
  public interface Idle {
    /** Waits at most for a time in nanoseconds. */
    boolean await(long nanos) throws InterruptedException;
  }

  /** A method `close`. */
  public interface Close {
    /** Calls it. */
    void call() throws Exception;
  }

  /**
   * Calls `close` once no other method runs. What fails or takes too long is logged.
   *
   * @param name what the log calls the source or sink
   * @param timeout how long to wait for other methods and for `close`, together
   * @param threads makes the thread of `close`
   * @param idle waits for other methods
   * @param close the method
   */
  public static void call(
      String name, Duration timeout, ThreadFactory threads, Idle idle, Close close) {
    long deadline = System.nanoTime() + timeout.toNanos();
    try {
      if (!idle.await(timeout.toNanos())) {
        LOG.log(
            Level.ERROR,
            "{0}: close() is not called, because another method has not returned for {1}",
            name,
            timeout);
        return;
      }
      FutureTask<Void> closing =
          new FutureTask<>(
              () -> {
                close.call();
                return null;
              });
      Thread thread = threads.newThread(closing);
      thread.setName("headrace close of " + name);
      thread.start();
      await(closing, name, timeout, deadline);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  private static void await(FutureTask<Void> closing, String name, Duration timeout, long deadline)
      throws InterruptedException {
    try {
      closing.get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
    } catch (ExecutionException error) {
      LOG.log(Level.ERROR, name + ": close() threw " + error.getCause(), error.getCause());
    } catch (TimeoutException error) {
      LOG.log(
          Level.ERROR,
          "{0}: close() has not returned for {1}; the connector ends without it",
          name,
          timeout);
      closing.cancel(true);
    }
  }
}
