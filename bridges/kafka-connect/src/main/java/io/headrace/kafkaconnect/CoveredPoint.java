package io.headrace.kafkaconnect;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The last place, of the records that passed in order, after which offsets resume: each partition's
 * last offset is complete there. Several records of one offset hold it back, as a connector would
 * continue after all of them.
 */
final class CoveredPoint {
  private final Offsets offsets;
  private final Map<String, Entry> since = new LinkedHashMap<>();
  private int incomplete;
  private long sequence;
  private long order;
  private long passedSequence;
  private long passedOrder;

  CoveredPoint(long sequence, Offsets offsets) {
    this.sequence = sequence;
    this.passedSequence = sequence;
    this.offsets = offsets.copy();
  }

  /** A record, or a filler, is the next one. */
  void pass(Entry entry) {
    passedSequence = entry.sequence;
    passedOrder = entry.order;
    if (!entry.isFiller()) {
      Entry before = since.remove(entry.partition());
      if (before != null && !before.isComplete()) {
        incomplete--;
      }
      since.put(entry.partition(), entry);
      if (!entry.isComplete()) {
        incomplete++;
      }
    }
    move();
  }

  /** The offset of a record turned out to be complete. */
  void completed(Entry entry) {
    if (since.get(entry.partition()) == entry) {
      incomplete--;
      move();
    }
  }

  private void move() {
    if (incomplete > 0) {
      return;
    }
    for (Entry entry : since.values()) {
      offsets.put(entry.partition(), entry.record().sourcePartition(), entry.offset());
    }
    since.clear();
    sequence = passedSequence;
    order = passedOrder;
  }

  /** The last message that passed. */
  long passedSequence() {
    return passedSequence;
  }

  /** Whether it covers all that passed. */
  boolean isWhole() {
    return incomplete == 0;
  }

  long sequence() {
    return sequence;
  }

  long order() {
    return order;
  }

  Cursor cursor(long run, boolean exact, boolean barrier) {
    return new Cursor(sequence, run, order, exact, barrier, offsets);
  }
}
