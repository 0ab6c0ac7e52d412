package io.headrace.kafkaconnect;

import java.util.HashMap;
import java.util.Map;

/**
 * The records that a connector returns although the log keeps them. Some connectors return the
 * records of the offset once more after which they resume. A connector that stopped within an
 * offset returns all records of that offset. The bridge leaves them out if the connector always
 * returns the same.
 */
final class Repeats {
  private final Map<String, String> resumed = new HashMap<>();
  private final Map<String, Alike> begun;

  /** The first records of an offset. */
  record Alike(Map<String, ?> offset, int records) {}

  Repeats(Offsets resumed, Map<String, Alike> begun) {
    resumed.forEach((key, offset) -> this.resumed.put(key, Offsets.spelled(offset.offset())));
    this.begun = new HashMap<>(begun);
  }

  static Repeats none() {
    return new Repeats(new Offsets(), Map.of());
  }

  /** Whether the next record of a partition is one of them. */
  boolean isNext(String partition, Map<String, ?> offset) {
    if (offset == null || Entry.isOfSnapshot(offset)) {
      return false; // a snapshot begins again, in any order
    }
    if (!resumed.containsKey(partition) && !begun.containsKey(partition)) {
      return false;
    }
    // An offset that was in a cursor has other types of numbers.
    String spelled = Offsets.spelled(offset);
    if (spelled.equals(resumed.get(partition))) {
      return true;
    }
    resumed.remove(partition);
    Alike alike = begun.remove(partition);
    if (alike == null || !spelled.equals(Offsets.spelled(alike.offset))) {
      return false;
    }
    if (alike.records > 1) {
      begun.put(partition, new Alike(alike.offset, alike.records - 1));
    }
    return true;
  }
}
