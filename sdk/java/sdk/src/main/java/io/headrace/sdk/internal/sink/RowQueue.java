package io.headrace.sdk.internal.sink;

import io.headrace.sdk.internal.wire.Mutex;
import io.headrace.sdk.sink.PartDroppedException;
import io.headrace.sdk.sink.RowStream;
import io.headrace.sdk.sink.Rows;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;

/**
 * The rows of a part, from the session to the thread that stages them. What does not fit goes to a
 * temporary file: the session offers it only while another part waits for rows.
 */
final class RowQueue implements RowStream, AutoCloseable {
  private final long limit;
  private final Runnable moved;
  private final Mutex lock = new Mutex();
  private final Condition changed = lock.newCondition();
  private final ArrayDeque<Piece> pieces = new ArrayDeque<>();
  private final FrameFile file = new FrameFile();
  private long bytes;
  private boolean ended;
  private boolean dropped;
  private boolean discarding;
  private boolean waiting;
  private boolean taken;
  private final AtomicLong consumed = new AtomicLong();
  private volatile boolean exhausted;

  /** Rows in memory, or where they are in the file. */
  private record Piece(FrameRows rows, FrameFile.Place place, long bytes) {}

  /**
   * Holds nothing yet.
   *
   * @param limit about how many bytes may wait in memory
   * @param moved called on any thread when there is room again, or when its consumer waits
   */
  RowQueue(long limit, Runnable moved) {
    this.limit = limit;
    this.moved = moved;
  }

  void offer(FrameRows rows) {
    Piece piece = new Piece(rows, null, rows.frame().getSerializedSize());
    if (isFull()) {
      try {
        piece = new Piece(null, file.write(rows.frame()), 0);
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
    try (var ignored = lock.hold()) {
      if (!ended && !dropped && !discarding) {
        pieces.add(piece);
        bytes += piece.bytes;
        changed.signalAll();
      }
    }
  }

  boolean isFull() {
    try (var ignored = lock.hold()) {
      return bytes >= limit && !dropped && !discarding;
    }
  }

  /** Whether the consumer waits for rows. */
  boolean isWaiting() {
    try (var ignored = lock.hold()) {
      return waiting && pieces.isEmpty() && !ended && !dropped;
    }
  }

  boolean isEnded() {
    try (var ignored = lock.hold()) {
      return ended;
    }
  }

  boolean isDropped() {
    try (var ignored = lock.hold()) {
      return dropped;
    }
  }

  /** All rows have been offered. */
  void end() {
    try (var ignored = lock.hold()) {
      ended = true;
      changed.signalAll();
    }
  }

  /** Makes the consumer's next step throw, unless it has reached the end. */
  void drop() {
    try (var ignored = lock.hold()) {
      dropped = true;
      changed.signalAll();
    }
    moved.run();
  }

  /** Discards everything: the consumer is gone. */
  void discard() {
    try (var ignored = lock.hold()) {
      discarding = true;
      pieces.clear();
      bytes = 0;
    }
    moved.run();
  }

  /** How many rows the consumer has taken. */
  long consumed() {
    return consumed.get();
  }

  /** Whether the consumer has reached the end. */
  boolean isExhausted() {
    return exhausted;
  }

  @Override
  public void close() {
    file.close();
  }

  @Override
  public Iterator<Rows> iterator() {
    if (taken) {
      throw new IllegalStateException("rows can be iterated over once");
    }
    taken = true;
    return new Iterator<>() {
      private Rows next;

      @Override
      public boolean hasNext() {
        if (next == null && !exhausted) {
          next = take();
        }
        return next != null;
      }

      @Override
      public Rows next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        Rows rows = next;
        next = null;
        return rows;
      }
    };
  }

  /** The next rows; null at the end. */
  private FrameRows take() {
    Piece piece;
    try (var ignored = lock.hold()) {
      while (pieces.isEmpty() && !ended && !dropped) {
        if (!waiting) {
          waiting = true;
          moved.run();
        }
        changed.await();
      }
      waiting = false;
      if (dropped) {
        throw new PartDroppedException();
      }
      piece = pieces.poll();
      if (piece == null) {
        exhausted = true;
        return null;
      }
      boolean wasFull = bytes >= limit;
      bytes -= piece.bytes;
      if (wasFull && bytes < limit) {
        moved.run();
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new PartDroppedException();
    }
    FrameRows rows = read(piece);
    consumed.addAndGet(rows.size());
    return rows;
  }

  private FrameRows read(Piece piece) {
    try {
      return piece.rows != null ? piece.rows : new FrameRows(file.read(piece.place));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
