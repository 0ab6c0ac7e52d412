package io.headrace.sdk.internal.source;

import io.headrace.sdk.Position;
import io.headrace.sdk.internal.wire.Columns;
import io.headrace.sdk.internal.wire.Mutex;
import io.headrace.sdk.source.Backlog;
import io.headrace.sdk.source.Progress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.locks.Condition;

/**
 * What passes between the reader of a partition and its session: columns and reports one way,
 * acknowledgements and orders the other. The session never waits; the reader waits while it may not
 * read.
 */
final class Handoff {
  /** How many frames' worth may wait for credit, besides what the reader gathers. */
  private static final int CAPACITY = 2;

  private final Mutex lock = new Mutex();
  private final Condition changed = lock.newCondition();
  private final Runnable tellSession;

  // Of the reader.
  private final ArrayDeque<Columns> ready = new ArrayDeque<>(CAPACITY);
  private byte[] cursor;
  private boolean caughtUp;
  private Optional<Backlog> backlog = Optional.empty();
  private Progress last;
  private Throwable failure;
  private boolean closed;
  private boolean quiet;

  // Of the session. The reader looks at the rest when `attention` is set.
  private volatile boolean attention;
  private volatile boolean paused;
  private boolean stopped;
  private Position acknowledged;
  private List<Object> tokens = new ArrayList<>();
  private volatile Thread reading;

  Handoff(Runnable tellSession) {
    this.tellSession = tellSession;
  }

  /** The next order for the reader. */
  record Order(Kind kind, Position acknowledged, List<Object> tokens) {
    /** What to do. */
    enum Kind {
      /** Deliver an acknowledgement, then ask again. */
      DELIVER,
      /** Read. */
      READ,
      /** Wait: it must not read. */
      WAIT,
      /** Close. */
      STOP
    }
  }

  /** The reader's report of the messages that are left. */
  record Left(boolean caughtUp, Optional<Backlog> backlog) {}

  // For the session

  /** The next columns to send; null if there are none. */
  Columns poll() {
    try (var ignored = lock.hold()) {
      Columns columns = ready.poll();
      if (columns != null) {
        cursor = null; // it stands before these messages
        changed.signalAll();
      }
      return columns;
    }
  }

  /** Takes a cursor that has moved since the last columns were taken; null if none has. */
  byte[] pollCursor() {
    try (var ignored = lock.hold()) {
      byte[] moved = cursor;
      cursor = null;
      return moved;
    }
  }

  /** Whether columns wait to be sent. */
  boolean hasReady() {
    try (var ignored = lock.hold()) {
      return !ready.isEmpty();
    }
  }

  /** The reader's last report of the messages that are left. */
  Left left() {
    try (var ignored = lock.hold()) {
      return new Left(caughtUp && ready.isEmpty(), backlog);
    }
  }

  /** How the partition has ended, once everything it had is sent; null if it has not. */
  Progress end() {
    try (var ignored = lock.hold()) {
      return ready.isEmpty() ? last : null;
    }
  }

  /** The error that the reader threw; null without one. */
  Throwable failure() {
    try (var ignored = lock.hold()) {
      return failure;
    }
  }

  /** Whether a reader that was paused has handed everything over. */
  boolean isQuiet() {
    try (var ignored = lock.hold()) {
      return quiet || closed || last != null || failure != null;
    }
  }

  /** Waits until the reader is closed. */
  boolean awaitClosed(long nanos) throws InterruptedException {
    try (var ignored = lock.hold()) {
      long left = nanos;
      while (!closed && left > 0) {
        left = changed.awaitNanos(left);
      }
      return closed;
    }
  }

  /** Whether the reader is closed: nothing of the source is called afterwards. */
  boolean isClosed() {
    try (var ignored = lock.hold()) {
      return closed;
    }
  }

  void acknowledge(Position position, List<Object> newTokens) {
    try (var ignored = lock.hold()) {
      acknowledged = position;
      tokens.addAll(newTokens);
      callAttention();
    }
  }

  boolean isPaused() {
    return paused;
  }

  /**
   * Has the reader hand over what it has and read no more; acknowledgements are still delivered.
   */
  void pause() {
    try (var ignored = lock.hold()) {
      paused = true;
      callAttention();
    }
  }

  /** Has the reader deliver what is left to acknowledge, and close; drops what was not sent. */
  void stop() {
    try (var ignored = lock.hold()) {
      stopped = true;
      ready.clear();
      callAttention();
      Thread thread = reading;
      if (thread != null) {
        thread.interrupt();
      }
    }
  }

  // For the reader

  /** Whether the reader should call {@link #await}. */
  boolean wantsAttention() {
    return attention;
  }

  /** Notes that the source's code runs, which {@link #stop} may interrupt. */
  void beginRead() {
    reading = Thread.currentThread();
  }

  /** Notes that it does not; nothing is interrupted afterwards. */
  void endRead() {
    reading = null;
    if (attention) {
      // Waits until stop(), which may have seen the thread, is done with it.
      try (var ignored = lock.hold()) {
        Thread.interrupted();
      }
    }
  }

  /** Hands columns over. The reader then calls {@link #await}, if {@link #wantsAttention}. */
  void offer(Columns columns) {
    try (var ignored = lock.hold()) {
      if (stopped) {
        return;
      }
      ready.add(columns);
      caughtUp = false;
      attention |= ready.size() >= CAPACITY;
    }
    tellSession.run();
  }

  /** Moves the cursor after everything that was handed over. */
  void moveCursor(byte[] moved) {
    try (var ignored = lock.hold()) {
      if (stopped) {
        return;
      }
      if (ready.isEmpty()) {
        cursor = moved;
      } else {
        ready.peekLast().setCursor(moved);
      }
    }
    tellSession.run();
  }

  /** Says what is left; `nothingNow` only if everything that was read is handed over. */
  void report(boolean nothingNow, Optional<Backlog> left) {
    try (var ignored = lock.hold()) {
      if (caughtUp == nothingNow && backlog.equals(left)) {
        return;
      }
      caughtUp = nothingNow;
      backlog = left;
    }
    tellSession.run();
  }

  /** Says how the partition has ended; everything that was read is handed over. */
  void end(Progress progress) {
    try (var ignored = lock.hold()) {
      last = progress;
    }
    tellSession.run();
  }

  /** Says what the source threw; everything that was read is handed over. */
  void fail(Throwable error) {
    try (var ignored = lock.hold()) {
      failure = error;
    }
    tellSession.run();
  }

  /** Says that the reader is closed. */
  void close() {
    try (var ignored = lock.hold()) {
      closed = true;
      changed.signalAll();
    }
    tellSession.run();
  }

  /** Waits for the session, or until there is something to deliver. */
  Order await(long nanos) throws InterruptedException {
    try (var ignored = lock.hold()) {
      long left = nanos;
      while (true) {
        Order order = order();
        if (order.kind() != Order.Kind.WAIT || left <= 0) {
          return order;
        }
        if (paused && !quiet) {
          quiet = true;
          tellSession.run();
        }
        left = changed.awaitNanos(left);
      }
    }
  }

  /** Waits until the time is over, or {@link #wantsAttention}. */
  void idle(long nanos) throws InterruptedException {
    try (var ignored = lock.hold()) {
      long left = nanos;
      while (!attention && left > 0) {
        left = changed.awaitNanos(left);
      }
    }
  }

  private Order order() {
    if (acknowledged != null) {
      Order order = new Order(Order.Kind.DELIVER, acknowledged, tokens);
      acknowledged = null;
      tokens = new ArrayList<>();
      return order;
    }
    if (stopped) {
      return new Order(Order.Kind.STOP, null, List.of());
    }
    if (paused || last != null || ready.size() >= CAPACITY) {
      return new Order(Order.Kind.WAIT, null, List.of());
    }
    attention = false;
    return new Order(Order.Kind.READ, null, List.of());
  }

  private void callAttention() {
    attention = true;
    changed.signalAll();
  }
}
