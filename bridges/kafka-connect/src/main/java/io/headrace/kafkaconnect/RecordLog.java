package io.headrace.kafkaconnect;

import io.headrace.sdk.Position;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;

/**
 * Every record that is not acknowledged, numbered without gaps. A session that is lost resumes from
 * here, with the same sequences, while the tasks keep running. Only if what the gateway asks for is
 * not here, since the bridge was restarted, do the tasks begin again, at the cursor of the
 * position.
 */
final class RecordLog {
  /** How often a cursor moves without a message, at most. */
  private static final long MIN_BETWEEN = Duration.ofSeconds(1).toNanos();

  private static final long NO_BARRIER = -1;

  private final Replay replay;
  private final long limit;
  private final LongSupplier nanos;
  private final LongSupplier runs;
  private final long completeNanos;

  private Ring ring = new Ring(1);
  private Successors successors = new Successors(new Offsets());
  private CoveredPoint sent = new CoveredPoint(0, new Offsets());
  private CoveredPoint acknowledged = sent;
  private Filling filling;
  private Unconfirmed unconfirmed;
  private Optional<Position> resumed = Optional.empty();
  private boolean begun;

  /** Everything up to here is acknowledged, or left out behind that. */
  private long released;

  private long acknowledgedSequence;

  /** The source partitions whose last offset would begin a snapshot again. */
  private final Set<String> snapshotting = new HashSet<>();

  private long run;
  private long order;
  private long weight;

  /** The last message that may be another one when it is read again. */
  private long inexact;

  /**
   * Everything after this message is the same when it is read again. The log sends nothing after it
   * until the checkpoint contains a cursor that marks it.
   */
  private long barrier = NO_BARRIER;

  private boolean barrierHolds;

  /** The last record that a cursor of this session covers, and when the last one moved alone. */
  private long toldOrder;

  private Optional<Long> toldAt = Optional.empty();
  private boolean barrierTold;

  private boolean closed;

  /**
   * An empty log.
   *
   * @param limit how many bytes may be unacknowledged before {@link #append} waits
   * @param completeNanos after how long an offset that nothing follows counts as complete
   * @param nanos the clock
   * @param runs numbers that no other run of the bridge has
   */
  RecordLog(Replay replay, long limit, long completeNanos, LongSupplier nanos, LongSupplier runs) {
    this.replay = replay;
    this.limit = limit;
    this.completeNanos = completeNanos;
    this.nanos = nanos;
    this.runs = runs;
    this.filling = new Filling(nanos.getAsLong());
    this.unconfirmed = new Unconfirmed(replay);
  }

  /** Begins anew after a position, at the offsets of its cursor. */
  synchronized void reset(Optional<Position> position) {
    Cursor cursor = Cursor.of(position.flatMap(Position::cursor));
    boolean same = replay == Replay.EXACT && cursor.exact();
    // Records that may differ from the first time get sequences that were never used.
    long last = same ? cursor.sequence() : position.map(Position::sequence).orElse(0L);
    ring = new Ring(last + 1);
    successors = new Successors(cursor.offsets());
    sent = new CoveredPoint(last, cursor.offsets());
    acknowledged = new CoveredPoint(last, cursor.offsets());
    filling = new Filling(nanos.getAsLong());
    unconfirmed = new Unconfirmed(replay);
    resumed = position;
    begun = true;
    snapshotting.clear();
    cursor
        .offsets()
        .forEach(
            (partition, at) -> {
              if (Entry.isOfSnapshot(at.offset())) {
                snapshotting.add(partition);
              }
            });
    run = runs.getAsLong();
    order = 0;
    weight = 0;
    // A run that did not know of its barrier may have planned a micro-batch with other records.
    barrierHolds = same && cursor.barrier() && cursor.sequence() == arrived();
    barrier = barrierHolds ? last : NO_BARRIER;
    inexact = (same && !barrierHolds) || position.isEmpty() ? 0 : last;
    released = 0;
    acknowledgedSequence = 0;
    beginSession();
    notifyAll();
  }

  /** Whether everything after a position is here. */
  synchronized boolean has(Optional<Position> position) {
    if (!begun) {
      return false;
    }
    long last = position.map(Position::sequence).orElse(0L);
    return ring.first() - 1 <= last && (last < ring.next() || position.equals(resumed));
  }

  /** A session begins, or a message was left out: what cursors said may not have arrived. */
  synchronized void beginSession() {
    toldOrder = 0;
    toldAt = Optional.empty();
    barrierTold = false;
  }

  /** The last message that is acknowledged; 0 if none is since the log began. */
  synchronized long acknowledgedSequence() {
    return acknowledgedSequence;
  }

  /** Where tasks begin that continue after the records in the log. */
  synchronized Offsets settled() {
    return successors.settled();
  }

  /** What tasks that begin at {@link #settled} return again, and which must be left out. */
  synchronized Repeats repeats() {
    return replay == Replay.EXACT ? successors.repeats() : Repeats.none();
  }

  /**
   * Adds a record; waits while too much is unacknowledged.
   *
   * @param stopped whether its task is stopped: the next one reads the record again
   */
  synchronized void append(Entry entry, BooleanSupplier stopped) throws InterruptedException {
    while (weight > limit && !closed && !stopped.getAsBoolean()) {
      wait();
    }
    if (stopped.getAsBoolean()) {
      return;
    }
    entry.order = ++order;
    entry.appended = nanos.getAsLong();
    successors.follow(entry).ifPresent(this::completed);
    if (entry.content().isPresent()) {
      if (replay == Replay.EXACT && !entry.isOfSnapshot() && !isExactAtEnd()) {
        beginExact(entry);
      }
      place(entry);
    } else {
      placeUnsent(entry);
    }
    release();
    notifyAll();
  }

  /** The first record that will be the same when it is read again. */
  private void beginExact(Entry entry) {
    boolean resumable = !snapshotting.remove(entry.partition()) && snapshotting.isEmpty();
    if (!resumable || !successors.isWholeBefore(entry)) {
      inexact = ring.next();
      return;
    }
    barrier = ring.next() - 1;
    barrierHolds = true;
    barrierTold = false;
  }

  private long arrived() {
    return resumed.map(Position::sequence).orElse(0L);
  }

  private void place(Entry entry) {
    entry.sequence = ring.next();
    boolean exact = isExactAtEnd();
    if (entry.isOfSnapshot()) {
      inexact = entry.sequence;
      snapshotting.add(entry.partition());
    } else if (entry.isFiller()) {
      inexact = entry.sequence;
    }
    // A position within a frame has the cursor of a frame before. It must not be an exact one where
    // others may get these sequences the next time, also if a batch from before a barrier is read
    // again; and the first position must have one.
    boolean inexactNow = replay == Replay.EXACT && !isExactAtEnd();
    if (entry.sequence == 1 || (inexactNow && (exact || entry.sequence <= arrived() + 2))) {
      entry.endsFrame = true;
    }
    ring.add(entry);
    weight += entry.weight();
    filling.appended(entry.appended);
  }

  private void placeUnsent(Entry entry) {
    entry.sequence = ring.next() - 1;
    if (sent.passedSequence() == entry.sequence) {
      sent.pass(entry);
    }
    if (ring.isEmpty()) {
      acknowledge(entry);
      return;
    }
    Entry before = ring.get(entry.sequence);
    if (before.after.isEmpty()) {
      before.after = new ArrayList<>();
    }
    // A transform may drop millions after one record: the last one of each partition says all.
    if (replay != Replay.QUEUE && before.after.removeIf(entry::isOfPartitionOf)) {
      weight -= Entry.OVERHEAD;
    }
    before.after.add(entry);
    weight += Entry.OVERHEAD;
  }

  private void completed(Entry entry) {
    sent.completed(entry);
    acknowledged.completed(entry);
  }

  /** Up to so many entries after a sequence; none after a barrier that holds them. */
  synchronized List<Entry> after(long sequence, int most) {
    List<Entry> found = ring.after(sequence, most);
    if (!barrierHolds) {
      return found;
    }
    return found.stream().takeWhile(entry -> entry.sequence <= barrier).toList();
  }

  /** Waits a moment, or not at all, for an entry after a sequence. */
  @SuppressWarnings("WaitNotInLoop") // the caller asks again
  synchronized void await(long sequence, long millis) throws InterruptedException {
    if (millis > 0 && after(sequence, 1).isEmpty()) {
      wait(millis);
    }
  }

  /** Takes note that the entries up to one are sent; those that were sent before have no effect. */
  synchronized void send(Entry entry) {
    if (entry.sequence <= sent.passedSequence()) {
      return;
    }
    sent.pass(entry);
    entry.after.forEach(sent::pass);
  }

  /**
   * The cursor of a frame that ends with an entry; empty if the position keeps an earlier one.
   *
   * @param limits how long it may be
   */
  synchronized Optional<byte[]> cursor(Entry entry, Cursor.Limits limits) {
    if (entry.cursor != null) {
      return Optional.of(entry.cursor);
    }
    CoveredPoint point = isExact() ? sent : acknowledged;
    if (point.sequence() > entry.sequence) {
      // The frame is sent again, and its cursor must not leave out what follows it.
      boolean again = replay == Replay.EXACT && !entry.isOfSnapshot();
      Cursor begin = new Cursor(0, run, 0, again, false, new Offsets());
      return entry.sequence == 1 ? Optional.of(begin.fitted(limits)) : Optional.empty();
    }
    byte[] bytes = point.cursor(run, isExact(), false).fitted(limits);
    if (entry.endsFrame) {
      entry.cursor = bytes;
    }
    toldOrder = Math.max(toldOrder, point.order());
    return Optional.of(bytes);
  }

  /**
   * The cursor that moves without a message, once everything is sent; empty if it need not move.
   *
   * @param limits how long it may be
   */
  synchronized Optional<byte[]> loneCursor(Cursor.Limits limits) {
    long now = nanos.getAsLong();
    successors.completeOld(now - completeNanos).forEach(this::completed);
    if (barrierHolds) {
      boolean due = released >= barrier && sent.isWhole() && !barrierTold;
      barrierTold |= due;
      return due ? Optional.of(sent.cursor(run, true, true).fitted(limits)) : Optional.empty();
    }
    if (toldAt.filter(at -> now - at < MIN_BETWEEN).isPresent()) {
      return Optional.empty();
    }
    CoveredPoint point = isExact() ? sent : acknowledged;
    boolean news = point.order() > Math.max(toldOrder, unconfirmed.covered());
    // Its acknowledgement shows that no micro-batch of an earlier run is left.
    boolean asks = filling.isWaiting() && toldAt.isEmpty();
    if (!asks && (!news || replay == Replay.QUEUE)) {
      return Optional.empty();
    }
    toldAt = Optional.of(now);
    toldOrder = Math.max(toldOrder, point.order());
    return Optional.of(point.cursor(run, isExact(), false).fitted(limits));
  }

  /** Whether cursors may be ahead of what is acknowledged. */
  private boolean isExact() {
    return isExactAtEnd() && !barrierHolds;
  }

  /** Whether they may be once everything that is in the log is acknowledged. */
  private boolean isExactAtEnd() {
    return replay == Replay.EXACT && (inexact == 0 || barrier >= inexact);
  }

  /**
   * Adds messages without content if a micro-batch that is read again seems to lack messages. All
   * that may be sent is sent.
   */
  synchronized boolean fill() {
    long now = nanos.getAsLong();
    if (!filling.isDue(now) || isExact()) {
      return false;
    }
    int number = filling.next();
    if (barrierHolds) {
      // It needs what is after the barrier.
      barrier = NO_BARRIER;
      barrierHolds = false;
      inexact = ring.next() - 1;
      return true;
    }
    for (int count = 0; count < number; count++) {
      Entry filler = Entry.filler();
      filler.order = order;
      filler.appended = now;
      place(filler);
    }
    return true;
  }

  /**
   * Releases what is acknowledged, and lets be confirmed what the cursor of the position covers.
   */
  synchronized void acknowledge(Position position) {
    acknowledgedSequence = Math.max(acknowledgedSequence, position.sequence());
    released = Math.max(released, position.sequence());
    release();
    if (position.sequence() > arrived()) {
      filling.acknowledged();
    }
    position.cursor().map(Cursor::decoded).ifPresent(this::confirm);
    if (position.sequence() >= sent.passedSequence()) {
      // A batch that is read again has another cursor than its last frame.
      toldOrder = unconfirmed.covered();
    }
    notifyAll();
  }

  /** Forgets what is acknowledged, also if it is read again after that. */
  private void release() {
    while (!ring.isEmpty() && (ring.first() <= released || isNextLeftOut())) {
      Entry entry = ring.removeFirst();
      released = Math.max(released, entry.sequence);
      weight -= entry.weight() + entry.after.size() * Entry.OVERHEAD;
      send(entry);
      acknowledge(entry);
      entry.after.forEach(this::acknowledge);
    }
  }

  private boolean isNextLeftOut() {
    return ring.first() == released + 1 && ring.get(ring.first()).isLeftOut();
  }

  /** Leaves out a message that cannot be sent: nobody will acknowledge it. */
  synchronized void leaveOut(long sequence) {
    if (sequence >= ring.first() && sequence < ring.next()) {
      ring.get(sequence).leaveOut();
      release();
      notifyAll();
    }
  }

  private void confirm(Cursor cursor) {
    // A batch that is read again has the cursor of the first time, whose records were counted
    // otherwise.
    if (cursor.run() == run) {
      filling.acknowledged();
      unconfirmed.cover(cursor.order());
      barrierHolds &= !(cursor.exact() && cursor.sequence() >= barrier);
    }
  }

  private void acknowledge(Entry entry) {
    acknowledged.pass(entry);
    if (!entry.isFiller()) {
      unconfirmed.add(entry);
    }
  }

  /** Takes the records that their tasks may be told of; waits a moment for some, or not at all. */
  @SuppressWarnings("WaitNotInLoop") // the caller asks again
  synchronized List<Entry> takeConfirmed(long millis) throws InterruptedException {
    if (millis > 0 && !unconfirmed.isAnyCovered()) {
      wait(millis);
    }
    return unconfirmed.takeCovered();
  }

  /** A task is stopped, and need not wait. */
  synchronized void taskStopped() {
    notifyAll();
  }

  /** Lets nobody wait any more. */
  synchronized void close() {
    closed = true;
    notifyAll();
  }

  /** The messages that are read and not acknowledged. */
  synchronized long size() {
    return ring.next() - ring.first();
  }
}
