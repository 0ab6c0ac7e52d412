package io.headrace.kafkaconnect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.connect.errors.DataException;
import org.junit.jupiter.api.Test;

final class CursorTest {
  private static final int MAX_BYTES = 4096;

  @Test
  void everythingThatAnOffsetMayHaveComesBack() {
    Random random = new Random(7);
    for (int round = 0; round < 200; round++) {
      Offsets offsets = new Offsets();
      for (int count = random.nextInt(20); count > 0; count--) {
        Map<String, Object> partition = Map.of("name", "é\"\\ " + random.nextInt(30));
        Map<String, Object> offset = new LinkedHashMap<>();
        offset.put("long", random.nextLong());
        offset.put("text", "\u0000 ü " + random.nextInt());
        offset.put("flag", random.nextBoolean());
        offset.put("nothing", null);
        offsets.put(Offsets.key(partition), partition, offset);
      }
      Cursor cursor =
          new Cursor(random.nextLong(), random.nextLong(), 3, random.nextBoolean(), false, offsets);
      assertEquals(cursor, Cursor.decoded(cursor.encoded(MAX_BYTES)));
    }
  }

  @Test
  void integersComeBackAsLongsAsInConnect() {
    Offsets offsets = new Offsets();
    offsets.put(Offsets.key(Map.of()), null, Map.of("at", 5));
    Offsets back =
        Cursor.decoded(new Cursor(1, 1, 1, true, false, offsets).encoded(MAX_BYTES)).offsets();
    assertEquals(Map.of("at", 5L), back.get(Offsets.key(Map.of())));
  }

  @Test
  void aCursorOfManyPartitionsIsCompressedAndOneOfTooManyNamesTheRemedy() {
    Random random = new Random(8);
    Offsets offsets = new Offsets();
    for (int table = 0; table < 60; table++) {
      put(offsets, table, random);
    }
    Cursor some = new Cursor(1, 1, 1, true, false, offsets);
    assertTrue(some.encoded(MAX_BYTES).length <= MAX_BYTES);
    assertEquals(some, Cursor.decoded(some.fitted(new Cursor.Limits(MAX_BYTES, false))));
    for (int table = 60; table < 2000; table++) {
      put(offsets, table, random);
    }
    Cursor many = new Cursor(1, 1, 1, true, false, offsets);
    Exception error =
        assertThrows(
            IllegalStateException.class, () -> many.fitted(new Cursor.Limits(MAX_BYTES, false)));
    assertTrue(error.getMessage().contains("source partitions: 2000"), error.getMessage());
    assertTrue(error.getMessage().contains("forget_partitions"), error.getMessage());
    Offsets left = Cursor.decoded(many.fitted(new Cursor.Limits(MAX_BYTES, true))).offsets();
    assertEquals(offsets.get(key(1999)), left.get(key(1999)));
  }

  @Test
  void thePartitionsThatChangedLastAreKept() {
    Offsets offsets = new Offsets();
    for (int table : new int[] {1, 2, 1}) {
      put(offsets, table, new Random(9));
    }
    Offsets newest = offsets.newest(1);
    assertEquals(1, newest.size());
    assertTrue(newest.get(key(1)) != null);
  }

  @Test
  void anOffsetThatJsonWouldChangeIsRefused() {
    Map<String, Object> offset = Map.of("bytes", new byte[1]);
    Exception error =
        assertThrows(DataException.class, () -> Recorded.entry(Recorded.record("a", offset, "v")));
    assertTrue(error.getMessage().contains("bytes"), error.getMessage());
  }

  private static void put(Offsets offsets, int table, Random random) {
    Map<String, Object> partition = Map.of("server", "shop", "table", "public.table" + table);
    offsets.put(Offsets.key(partition), partition, Map.of("lsn", random.nextLong()));
  }

  private static String key(int table) {
    return Offsets.key(Map.of("server", "shop", "table", "public.table" + table));
  }
}
