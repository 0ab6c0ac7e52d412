package io.headrace.kafkaconnect;

import io.headrace.sdk.Header;
import io.headrace.sdk.Message;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import org.apache.kafka.connect.connector.ConnectRecord;

/** What is left of a record that is bad. */
public record BadRecord(byte[] key, byte[] value, Long micros, List<Header> headers) {
  /** A message, as it is. */
  public static BadRecord of(Message message) {
    Instant time = message.eventTime();
    Long micros = time == null ? null : ChronoUnit.MICROS.between(Instant.EPOCH, time);
    return new BadRecord(message.key(), message.value(), micros, message.headers());
  }

  /** A record that has no bytes, as it could not be converted: as it prints itself. */
  public static BadRecord of(ConnectRecord<?> record) {
    Long time = record.timestamp();
    Long micros = time != null && Content.isTime(time) ? (Long) (1000 * time) : null;
    byte[] topic = bytes(record.topic());
    List<Header> headers = List.of(new Header(Content.TOPIC, topic));
    return new BadRecord(bytes(record.key()), bytes(record.value()), micros, headers);
  }

  private static byte[] bytes(Object value) {
    if (value instanceof ByteBuffer buffer) {
      byte[] raw = new byte[buffer.remaining()];
      buffer.duplicate().get(raw);
      return raw;
    }
    return value == null
        ? null
        : value instanceof byte[] raw ? raw : value.toString().getBytes(StandardCharsets.UTF_8);
  }
}
