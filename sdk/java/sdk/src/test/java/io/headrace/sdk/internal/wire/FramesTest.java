package io.headrace.sdk.internal.wire;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.protocol.v1.Frame;
import io.headrace.sdk.Header;
import io.headrace.sdk.Message;
import java.time.Instant;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class FramesTest {
  @Test
  void theFrameOfTheDocumentationHasItsBytes() {
    Columns columns = new Columns();
    add(columns, 41, "a", "hello");
    add(columns, 42, null, "");
    add(columns, 45, "bb", "hi");
    columns.setCursor("45".getBytes(UTF_8));
    columns.pad();
    String expected =
        "08011029180322080100000003000000"
            + "2a03616262320c01000000ffffffff02000000"
            + "3a0768656c6c6f6869420c050000000000000002000000"
            + "8a01023435";
    assertEquals(expected, HexFormat.of().formatHex(Frames.frame(columns, 1, 0, 3).toByteArray()));
    assertEquals(63, Frames.size(columns, 1, 0, 3));
  }

  @Test
  void theSizeOfAFrameIsComputedExactly() {
    Random random = new Random(1);
    for (int round = 0; round < 300; round++) {
      Columns columns = randomColumns(random, 1 + random.nextInt(40));
      for (int start = 0; start < columns.count(); start++) {
        int stop = start + 1 + random.nextInt(columns.count() - start);
        int id = random.nextInt(1000);
        Frame frame = Frames.frame(columns, id, start, stop);
        assertEquals(frame.getSerializedSize(), Frames.size(columns, id, start, stop));
      }
    }
  }

  @Test
  void aFrameIsTheLargestThatFits() {
    Random random = new Random(2);
    for (int round = 0; round < 100; round++) {
      Columns columns = new Columns();
      for (int at = 0; at < 50; at++) {
        byte[] value = new byte[random.nextInt(100)];
        columns.add(at + 1, null, 0, 0, value, 0, value.length);
      }
      columns.pad();
      int limit = 20 + random.nextInt(3000);
      int start = random.nextInt(50);
      int stop = Frames.fit(columns, 7, start, limit, 40);
      assertTrue(stop == start || Frames.size(columns, 7, start, stop) <= limit);
      assertTrue(stop - start <= 40);
      assertTrue(
          stop == 50 || stop - start == 40 || Frames.size(columns, 7, start, stop + 1) > limit);
    }
  }

  @Test
  void aDistanceAboveFourBytesBeginsANewFrame() {
    Columns columns = new Columns();
    add(columns, 1, null, "a");
    add(columns, 0x1_0000_0000L, null, "b");
    add(columns, 0x2_0000_0001L, null, "c");
    columns.pad();
    assertEquals(2, Frames.fit(columns, 1, 0, 1000, 1000));
    assertEquals(3, Frames.fit(columns, 1, 2, 1000, 1000));
  }

  @Test
  void aCursorGoesWithTheFrameThatEndsAtOrAfterItsMessage() {
    Columns columns = new Columns();
    for (int at = 1; at <= 4; at++) {
      add(columns, at, null, "x");
      if (at == 2) {
        columns.setCursor("after 2".getBytes(UTF_8));
      }
    }
    columns.pad();
    assertTrue(!Frames.frame(columns, 1, 0, 1).hasCursor());
    assertEquals("after 2", Frames.frame(columns, 1, 0, 3).getCursor().toStringUtf8());
    assertTrue(!Frames.frame(columns, 1, 2, 4).hasCursor());
  }

  @Test
  void aMessageThatIsTakenAwayLeavesNoTrace() {
    Columns columns = new Columns();
    add(columns, 1, "k", "v");
    columns.pad();
    byte[] before = Frames.frame(columns, 1, 0, 1).toByteArray();
    add(columns, 2, "key", "value");
    columns.setCursor(new byte[3]);
    columns.removeLast();
    columns.pad();
    assertEquals(1, columns.count());
    assertEquals(
        HexFormat.of().formatHex(before),
        HexFormat.of().formatHex(Frames.frame(columns, 1, 0, 1).toByteArray()));
  }

  @Test
  void aMessageIsReadBackAsItWasAdded() {
    Columns columns = new Columns();
    add(columns, 1, "k", "v");
    add(columns, 2, null, null);
    columns.setId("id".getBytes(UTF_8));
    columns.setEventTime(5);
    columns.addHeader("h".getBytes(UTF_8), null);
    columns.pad();
    assertEquals("id", columns.message(1).id());
    assertEquals(Instant.ofEpochSecond(0, 5000), columns.message(1).eventTime());
    assertEquals(List.of(new Header("h", null)), columns.message(1).headers());
    assertEquals(null, columns.message(0).id());
    assertEquals(List.of(), columns.message(0).headers());
  }

  private static Columns randomColumns(Random random, int count) {
    Columns columns = new Columns();
    long sequence = random.nextInt(3);
    for (int at = 0; at < count; at++) {
      byte[] key = random.nextBoolean() ? null : new byte[random.nextInt(20)];
      byte[] value = random.nextInt(4) == 0 ? null : new byte[random.nextInt(300)];
      columns.add(
          sequence,
          key,
          0,
          key == null ? 0 : key.length,
          value,
          0,
          value == null ? 0 : value.length);
      sequence += 1 + (random.nextInt(5) == 0 ? random.nextInt(1000) : 0);
      if (random.nextInt(5) == 0) {
        columns.setEventTime(random.nextLong());
      }
      if (random.nextInt(5) == 0) {
        columns.setId(new byte[random.nextInt(9)]);
      }
      for (int header = random.nextInt(4); header > 2; header--) {
        columns.addHeader(new byte[3], random.nextBoolean() ? null : new byte[random.nextInt(5)]);
      }
      if (random.nextInt(10) == 0) {
        columns.setCursor(new byte[random.nextInt(5)]);
      }
    }
    columns.pad();
    return columns;
  }

  private static void add(Columns columns, long sequence, String key, String value) {
    byte[] keyBytes = key == null ? null : key.getBytes(UTF_8);
    byte[] valueBytes = value == null ? null : value.getBytes(UTF_8);
    columns.add(new Message(sequence, keyBytes, valueBytes));
  }
}
