package io.headrace.kafkaconnect;

import io.headrace.sdk.Header;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/** Transforms records, and converts their keys, values and headers. */
final class Conversion {
  private final Transforms<SourceRecord> transforms;
  private final Converter key;
  private final Converter value;
  private final HeaderConverter headers;
  private final List<String> silent;
  private final BadRecords badRecords;

  /**
   * The conversion of a connector.
   *
   * @param silent beginnings of the topics whose records only move the offset
   */
  Conversion(ConnectorFile file, PluginPath plugins, List<String> silent, BadRecords badRecords) {
    this.transforms = Transforms.of(file, plugins);
    this.key = Converters.ofKeys(file, plugins);
    this.value = Converters.ofValues(file, plugins);
    this.headers = Converters.ofHeaders(file, plugins);
    this.silent = silent;
    this.badRecords = badRecords;
  }

  /**
   * What is sent of a record; empty if it only moves the offset.
   *
   * @throws ConnectException if it is bad, and the policy is to fail
   */
  Optional<Content> of(SourceRecord record) throws IOException {
    if (record.topic() != null && silent.stream().anyMatch(record.topic()::startsWith)) {
      return Optional.empty();
    }
    try {
      return transforms.apply(record).map(this::converted);
    } catch (BadRecordException error) {
      String reason =
          "a record of topic %s with the source offset %s: %s"
              .formatted(record.topic(), record.sourceOffset(), error.getMessage());
      if (!badRecords.takes(BadRecord.of(record), reason)) {
        throw new ConnectException(
            reason + "; correct the property, or set bad_records to skip or dead-letter", error);
      }
      return Optional.empty();
    }
  }

  private Content converted(SourceRecord record) {
    Long time = record.timestamp();
    if (time != null && !Content.isTime(time)) {
      throw new BadRecordException(
          "timestamp", new IllegalArgumentException(time + " ms: want the years 1 to 9999"));
    }
    List<Header> carried = new ArrayList<>();
    if (record.topic() != null) {
      carried.add(new Header(Content.TOPIC, record.topic().getBytes(StandardCharsets.UTF_8)));
    }
    try {
      for (org.apache.kafka.connect.header.Header header : record.headers()) {
        if (!Offsets.isUnicode(header.key())) {
          throw new IllegalArgumentException("the name of a header is no Unicode text");
        }
        byte[] bytes =
            headers.fromConnectHeader(
                record.topic(), header.key(), header.schema(), header.value());
        carried.add(new Header(header.key(), bytes));
      }
    } catch (RuntimeException error) {
      throw new BadRecordException("header.converter", error);
    }
    byte[] keyBytes = bytes("key.converter", key, record.topic(), record.keySchema(), record.key());
    // Connect writes a record without a value as a tombstone, whatever the converter makes of null.
    boolean tombstone = record.value() == null && record.valueSchema() == null;
    byte[] valueBytes =
        tombstone
            ? null
            : bytes("value.converter", value, record.topic(), record.valueSchema(), record.value());
    return new Content(keyBytes, valueBytes, record.timestamp(), carried);
  }

  private static byte[] bytes(
      String property,
      Converter converter,
      String topic,
      org.apache.kafka.connect.data.Schema schema,
      Object data) {
    try {
      return converter.fromConnectData(topic, schema, data);
    } catch (RuntimeException error) {
      throw new BadRecordException(property, error);
    }
  }

  void close() {
    transforms.close();
  }
}
