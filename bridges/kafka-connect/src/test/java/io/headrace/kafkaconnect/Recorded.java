package io.headrace.kafkaconnect;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.connect.source.SourceRecord;

/** Records for tests. */
final class Recorded {
  private Recorded() {}

  static SourceRecord record(String partition, Map<String, ?> offset, String value) {
    Map<String, ?> named = partition == null ? null : Map.of("table", partition);
    return new SourceRecord(named, offset, "topic", null, null, null, value);
  }

  static SourceRecord record(String partition, long offset, String value) {
    return record(partition, Map.of("at", offset), value);
  }

  static Entry entry(SourceRecord record) {
    byte[] value = record.value().toString().getBytes(StandardCharsets.UTF_8);
    return Entry.of("task", record, Optional.of(new Content(null, value, null, List.of())));
  }

  /** What a transform has dropped. */
  static Entry dropped(SourceRecord record) {
    return Entry.of("task", record, Optional.empty());
  }
}
