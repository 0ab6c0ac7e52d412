package io.headrace.kafkaconnect;

import java.util.ArrayList;
import java.util.List;

/** Entries whose sequences have no gaps. */
final class Ring {
  private Entry[] entries = new Entry[1024];
  private long first;
  private long next;

  Ring(long first) {
    this.first = first;
    this.next = first;
  }

  /** The sequence of the first entry. */
  long first() {
    return first;
  }

  /** The sequence of the entry that is added next. */
  long next() {
    return next;
  }

  boolean isEmpty() {
    return first == next;
  }

  void add(Entry entry) {
    if (next - first == entries.length) {
      Entry[] larger = new Entry[2 * entries.length];
      for (long at = first; at < next; at++) {
        larger[(int) (at % larger.length)] = get(at);
      }
      entries = larger;
    }
    entries[(int) (next % entries.length)] = entry;
    next++;
  }

  Entry get(long sequence) {
    return entries[(int) (sequence % entries.length)];
  }

  Entry removeFirst() {
    Entry entry = get(first);
    entries[(int) (first % entries.length)] = null;
    first++;
    return entry;
  }

  /** Up to so many entries after a sequence. */
  List<Entry> after(long sequence, int most) {
    List<Entry> found = new ArrayList<>();
    for (long at = Math.max(sequence + 1, first); at < next && found.size() < most; at++) {
      found.add(get(at));
    }
    return found;
  }
}
