package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.EndPart;
import io.headrace.protocol.v1.PartFrame;
import io.headrace.protocol.v1.Prepare;
import io.headrace.protocol.v1.SinkServiceAttachResponse;
import io.headrace.protocol.v1.StartPart;
import io.headrace.sdk.Settings;
import io.headrace.sdk.internal.wire.Mutex;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.Transaction;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.locks.Condition;

/** Handles one message after the other, on a thread of the session. */
abstract class InOrderHandler implements SinkHandler {
  private final SinkDriver driver;
  private final Answers answers;
  private final int limit;
  private final Mutex lock = new Mutex();
  private final Condition changed = lock.newCondition();
  private final ArrayDeque<SinkServiceAttachResponse> queue = new ArrayDeque<>();
  private long queuedBytes;
  private boolean handling;
  private boolean finishing;
  private boolean dropped;
  private boolean closed;

  InOrderHandler(SinkDriver driver, Settings settings, Answers answers) {
    this.driver = driver;
    this.answers = answers;
    this.limit = settings.queueBytes();
  }

  /** Starts the thread. */
  final void start(Settings settings) {
    Thread thread = settings.threads().newThread(this::work);
    thread.setName("headrace sink " + driver.name());
    thread.start();
  }

  final Answers answers() {
    return answers;
  }

  /** Calls a method of the sink: never two at a time, over all sessions. */
  final <T> T call(SinkDriver.Method<T> method) throws Exception {
    return driver.call(method);
  }

  /** As {@link #call}, for a method that returns nothing. */
  final void run(SinkDriver.Step method) throws Exception {
    driver.run(method);
  }

  abstract void start(long id, Part part);

  abstract void rows(long id, FrameRows rows);

  abstract void end(long id, long rows);

  abstract void drop(long id);

  abstract void prepare(Transaction transaction, List<Part> parts);

  abstract void abort(Transaction transaction);

  /** Drops everything that is held. */
  abstract void release();

  @Override
  public final boolean hasRoom() {
    try (var ignored = lock.hold()) {
      return queuedBytes < limit;
    }
  }

  @Override
  public final void take(SinkServiceAttachResponse message) {
    try (var ignored = lock.hold()) {
      if (finishing || dropped) {
        return;
      }
      queue.add(message);
      queuedBytes += message.getSerializedSize();
      changed.signalAll();
    }
  }

  @Override
  public final void finish() {
    try (var ignored = lock.hold()) {
      finishing = true;
    }
  }

  @Override
  public final boolean isFinished() {
    try (var ignored = lock.hold()) {
      return queue.isEmpty() && !handling;
    }
  }

  @Override
  public final void drop() {
    try (var ignored = lock.hold()) {
      dropped = true;
      queue.clear();
      changed.signalAll();
    }
  }

  @Override
  public final boolean awaitClosed(long nanos) throws InterruptedException {
    try (var ignored = lock.hold()) {
      long left = nanos;
      while (!closed && left > 0) {
        left = changed.awaitNanos(left);
      }
      return closed;
    }
  }

  private void work() {
    try {
      for (SinkServiceAttachResponse message; (message = next()) != null; ) {
        handle(message);
        answers.wake();
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    } finally {
      release();
      try (var ignored = lock.hold()) {
        closed = true;
        changed.signalAll();
      }
      answers.wake();
    }
  }

  private SinkServiceAttachResponse next() throws InterruptedException {
    try (var ignored = lock.hold()) {
      if (handling) {
        handling = false;
        answers.wake();
      }
      while (queue.isEmpty() && !dropped) {
        changed.await();
      }
      SinkServiceAttachResponse message = queue.poll();
      if (message != null) {
        queuedBytes -= message.getSerializedSize();
        handling = true;
      }
      return message;
    }
  }

  private void handle(SinkServiceAttachResponse message) {
    switch (message.getMessageCase()) {
      case START_PART -> {
        StartPart start = message.getStartPart();
        start(start.getId(), Wire.part(start.getPart()));
      }
      case FRAME -> {
        PartFrame frame = message.getFrame();
        rows(frame.getId(), new FrameRows(frame.getFrame()));
      }
      case END_PART -> {
        EndPart end = message.getEndPart();
        end(end.getId(), end.getMessages());
      }
      case DROP_PART -> drop(message.getDropPart().getId());
      case PREPARE -> {
        Prepare prepare = message.getPrepare();
        prepare(Wire.transaction(prepare.getTransaction()), Wire.parts(prepare.getPartsList()));
      }
      case COMMIT -> answers.committed(Wire.transaction(message.getCommit().getTransaction()));
      case ABORT -> abort(Wire.transaction(message.getAbort().getTransaction()));
      default -> {
        // The session handles everything else.
      }
    }
  }
}
