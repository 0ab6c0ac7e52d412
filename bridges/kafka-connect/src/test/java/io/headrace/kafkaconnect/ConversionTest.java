package io.headrace.kafkaconnect;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.sdk.Header;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.source.SourceRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class ConversionTest {
  private static final PluginPath BRIDGE = PluginPath.of(List.of());
  private static final String STRING = "org.apache.kafka.connect.storage.StringConverter";
  private static final String KAFKA = "org.apache.kafka.connect.transforms.";

  private static final Schema ROW =
      SchemaBuilder.struct().field("id", Schema.INT64_SCHEMA).field("name", Schema.STRING_SCHEMA);

  private final Map<String, String> properties = new HashMap<>();
  private BadRecords badRecords =
      new BadRecords(BadRecords.Policy.FAIL, Optional.empty(), Secrets.NONE);
  private List<String> silent = List.of();

  private Conversion conversion() {
    return new Conversion(ConnectorFile.of(properties, BRIDGE), BRIDGE, silent, badRecords);
  }

  private static SourceRecord row(long id, String name) {
    Struct value = new Struct(ROW).put("id", id).put("name", name);
    return new SourceRecord(
        Map.of(), Map.of("at", id), "rows", null, Schema.INT64_SCHEMA, id, ROW, value, 1234L);
  }

  private static String text(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }

  @Test
  void jsonCarriesItsSchemaUnlessThatIsSwitchedOff() throws Exception {
    assertTrue(text(conversion().of(row(1, "a")).get().value()).startsWith("{\"schema\":"));
    properties.put("value.converter.schemas.enable", "false");
    properties.put("key.converter", STRING);
    Content content = conversion().of(row(1, "a")).get();
    assertEquals("{\"id\":1,\"name\":\"a\"}", text(content.value()));
    assertEquals("1", text(content.key()));
    assertEquals(1234L, content.timestamp());
    Header topic = new Header("connect.topic", "rows".getBytes(StandardCharsets.UTF_8));
    assertEquals(List.of(topic), content.headers());
  }

  @Test
  void bytesPassAsTheyAreAndATombstoneHasNoValue() throws Exception {
    properties.put("value.converter", "org.apache.kafka.connect.converters.ByteArrayConverter");
    byte[] bytes = {0, -1, 7};
    SourceRecord record =
        new SourceRecord(Map.of(), Map.of("at", 1), "t", Schema.BYTES_SCHEMA, bytes);
    assertArrayEquals(bytes, conversion().of(record).get().value());
    SourceRecord tombstone = new SourceRecord(Map.of(), Map.of("at", 1), "t", null, null);
    properties.remove("value.converter");
    assertNull(conversion().of(tombstone).get().value());
  }

  @Test
  void headersAreConverted() throws Exception {
    SourceRecord record = row(1, "a");
    record.headers().addLong("attempt", 7).addString("trace", "x");
    List<Header> headers = conversion().of(record).get().headers();
    assertEquals(
        List.of("connect.topic", "attempt", "trace"), headers.stream().map(Header::name).toList());
    assertEquals("7", text(headers.get(1).value()));
  }

  @Test
  void aTransformIsAppliedWhereItsPredicateHoldsOrDoesNot() throws Exception {
    properties.putAll(
        Map.of(
            "transforms", "drop, to",
            "transforms.drop.type", KAFKA + "Filter",
            "transforms.drop.predicate", "empty",
            "transforms.to.type", KAFKA + "RegexRouter",
            "transforms.to.regex", "(.*)",
            "transforms.to.replacement", "shop.$1",
            "transforms.to.predicate", "logs",
            "transforms.to.negate", "true"));
    properties.putAll(
        Map.of(
            "predicates",
            "empty, logs",
            "predicates.empty.type",
            KAFKA + "predicates.RecordIsTombstone",
            "predicates.logs.type",
            KAFKA + "predicates.TopicNameMatches",
            "predicates.logs.pattern",
            "log.*"));
    Conversion conversion = conversion();
    assertEquals(
        Optional.empty(),
        conversion.of(row(1, "a").newRecord("rows", null, null, 1L, null, null, 1L)));
    assertEquals("shop.rows", topic(conversion.of(row(1, "a"))));
    SourceRecord log = row(1, "a").newRecord("logs", null, null, 1L, ROW, row(1, "a").value(), 1L);
    assertEquals("logs", topic(conversion.of(log)));
  }

  private static String topic(Optional<Content> content) {
    return text(content.get().headers().get(0).value());
  }

  @Test
  void aPredicateThatDoesNotExistIsNamedWithItsProperty() {
    properties.putAll(
        Map.of(
            "transforms", "drop",
            "transforms.drop.type", KAFKA + "Filter",
            "transforms.drop.predicate", "nowhere"));
    Exception error = assertThrows(ConfigException.class, this::conversion);
    assertTrue(error.getMessage().contains("transforms.drop.predicate"), error.getMessage());
    assertTrue(error.getMessage().contains("nowhere"), error.getMessage());
  }

  @Test
  void aTopicThatOnlyMovesTheOffsetIsNotSent() throws Exception {
    silent = List.of("__heartbeat");
    SourceRecord beat = row(1, "a").newRecord("__heartbeat.shop", null, null, null, null, null, 1L);
    assertEquals(Optional.empty(), conversion().of(beat));
  }

  @Test
  void aBadRecordFailsWithItsPropertyOrBecomesADeadLetter(@TempDir Path folder) throws Exception {
    properties.put("value.converter", "org.apache.kafka.connect.converters.ByteArrayConverter");
    Exception error = assertThrows(ConnectException.class, () -> conversion().of(row(1, "a")));
    assertTrue(error.getMessage().contains("value.converter"), error.getMessage());
    assertTrue(error.getMessage().contains("topic rows"), error.getMessage());
    assertTrue(error.getMessage().contains("bad_records"), error.getMessage());
    DeadLetters letters = new DeadLetters(folder, "orders");
    badRecords = new BadRecords(BadRecords.Policy.DEAD_LETTER, Optional.of(letters), Secrets.NONE);
    assertEquals(Optional.empty(), conversion().of(row(1, "ä")));
    assertEquals(Optional.empty(), conversion().of(row(2, "b")));
    List<Path> files;
    try (Stream<Path> found = Files.list(folder)) {
      files = found.toList();
    }
    assertEquals(1, files.size());
    List<String> lines = Files.readAllLines(files.get(0));
    assertEquals(2, lines.size());
    assertTrue(lines.get(0).contains("\"value\":\"Struct{id=1,name=ä}\""), lines.get(0));
    assertTrue(lines.get(0).contains("headrace-reason"), lines.get(0));
    Files.delete(files.get(0));
    letters.write(BadRecord.of(row(3, "c")), "after the file was discarded");
    try (Stream<Path> found = Files.list(folder)) {
      assertEquals(1, found.count());
    }
  }

  @Test
  void aTimestampThatNoMessageCanHaveIsBad() {
    SourceRecord record = row(1, "a").newRecord("t", null, null, null, null, null, Long.MAX_VALUE);
    Exception error = assertThrows(ConnectException.class, () -> conversion().of(record));
    assertTrue(error.getMessage().contains("timestamp"), error.getMessage());
  }

  @Test
  void anOffsetThatACursorWouldNotGiveBackIsRefusedWithItsRecord() {
    for (Object value : List.of(BigDecimal.ONE, Double.NaN, "\ud800", List.of())) {
      SourceRecord record = Recorded.record("a", Map.of("at", value), "value");
      Exception error = assertThrows(DataException.class, () -> Recorded.entry(record));
      assertTrue(error.getMessage().contains("offset"), error.getMessage());
    }
    for (Object value : List.of((byte) 1, 1.5f, -2.5, "ä", true)) {
      assertFalse(Recorded.entry(Recorded.record("a", Map.of("at", value), "v")).isComplete());
    }
  }

  @Test
  void aHeaderWhoseNameIsNoTextIsBad() {
    SourceRecord record = row(1, "a");
    record.headers().addString("\ud800", "x");
    Exception error = assertThrows(ConnectException.class, () -> conversion().of(record));
    assertTrue(error.getMessage().contains("header.converter"), error.getMessage());
  }

  @Test
  void aDeadLetterHasTheBytesOfABufferAndNoTimeThatNoMessageCanHave() {
    ByteBuffer buffer = ByteBuffer.wrap(new byte[] {0, -1, 7}, 1, 2);
    SourceRecord record =
        new SourceRecord(
            Map.of(), Map.of("at", 1), "t", null, null, null, null, buffer, Long.MAX_VALUE);
    BadRecord bad = BadRecord.of(record);
    assertArrayEquals(new byte[] {-1, 7}, bad.value());
    assertNull(bad.micros());
  }
}
