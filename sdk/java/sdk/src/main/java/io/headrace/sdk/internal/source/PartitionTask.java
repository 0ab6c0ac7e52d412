package io.headrace.sdk.internal.source;

import io.headrace.sdk.ConnectorFailedException;
import io.headrace.sdk.HeadraceException;
import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Message;
import io.headrace.sdk.Position;
import io.headrace.sdk.internal.Calls;
import io.headrace.sdk.internal.log.Field;
import io.headrace.sdk.internal.wire.Columns;
import io.headrace.sdk.source.PositionLostException;
import io.headrace.sdk.source.Progress;
import io.headrace.sdk.source.Unsendable;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Optional;
import java.util.function.LongSupplier;

/** Reads one partition on a thread, from {@code open} to {@code close}. */
final class PartitionTask implements Runnable {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");
  private static final long BACKLOG_NANOS = Duration.ofSeconds(1).toNanos();

  private final Reading.Opener opener;
  private final Calls watched;
  private final String partition;
  private final Optional<Position> position;
  private final StreamLimits limits;
  private final LongSupplier lingerNanos;
  private final long idleNanos;
  private final Handoff handoff;
  private final Gatherer gatherer;
  private Reading reading;
  private Calls.OfThread calls;
  private long gatheredSince;
  private long handedOverAt;
  private long nextBacklog;
  private boolean caughtUp;

  /**
   * Reads a partition.
   *
   * @param opener opens its reader
   * @param watched names its methods that do not return
   * @param partition the partition
   * @param position where to continue
   * @param limits bounds its frames
   * @param lingerNanos how long to gather messages for a frame
   * @param idleNanos how long to wait when there is nothing
   * @param handoff takes what is read
   */
  PartitionTask(
      Reading.Opener opener,
      Calls watched,
      String partition,
      Optional<Position> position,
      StreamLimits limits,
      LongSupplier lingerNanos,
      long idleNanos,
      Handoff handoff) {
    this.opener = opener;
    this.watched = watched;
    this.partition = partition;
    this.position = position;
    this.limits = limits;
    this.lingerNanos = lingerNanos;
    this.idleNanos = idleNanos;
    this.handoff = handoff;
    this.gatherer = new Gatherer(limits, this::decide);
    this.handedOverAt = System.nanoTime() - Duration.ofDays(1).toNanos();
    this.nextBacklog = System.nanoTime();
  }

  @Override
  public void run() {
    try (Calls.OfThread own = watched.enter(limits.stream())) {
      calls = own;
      readToEnd();
    }
  }

  private void readToEnd() {
    try {
      reading = opener.open(partition, position);
      if (reading == null) {
        throw new NullPointerException("open() returned null");
      }
      while (attend()) {
        read();
      }
    } catch (PositionLostException lost) {
      handOverQuietly();
      handoff.fail(lost);
    } catch (Throwable error) { // whatever it is, the connector must learn of it
      handOverQuietly();
      handoff.fail(failure(error));
    } finally {
      close();
    }
  }

  /** Delivers acknowledgements, and waits while it must not read; false if it must stop. */
  private boolean attend() throws Exception {
    while (true) {
      calls.turn();
      if (handoff.isPaused()) {
        handOver();
      }
      Handoff.Order order = handoff.await(BACKLOG_NANOS);
      switch (order.kind()) {
        case STOP -> {
          return false;
        }
        case READ -> {
          return true;
        }
        case DELIVER -> reading.acknowledged(order.acknowledged(), order.tokens());
        case WAIT -> {
          if (System.nanoTime() - nextBacklog >= 0 && !handoff.isPaused()) {
            report(false);
          }
        }
      }
    }
  }

  /** Reads until something else wants attention. */
  private void read() throws Exception {
    if (System.nanoTime() - nextBacklog >= 0) {
      report(false);
    }
    while (!handoff.wantsAttention()) {
      boolean wasEmpty = gatherer.isEmpty();
      Progress progress = step();
      switch (progress) {
        case MORE -> {
          if (wasEmpty) {
            gatheredSince = System.nanoTime();
          }
          passMore();
        }
        case IDLE -> passIdle();
        case END, CLOSE, GONE -> {
          handOver();
          handoff.end(progress);
          // Waits for acknowledgements from now on.
          return;
        }
      }
    }
  }

  private Progress step() throws Exception {
    Progress progress;
    handoff.beginRead();
    try {
      progress = reading.read(gatherer);
    } finally {
      handoff.endRead();
      calls.turn();
    }
    if (progress == null) {
      throw new NullPointerException("read() returned null instead of a Progress");
    }
    return progress;
  }

  /**
   * Hands over what was gathered, if that is enough for a frame, or was gathered for long enough.
   */
  private void passMore() throws Exception {
    passCursor();
    if (gatherer.isEmpty()) {
      return;
    }
    long now = System.nanoTime();
    if (gatherer.isFull() || now - gatheredSince >= lingerNanos.getAsLong()) {
      handOver();
    }
    if (now - nextBacklog >= 0 && !handoff.wantsAttention()) {
      report(false);
    }
  }

  /**
   * There is nothing now: hands over what there is, unless that makes more frames than the pace
   * allows.
   */
  private void passIdle() throws Exception {
    long wait = idleNanos;
    passCursor();
    if (!gatherer.isEmpty()) {
      long early = lingerNanos.getAsLong() - (System.nanoTime() - handedOverAt);
      if (early > 0) {
        handoff.idle(Math.min(early, wait));
        return;
      }
      handOver();
    }
    report(true);
    handoff.idle(wait);
  }

  private void passCursor() {
    byte[] cursor = gatherer.takeCursor();
    if (cursor != null) {
      handoff.moveCursor(cursor);
    }
  }

  private void handOver() {
    passCursor();
    Columns columns = gatherer.take();
    if (columns != null) {
      handedOverAt = System.nanoTime();
      handoff.offer(columns);
    }
  }

  /** Hands over what is sound before the reader fails. */
  private void handOverQuietly() {
    try {
      handOver();
    } catch (HeadraceException error) {
      LOG.log(Level.DEBUG, "the last message is left out", error);
    }
  }

  /** Asks the source what is left, about once a second, or when it has just caught up. */
  private void report(boolean nothingNow) throws Exception {
    long now = System.nanoTime();
    if (now - nextBacklog >= 0 || (nothingNow && !caughtUp)) {
      nextBacklog = now + BACKLOG_NANOS;
      handoff.report(nothingNow, reading.backlog());
      calls.turn();
    }
    caughtUp = nothingNow;
  }

  private Unsendable decide(Object token, Message message, InvalidMessageException error)
      throws Exception {
    Unsendable decision = reading.unsendable(token, message, error);
    if (decision == Unsendable.SKIP) {
      LOG.log(
          Level.WARNING,
          "stream {0}: skipped: {1}",
          Field.stream(limits.stream()),
          error.getMessage());
    }
    return decision;
  }

  private HeadraceException failure(Throwable error) {
    if (error instanceof HeadraceException known) {
      return known;
    }
    return new ConnectorFailedException(
        "stream %s: the source threw %s".formatted(limits.stream(), error), error);
  }

  private void close() {
    try {
      if (reading != null) {
        reading.close();
      }
    } catch (Throwable error) { // it must not keep the session from ending
      LOG.log(Level.WARNING, "stream " + limits.stream() + ": closing its reader", error);
    } finally {
      handoff.close();
    }
  }
}
