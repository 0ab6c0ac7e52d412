package io.headrace.kafkaconnect;

import io.headrace.sdk.Header;
import io.headrace.sdk.Message;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.connect.source.SourceRecord;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The policy for records that cannot be transformed, converted or sent, as of all sources. */
final class BadRecords {
  private static final Logger LOG = LoggerFactory.getLogger(BadRecords.class);
  private static final int TELL_EACH = 5;
  private static final int TELL_EVERY = 1000;

  private final Policy policy;
  private final Optional<DeadLetters> letters;
  private long total;

  /** What happens to a record. */
  enum Policy {
    FAIL,
    SKIP,
    DEAD_LETTER
  }

  /** What is left of a record that is bad. */
  record Bad(byte[] key, byte[] value, Long micros, List<Header> headers) {
    static Bad of(Message message) {
      Instant time = message.eventTime();
      Long micros = time == null ? null : ChronoUnit.MICROS.between(Instant.EPOCH, time);
      return new Bad(message.key(), message.value(), micros, message.headers());
    }

    /** A record that has no bytes, as it could not be converted: as it prints itself. */
    static Bad of(SourceRecord record) {
      Long time = record.timestamp();
      Long micros = time != null && Conversion.isTime(time) ? (Long) (1000 * time) : null;
      byte[] topic = bytes(record.topic());
      List<Header> headers = List.of(new Header(Content.TOPIC, topic));
      return new Bad(bytes(record.key()), bytes(record.value()), micros, headers);
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

  BadRecords(Policy policy, Optional<DeadLetters> letters) {
    this.policy = policy;
    this.letters = letters;
  }

  /** Takes a record, to be left out; false if the policy is to fail. */
  synchronized boolean takes(Bad bad, String reason) throws IOException {
    if (policy == Policy.FAIL) {
      return false;
    }
    if (letters.isPresent()) {
      letters.get().write(bad, reason);
    }
    total++;
    if (total <= TELL_EACH || total % TELL_EVERY == 0) {
      String kept = letters.isPresent() ? ", and stored as a dead letter" : "";
      LOG.warn("left out a record{} ({} in total): {}", kept, total, reason);
    }
    return true;
  }

  /** The policy by its name in configuration files. */
  static Policy policy(String name) {
    return switch (name) {
      case "skip" -> Policy.SKIP;
      case "dead-letter" -> Policy.DEAD_LETTER;
      default -> Policy.FAIL;
    };
  }
}
