package io.headrace.kafkaconnect;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The records that are acknowledged, in order, and whose tasks are not told yet: the cursor of no
 * acknowledged position covers them. Of records with equal offsets, the last one says all.
 */
final class Unconfirmed {
  private final Replay replay;
  private final TreeMap<Long, Entry> entries = new TreeMap<>();

  /** The last one of each partition that was not sent, if it is among them. */
  private final Map<String, Entry> unsent = new HashMap<>();

  private long covered;

  Unconfirmed(Replay replay) {
    this.replay = replay;
  }

  void add(Entry entry) {
    if (replay != Replay.QUEUE) {
      Map.Entry<Long, Entry> last = entries.lastEntry();
      if (last != null && last.getValue().isBeside(entry)) {
        entries.remove(last.getKey());
      }
      forgetUnsent(entry);
    }
    entries.put(entry.order, entry);
  }

  /** Of the records of a partition that were not sent, the last one says all. */
  private void forgetUnsent(Entry entry) {
    Entry before =
        entry.content().isEmpty()
            ? unsent.put(entry.partition(), entry)
            : unsent.remove(entry.partition());
    if (before != null) {
      entries.remove(before.order);
    }
  }

  /** The cursor of an acknowledged position covers everything up to a record. */
  void cover(long order) {
    covered = Math.max(covered, order);
  }

  /** The last record that such a cursor covers. */
  long covered() {
    return covered;
  }

  /** Whether a task may be told of a record. */
  boolean isAnyCovered() {
    return !entries.isEmpty() && (replay == Replay.QUEUE || entries.firstKey() <= covered);
  }

  /** Takes the records that their tasks may be told of. */
  List<Entry> takeCovered() {
    List<Entry> found = new ArrayList<>();
    while (isAnyCovered()) {
      Entry entry = entries.pollFirstEntry().getValue();
      unsent.remove(entry.partition(), entry);
      found.add(entry);
    }
    return found;
  }
}
