package io.headrace.kafkaconnect;

import io.headrace.sdk.Header;
import java.util.List;

/**
 * What is sent of a record.
 *
 * @param key the converted key, or null
 * @param value the converted value; null for a tombstone
 * @param timestamp milliseconds since 1970, or null
 * @param headers its headers, and the topic
 */
record Content(byte[] key, byte[] value, Long timestamp, List<Header> headers) {
  /** The header with the topic of a record. */
  static final String TOPIC = "connect.topic";

  /** The header of a message that only fills a micro-batch. */
  static final String FILLER = "connect.marker";

  /** The years 1 to 9999, in milliseconds since 1970. */
  private static final long FIRST_MILLI = -62_135_596_800_000L;

  private static final long LAST_MILLI = 253_402_300_799_999L;

  /** Whether a message may have this event time. */
  static boolean isTime(long millis) {
    return millis >= FIRST_MILLI && millis <= LAST_MILLI;
  }

  static Content filler() {
    return new Content(null, null, null, List.of(new Header(FILLER, null)));
  }

  long bytes() {
    long sum = 0;
    for (byte[] part : new byte[][] {key, value}) {
      sum += part == null ? 0 : part.length;
    }
    for (Header header : headers) {
      sum += header.name().length() + (header.value() == null ? 0 : header.value().length);
    }
    return sum;
  }
}
