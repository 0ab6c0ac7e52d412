package io.headrace.kafkaconnect;

import io.headrace.sdk.Position;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;

/**
 * Every record that is not acknowledged, numbered without gaps. A session that is lost resumes from
 * here, with the same sequences, while the tasks keep running. Only if what the gateway asks for is
 * not here, since the bridge was restarted, do the tasks begin again, at the cursor of the
 * position.
 */
final class RecordLog {
  private final Replay replay;
  private final long limit;
  private final LongSupplier nanos;
  private final LongSupplier runs;
  private final long completeNanos;

  private Ring ring = new Ring(1);
  private Successors successors = new Successors(new Offsets());
  private CoveredPoint sent = new CoveredPoint(0, new Offsets());
  private CoveredPoint acknowledged = sent;
  private Markers markers;
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

  /** The last message behind which everything is the same when it is read again. */
  private long barrier;

  /** Acknowledged, in order, but by no cursor that covers them; of equal offsets, the last one. */
  private final TreeMap<Long, Entry> unconfirmed = new TreeMap<>();

  /** The last one of each partition that was not sent, if it is among them. */
  private final Map<String, Entry> unsent = new HashMap<>();

  private long confirmedOrder;
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
    this.markers = new Markers(nanos.getAsLong());
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
    markers = new Markers(nanos.getAsLong());
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
    confirmedOrder = 0;
    weight = 0;
    inexact = same || position.isEmpty() ? 0 : last;
    barrier = same && cursor.barrier() && cursor.sequence() == arrived() ? arrived() : 0;
    released = 0;
    acknowledgedSequence = 0;
    unconfirmed.clear();
    unsent.clear();
    notifyAll();
  }

  /** Whether everything after a position is here. */
  synchronized boolean has(Optional<Position> position) {
    if (!begun) {
      return false;
    }
    if (position.equals(resumed) && (position.isPresent() || ring.first() == 1)) {
      return true;
    }
    return position
        .map(Position::sequence)
        .filter(last -> last >= ring.first() - 1 && last < ring.next())
        .isPresent();
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
    Entry first = Entry.barrier();
    first.order = order - 1;
    first.appended = entry.appended;
    place(first);
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
    } else if (entry.isBarrier()) {
      barrier = entry.sequence;
    } else if (entry.isMarker()) {
      inexact = entry.sequence;
    }
    // A position within a frame has the cursor of a frame before. It must not be an exact one where
    // others may get these sequences the next time, also if the batch of a barrier is read again;
    // and the first position must have one.
    boolean inexactNow = replay == Replay.EXACT && !isExactAtEnd();
    if (entry.sequence == 1 || (inexactNow && (exact || entry.sequence <= arrived() + 2))) {
      entry.endsFrame = true;
    }
    ring.add(entry);
    weight += entry.weight();
    markers.appended(entry, entry.appended);
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

  /**
   * Up to so many entries after a sequence. A barrier waits until everything before it is
   * acknowledged, and what follows it waits until the barrier is.
   */
  synchronized List<Entry> after(long sequence, int most) {
    List<Entry> found = ring.after(sequence, most);
    for (int at = 0; at < found.size(); at++) {
      Entry entry = found.get(at);
      if (barrier > released && barrier < entry.sequence) {
        return found.subList(0, at);
      }
      if (entry.isBarrier() && !isNext(entry)) {
        return found.subList(0, at);
      }
    }
    return found;
  }

  /** The batch that is read again is longer than what comes before the barrier. */
  private void giveUpBarrier() {
    ring.get(barrier).giveUpBarrier();
    barrier = 0;
    inexact = ring.next() - 1;
  }

  private boolean isNext(Entry barrier) {
    return released >= barrier.sequence - 1 && sent.isWhole();
  }

  /** Waits a moment, or not at all, for an entry after a sequence. */
  @SuppressWarnings("WaitNotInLoop") // the caller asks again
  synchronized void await(long sequence, long millis) throws InterruptedException {
    if (millis > 0 && sequence + 1 >= ring.next()) {
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
   * @param forget whether it may leave out the oldest source partitions if there are too many
   */
  synchronized Optional<byte[]> cursor(Entry entry, boolean forget) {
    if (entry.cursor != null) {
      return Optional.of(entry.cursor);
    }
    boolean exact = isExact() || entry.isBarrier();
    CoveredPoint point = exact ? sent : acknowledged;
    if (point.sequence() > entry.sequence) {
      // The frame is sent again, and its cursor must not leave out what follows it.
      return Optional.empty();
    }
    byte[] bytes = point.cursor(run, exact, entry.isBarrier()).fitted(forget);
    if (entry.endsFrame) {
      entry.cursor = bytes;
    }
    return Optional.of(bytes);
  }

  /** Whether cursors may be ahead of what is acknowledged. */
  private boolean isExact() {
    return isExactAtEnd() && barrier <= released;
  }

  /** Whether they may be once everything that is in the log is acknowledged. */
  private boolean isExactAtEnd() {
    return replay == Replay.EXACT && (barrier > inexact || inexact == 0);
  }

  /**
   * Adds messages without content where only they help: nothing else would carry the cursor, or a
   * micro-batch that is read again lacks a message, as there was another one the first time.
   */
  synchronized boolean mark() {
    long now = nanos.getAsLong();
    successors.completeOld(now - completeNanos).forEach(this::completed);
    boolean exact = isExact();
    CoveredPoint point = exact ? sent : acknowledged;
    boolean allSent = sent.passedSequence() == ring.next() - 1;
    boolean waits = !ring.isEmpty();
    boolean held = !allSent && barrier > released && ring.first() <= barrier;
    if (held && barrier > arrived() && markers.due(now, false, true) > 0) {
      giveUpBarrier();
      return true;
    }
    // A batch that is read again may want more messages than there is memory for.
    boolean full = weight > limit && !markers.isWaiting();
    if (full || !allSent || (exact && !point.isWhole())) {
      return false;
    }
    boolean untold = !waits && replay != Replay.QUEUE && point.order() > confirmedOrder;
    int number = exact ? markers.dueExact(now, untold) : markers.due(now, untold, waits);
    for (int count = 0; count < number; count++) {
      Entry marker = exact && !waits ? Entry.barrier() : Entry.marker();
      marker.order = order;
      marker.appended = now;
      place(marker);
    }
    return number > 0;
  }

  /**
   * Releases what is acknowledged, and lets be confirmed what the cursor of the position covers.
   */
  synchronized void acknowledge(Position position) {
    acknowledgedSequence = Math.max(acknowledgedSequence, position.sequence());
    released = Math.max(released, position.sequence());
    release();
    if (position.sequence() > arrived()) {
      markers.acknowledged();
    }
    position.cursor().map(Cursor::decoded).ifPresent(this::confirm);
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
      confirmedOrder = Math.max(confirmedOrder, cursor.order());
    }
  }

  private void acknowledge(Entry entry) {
    acknowledged.pass(entry);
    if (entry.isMarker()) {
      return;
    }
    if (replay != Replay.QUEUE) {
      Map.Entry<Long, Entry> last = unconfirmed.lastEntry();
      if (last != null && last.getValue().isBeside(entry)) {
        unconfirmed.remove(last.getKey());
      }
      forgetUnsent(entry);
    }
    unconfirmed.put(entry.order, entry);
  }

  /** Of the records of a partition that were not sent, the last one says all. */
  private void forgetUnsent(Entry entry) {
    Entry before =
        entry.content().isEmpty()
            ? unsent.put(entry.partition(), entry)
            : unsent.remove(entry.partition());
    if (before != null) {
      unconfirmed.remove(before.order);
    }
  }

  /** Takes the records that their tasks may be told of; waits a moment for some, or not at all. */
  @SuppressWarnings("WaitNotInLoop") // the caller asks again
  synchronized List<Entry> takeConfirmed(long millis) throws InterruptedException {
    if (millis > 0 && !isConfirmed()) {
      wait(millis);
    }
    List<Entry> found = new ArrayList<>();
    while (isConfirmed()) {
      Entry entry = unconfirmed.pollFirstEntry().getValue();
      unsent.remove(entry.partition(), entry);
      found.add(entry);
    }
    return found;
  }

  private boolean isConfirmed() {
    return !unconfirmed.isEmpty()
        && (replay == Replay.QUEUE || unconfirmed.firstKey() <= confirmedOrder);
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
