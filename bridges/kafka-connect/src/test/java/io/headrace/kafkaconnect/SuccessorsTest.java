package io.headrace.kafkaconnect;

import static io.headrace.kafkaconnect.Recorded.entry;
import static io.headrace.kafkaconnect.Recorded.record;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

final class SuccessorsTest {
  private static final int MAX_BYTES = 4096;

  private final Successors successors = new Successors(new Offsets());
  private final String key = Offsets.key(Map.of("table", "a"));

  @Test
  void anOffsetIsCompleteOnceAnotherOneOfItsPartitionFollows() {
    Entry delete = entry(record("a", 1, "delete"));
    Entry tombstone = entry(record("a", 1, "tombstone"));
    Entry next = entry(record("a", 2, "insert"));
    assertEquals(Optional.empty(), successors.follow(delete));
    assertEquals(Optional.empty(), successors.follow(entry(record("b", 9, "of another table"))));
    assertEquals(Optional.empty(), successors.follow(tombstone));
    assertNull(successors.settled().get(key));
    assertEquals(Optional.of(tombstone), successors.follow(next));
    assertFalse(delete.isComplete());
    assertTrue(tombstone.isComplete());
    assertEquals(Map.of("at", 1L), successors.settled().get(key));
  }

  @Test
  void anOffsetThatNothingFollowsForLongIsComplete() {
    Entry last = entry(record("a", 1, "last"));
    last.appended = 100;
    successors.follow(last);
    assertEquals(List.of(), successors.completeOld(100));
    assertEquals(List.of(last), successors.completeOld(101));
    assertEquals(List.of(), successors.completeOld(1000));
    assertEquals(Map.of("at", 1L), successors.settled().get(key));
  }

  @Test
  void aRecordWithoutAnOffsetForgetsItsPartition() {
    successors.follow(entry(record("a", 1, "first")));
    successors.follow(entry(record("a", 2, "second")));
    successors.follow(entry(record("a", null, "the end of the file")));
    assertNull(successors.settled().get(key));
  }

  @Test
  void whatATaskReturnsAgainIsLeftOutAsOftenAsItIsInTheLog() {
    successors.follow(entry(record("a", 1, "one")));
    successors.follow(entry(record("a", 2, "two")));
    successors.follow(entry(record("a", 2, "beside it")));
    Repeats repeats = successors.repeats();
    assertTrue(repeats.isNext(key, Map.of("at", 1L)));
    assertTrue(repeats.isNext(key, Map.of("at", 2L)));
    assertTrue(repeats.isNext(key, Map.of("at", 2L)));
    assertFalse(repeats.isNext(key, Map.of("at", 2L)));
    assertFalse(repeats.isNext(key, Map.of("at", 1L)));
  }

  @Test
  void whatATaskReturnsAgainIsKnownAlsoByAnOffsetThatWasInACursor() {
    Map<String, Object> offset = Map.of("at", 1, "of", 2.5f, "file", "x");
    Offsets offsets = new Offsets();
    offsets.put(key, null, offset);
    Cursor cursor = Cursor.decoded(new Cursor(1, 1, 1, true, false, offsets).encoded(MAX_BYTES));
    assertEquals(1, cursor.offsets().size());
    cursor.offsets().forEach((partition, at) -> offsets.put(key, Map.of(), at.offset()));
    Repeats repeats = new Repeats(offsets, Map.of());
    assertTrue(repeats.isNext(key, offset));
    assertFalse(repeats.isNext(key, Map.of("at", 2, "of", 2.5f, "file", "x")));
  }
}
