package io.headrace.kafkaconnect;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Shows by the record that follows whether the offset of a record was complete. Several records may
 * have one offset: a tombstone after a delete, all rows of one COPY, the rows of a query.
 */
final class Successors {
  /** The last record of each partition, with how many have its offset, while it is incomplete. */
  private final Map<String, Last> lasts = new LinkedHashMap<>();

  private final Offsets settled;

  private record Last(Entry entry, int alike) {}

  Successors(Offsets begin) {
    this.settled = begin.copy();
  }

  /** Takes the next record; returns the one before if this shows that its offset was complete. */
  Optional<Entry> follow(Entry entry) {
    Last before = lasts.remove(entry.partition());
    boolean beside = before != null && before.entry.isBeside(entry);
    Optional<Entry> completed = Optional.empty();
    if (before != null && !beside) {
      complete(before.entry);
      completed = Optional.of(before.entry);
    }
    if (entry.isComplete()) {
      settle(entry);
    } else {
      lasts.put(entry.partition(), new Last(entry, beside ? before.alike + 1 : 1));
    }
    return completed;
  }

  /** Takes offsets for complete that nothing has followed since a time of the log's clock. */
  List<Entry> completeOld(long time) {
    List<Entry> old = new ArrayList<>();
    lasts.values().stream()
        .map(Last::entry)
        .filter(entry -> entry.appended - time < 0)
        .forEach(old::add);
    for (Entry entry : old) {
      lasts.remove(entry.partition());
      complete(entry);
    }
    return old;
  }

  /** Whether all offsets before the last record are complete. */
  boolean isWholeBefore(Entry entry) {
    Last last = lasts.get(entry.partition());
    return lasts.size() == (last == null ? 0 : 1) && (last == null || last.alike == 1);
  }

  /**
   * The offsets after which everything follows that is not in the log, or not known to be whole.
   */
  Offsets settled() {
    return settled.copy();
  }

  /** What a connector that begins at {@link #settled} returns again, if it repeats the same. */
  Repeats repeats() {
    Map<String, Repeats.Alike> begun = new HashMap<>();
    lasts.forEach(
        (partition, last) ->
            begun.put(partition, new Repeats.Alike(last.entry.offset(), last.alike)));
    return new Repeats(settled, begun);
  }

  private void complete(Entry entry) {
    entry.complete();
    settle(entry);
  }

  private void settle(Entry entry) {
    settled.put(entry.partition(), entry.record().sourcePartition(), entry.offset());
  }
}
