package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.EndPart;
import io.headrace.protocol.v1.PartFrame;
import io.headrace.protocol.v1.SinkServiceAttachResponse;
import io.headrace.protocol.v1.Staged;
import io.headrace.protocol.v1.StartPart;
import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Settings;
import io.headrace.sdk.internal.wire.Mutex;
import io.headrace.sdk.sink.Outcomes;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.Transaction;
import io.headrace.sdk.sink.TwoPhaseSink;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;

/**
 * Stages each part on a thread, and carries out decisions in order on another one. A decision waits
 * for the parts of its transaction that began before it, and parts that begin after it wait for it.
 */
final class TwoPhaseHandler implements SinkHandler {
  private static final int MAX_DECISIONS = 1000;

  private final TwoPhaseSink sink;
  private final SinkDriver driver;
  private final Settings settings;
  private final Answers answers;

  // Of the session's thread.
  private final Map<Long, Staging> stagings = new LinkedHashMap<>();
  private RowQueue lastOffered;

  private final Mutex lock = new Mutex();
  private final Condition changed = lock.newCondition();
  private final ArrayDeque<Decision> decisions = new ArrayDeque<>();
  private final Map<Transaction, Decision> lastDecisions = new HashMap<>();
  private final Set<Staging> running = new HashSet<>();
  private boolean deciding;
  private boolean dropped;
  private boolean closed;

  /** A decision of the gateway, and the parts that began before it. */
  private record Decision(
      SinkServiceAttachResponse message,
      Transaction transaction,
      Collection<Staging> before,
      CountDownLatch done) {}

  TwoPhaseHandler(TwoPhaseSink sink, SinkDriver driver, Settings settings, Answers answers) {
    this.sink = sink;
    this.driver = driver;
    this.settings = settings;
    this.answers = answers;
  }

  /** Starts the thread that decides. */
  void start() {
    startThread(this::decide, "decisions");
  }

  @Override
  public boolean hasRoom() {
    try (var ignored = lock.hold()) {
      if (decisions.size() >= MAX_DECISIONS) {
        return false;
      }
    }
    // The rows of one part must not wait because another one, which may wait for it, is behind.
    return lastOffered == null
        || !lastOffered.isFull()
        || stagings.values().stream().anyMatch(staging -> staging.rows.isWaiting());
  }

  @Override
  public void take(SinkServiceAttachResponse message) {
    switch (message.getMessageCase()) {
      case START_PART -> startPart(message.getStartPart());
      case FRAME -> takeRows(message.getFrame());
      case END_PART -> endPart(message.getEndPart());
      case DROP_PART -> {
        Staging staging = stagings.get(message.getDropPart().getId());
        if (staging != null) {
          enqueue(message, staging.part.transaction(), List.of(staging));
        }
      }
      case PREPARE -> enqueueForAll(message, message.getPrepare().getTransaction());
      case COMMIT -> enqueueForAll(message, message.getCommit().getTransaction());
      case ABORT -> enqueueForAll(message, message.getAbort().getTransaction());
      default -> {
        // The session handles everything else.
      }
    }
  }

  @Override
  public void finish() {
    stagings.values().stream()
        .filter(staging -> !staging.rows.isEnded())
        .forEach(staging -> staging.rows.drop());
  }

  @Override
  public boolean isFinished() {
    try (var ignored = lock.hold()) {
      return decisions.isEmpty() && !deciding && running.isEmpty();
    }
  }

  @Override
  public void drop() {
    stagings.values().forEach(staging -> staging.rows.drop());
    try (var ignored = lock.hold()) {
      dropped = true;
      // Parts must not wait for decisions that will not be carried out.
      lastDecisions.values().forEach(decision -> decision.done.countDown());
      decisions.clear();
      changed.signalAll();
    }
  }

  @Override
  public boolean awaitClosed(long nanos) throws InterruptedException {
    try (var ignored = lock.hold()) {
      long left = nanos;
      while ((!closed || !running.isEmpty()) && left > 0) {
        left = changed.awaitNanos(left);
      }
      return closed && running.isEmpty();
    }
  }

  // Parts

  private void startPart(StartPart start) {
    Part part = Wire.part(start.getPart());
    RowQueue rows = new RowQueue(settings.queueBytes(), answers::wake);
    Staging staging = new Staging(start.getId(), part, rows);
    stagings.put(start.getId(), staging);
    Decision before;
    try (var ignored = lock.hold()) {
      before = lastDecisions.get(part.transaction());
      running.add(staging);
    }
    startThread(() -> run(staging, before), "partition " + part.partition());
  }

  private void takeRows(PartFrame frame) {
    Staging staging = stagings.get(frame.getId());
    if (staging != null) {
      staging.rows.offer(new FrameRows(frame.getFrame()));
      lastOffered = staging.rows;
    }
  }

  private void endPart(EndPart end) {
    Staging staging = stagings.get(end.getId());
    if (staging != null) {
      staging.expected = end.getMessages();
      staging.rows.end();
    }
  }

  private void run(Staging staging, Decision before) {
    try {
      if (before != null) {
        before.done.await();
      }
      if (!staging.rows.isDropped()) {
        stage(staging);
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    } finally {
      staging.rows.close();
      staging.over.countDown();
      try (var ignored = lock.hold()) {
        running.remove(staging);
        changed.signalAll();
      }
      answers.wake();
    }
  }

  private Outcomes stagedBySink(Staging staging) throws Exception {
    try (var ignored = driver.watched().enter()) {
      return sink.stage(staging.part, staging.rows);
    }
  }

  private void stage(Staging staging) {
    List<Staged.Refused> refused;
    try {
      var outcomes = stagedBySink(staging);
      if (!staging.rows.isExhausted()) {
        throw new InvalidMessageException(
            "stage() returned before the end of the part: it took %d of its messages"
                .formatted(staging.rows.consumed()));
      }
      Refusals.checkWhole(staging.rows.consumed(), staging.expected);
      refused = Refusals.of(outcomes, 0, staging.rows.consumed());
    } catch (Throwable error) { // whatever it is, the gateway must learn of it
      staging.rows.discard();
      dropPart(staging.part);
      if (!staging.rows.isDropped()) {
        answers.partFailed(staging.id, staging.part, error);
      }
      return;
    }
    staging.staged = true;
    if (!staging.rows.isDropped()) {
      answers.staged(staging.id, staging.rows.consumed(), refused);
    }
  }

  private void dropPart(Part part) {
    try {
      driver.run(() -> sink.drop(part));
    } catch (Exception error) {
      answers.unansweredFailed(part.transaction(), "dropping a part of", error);
    }
  }

  // Decisions

  private void enqueueForAll(
      SinkServiceAttachResponse message, io.headrace.protocol.v1.Transaction wire) {
    Transaction transaction = Wire.transaction(wire);
    List<Staging> before =
        stagings.values().stream()
            .filter(staging -> staging.part.transaction().equals(transaction))
            .toList();
    enqueue(message, transaction, before);
  }

  private void enqueue(
      SinkServiceAttachResponse message, Transaction transaction, List<Staging> before) {
    Set<Part> counting =
        message.hasPrepare()
            ? Set.copyOf(Wire.parts(message.getPrepare().getPartsList()))
            : Set.of();
    for (Staging staging : before) {
      stagings.remove(staging.id);
      if (!counting.contains(staging.part)) {
        staging.rows.drop();
      }
    }
    Decision decision = new Decision(message, transaction, before, new CountDownLatch(1));
    try (var ignored = lock.hold()) {
      lastDecisions.put(transaction, decision);
      decisions.add(decision);
      changed.signalAll();
    }
  }

  private void decide() {
    try {
      for (Decision decision; (decision = next()) != null; ) {
        if (awaitParts(decision)) {
          carryOut(decision);
        }
        decision.done.countDown();
        try (var ignored = lock.hold()) {
          lastDecisions.remove(decision.transaction, decision);
          deciding = false;
        }
        answers.wake();
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    } finally {
      try (var ignored = lock.hold()) {
        closed = true;
        changed.signalAll();
      }
    }
  }

  private Decision next() throws InterruptedException {
    try (var ignored = lock.hold()) {
      while (decisions.isEmpty() && !dropped) {
        changed.await();
      }
      Decision decision = dropped ? null : decisions.poll();
      deciding = decision != null;
      return decision;
    }
  }

  /** Waits until the parts that began before are over; false if the session has ended meanwhile. */
  private boolean awaitParts(Decision decision) throws InterruptedException {
    for (Staging staging : decision.before) {
      while (!staging.over.await(1, TimeUnit.SECONDS)) {
        if (isDropped()) {
          return false;
        }
      }
    }
    return !isDropped();
  }

  private boolean isDropped() {
    try (var ignored = lock.hold()) {
      return dropped;
    }
  }

  private void carryOut(Decision decision) {
    Transaction transaction = decision.transaction;
    switch (decision.message.getMessageCase()) {
      case DROP_PART ->
          decision.before.stream()
              .filter(staging -> staging.staged)
              .forEach(staging -> dropPart(staging.part));
      case PREPARE -> {
        List<Part> parts = Wire.parts(decision.message.getPrepare().getPartsList());
        if (succeeds(transaction, "preparing", () -> sink.prepare(transaction, parts))) {
          answers.prepared(transaction);
        }
      }
      case COMMIT -> {
        if (succeeds(transaction, "committing", () -> sink.commit(transaction))) {
          answers.committed(transaction);
        }
      }
      default -> {
        try {
          driver.run(() -> sink.abort(transaction));
        } catch (Exception error) {
          answers.unansweredFailed(transaction, "aborting", error);
        }
      }
    }
  }

  private boolean succeeds(Transaction transaction, String doing, SinkDriver.Step step) {
    try {
      driver.run(step);
      return true;
    } catch (Exception error) {
      answers.transactionFailed(transaction, doing, error);
      return false;
    }
  }

  private void startThread(Runnable task, String what) {
    Thread thread = settings.threads().newThread(task);
    thread.setName("headrace sink %s %s".formatted(driver.name(), what));
    thread.start();
  }
}
