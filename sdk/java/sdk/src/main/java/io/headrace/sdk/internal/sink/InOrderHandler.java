package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.EndPart;
import io.headrace.protocol.v1.PartFrame;
import io.headrace.protocol.v1.Prepare;
import io.headrace.protocol.v1.SinkServiceAttachResponse;
import io.headrace.protocol.v1.StartPart;
import io.headrace.sdk.Settings;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.Transaction;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** Handles one message after the other, on a thread of the session. */
abstract class InOrderHandler implements SinkHandler {
  private final SinkDriver driver;
  private final Answers answers;
  private final int limit;
  private final ReentrantLock lock = new ReentrantLock();
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
    lock.lock();
    try {
      return queuedBytes < limit;
    } finally {
      lock.unlock();
    }
  }

  @Override
  public final void take(SinkServiceAttachResponse message) {
    lock.lock();
    try {
      if (finishing || dropped) {
        return;
      }
      queue.add(message);
      queuedBytes += message.getSerializedSize();
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  @Override
  public final void finish() {
    lock.lock();
    try {
      finishing = true;
    } finally {
      lock.unlock();
    }
  }

  @Override
  public final boolean isFinished() {
    lock.lock();
    try {
      return queue.isEmpty() && !handling;
    } finally {
      lock.unlock();
    }
  }

  @Override
  public final void drop() {
    lock.lock();
    try {
      dropped = true;
      queue.clear();
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  @Override
  public final boolean awaitClosed(long nanos) throws InterruptedException {
    lock.lock();
    try {
      long left = nanos;
      while (!closed && left > 0) {
        left = changed.awaitNanos(left);
      }
      return closed;
    } finally {
      lock.unlock();
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
      lock.lock();
      try {
        closed = true;
        changed.signalAll();
      } finally {
        lock.unlock();
      }
      answers.wake();
    }
  }

  private SinkServiceAttachResponse next() throws InterruptedException {
    lock.lock();
    try {
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
    } finally {
      lock.unlock();
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
