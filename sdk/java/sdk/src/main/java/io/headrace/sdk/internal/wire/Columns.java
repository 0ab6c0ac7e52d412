package io.headrace.sdk.internal.wire;

import io.headrace.sdk.Header;
import io.headrace.sdk.Message;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Messages of one stream in columns, of which {@link Frames} are cut. Optional columns exist once a
 * message has an entry in them. Filled by one thread, sealed, and then read by another one.
 */
public final class Columns {
  /** The event time that stands for null. */
  public static final long NULL_TIME = Long.MIN_VALUE;

  /** The first microsecond of the year 1, the earliest event time of a source. */
  public static final long MIN_TIME = -62_135_596_800_000_000L;

  /** The last microsecond of the year 9999, the latest event time of a source. */
  public static final long MAX_TIME = 253_402_300_799_999_999L;

  private static final long MICROS_PER_SECOND = 1_000_000;
  private static final int FIRST_ENTRIES = 64;
  private static final int FIRST_BYTES = 4096;

  private int count;
  private long[] sequences = new long[FIRST_ENTRIES];
  private boolean gaps;
  private final BytesColumn values = new BytesColumn(FIRST_ENTRIES, FIRST_BYTES);
  private BytesColumn keys;
  private BytesColumn ids;
  private long[] eventTimes;
  private int eventTimesCount;
  private HeadersColumn headers;
  private final List<Cursor> cursors = new ArrayList<>(0);
  private List<Object> tokens;

  /** Where to seek for what follows the message before the index {@code end}. */
  private record Cursor(int end, byte[] bytes) {}

  /**
   * A time in microseconds.
   *
   * @throws ArithmeticException if it does not fit into 64 bits
   */
  public static long micros(Instant time) {
    long seconds = time.getEpochSecond();
    long micros = time.getNano() / 1000;
    if (seconds < 0 && micros > 0) {
      // The seconds alone may be below the range.
      return Math.addExact(
          Math.multiplyExact(seconds + 1, MICROS_PER_SECOND), micros - MICROS_PER_SECOND);
    }
    return Math.addExact(Math.multiplyExact(seconds, MICROS_PER_SECOND), micros);
  }

  /** Adds a message with a key and a value, either of which may be null. */
  public void add(
      long sequence,
      byte[] key,
      int keyOffset,
      int keyLength,
      byte[] value,
      int valueOffset,
      int valueLength) {
    if (count == sequences.length) {
      sequences = Arrays.copyOf(sequences, 2 * count);
    }
    sequences[count] = sequence;
    gaps |= count > 0 && sequence != sequences[count - 1] + 1;
    values.add(value, valueOffset, valueLength);
    if (key != null) {
      if (keys == null) {
        keys = new BytesColumn(sequences.length, FIRST_BYTES);
      }
      keys.pad(count);
      keys.add(key, keyOffset, keyLength);
    }
    count++;
  }

  /** Adds a message with all that it has. */
  public void add(Message message) {
    byte[] key = message.key();
    byte[] value = message.value();
    add(
        message.sequence(),
        key,
        0,
        key == null ? 0 : key.length,
        value,
        0,
        value == null ? 0 : value.length);
    if (message.eventTime() != null) {
      setEventTime(micros(message.eventTime()));
    }
    if (message.id() != null) {
      setId(message.id().getBytes(StandardCharsets.UTF_8));
    }
    for (Header header : message.headers()) {
      addHeader(header.name().getBytes(StandardCharsets.UTF_8), header.value());
    }
  }

  /** Sets the event time of the last message, in microseconds. */
  public void setEventTime(long micros) {
    if (eventTimes == null) {
      eventTimes = new long[sequences.length];
    }
    padEventTimes(count);
    eventTimes[count - 1] = micros;
  }

  /** Sets the id of the last message, in UTF-8. */
  public void setId(byte[] id) {
    if (ids == null) {
      ids = new BytesColumn(sequences.length, FIRST_BYTES);
    }
    ids.pad(count - 1);
    ids.truncate(count - 1);
    ids.add(id, 0, id.length);
  }

  /** Adds a header to the last message; the name is in UTF-8. */
  public void addHeader(byte[] name, byte[] value) {
    if (headers == null) {
      headers = new HeadersColumn();
    }
    headers.add(count - 1, name, value);
  }

  /** Notes where to seek for what follows the last message. */
  public void setCursor(byte[] cursor) {
    removeCursorsFrom(count);
    cursors.add(new Cursor(count, cursor.clone()));
  }

  /** Sets what acknowledges the last message; every message has a token, or none has. */
  public void addToken(Object token) {
    if (tokens == null) {
      tokens = new ArrayList<>();
    }
    tokens.add(token);
  }

  /** Takes the last message away, and its token if it has one. */
  public void removeLast() {
    pad();
    removeCursorsFrom(count);
    count--;
    values.truncate(count);
    if (keys != null) {
      keys.truncate(count);
    }
    if (ids != null) {
      ids.truncate(count);
    }
    if (headers != null) {
      headers.truncate(count);
    }
    eventTimesCount = Math.min(eventTimesCount, count);
    if (tokens != null) {
      tokens.remove(count);
    }
  }

  /** Completes the optional columns up to the last message. */
  public void pad() {
    if (keys != null) {
      keys.pad(count);
    }
    if (ids != null) {
      ids.pad(count);
    }
    if (headers != null) {
      headers.pad(count);
    }
    if (eventTimes != null) {
      padEventTimes(count);
    }
  }

  /** The number of messages. */
  public int count() {
    return count;
  }

  /** About how many bytes a frame of all messages has. */
  public long bytes() {
    long bytes = values.size() + 4L * count;
    bytes += keys == null ? 0 : keys.size() + 4L * count;
    bytes += ids == null ? 0 : ids.size() + 4L * count;
    return headers == null ? bytes : bytes + headers.names().size() + headers.values().size();
  }

  /** The bytes of the last message's content, at least. */
  public long lastBytes() {
    int last = count - 1;
    long bytes = values.bytes(last, count);
    bytes += keys == null || keys.count() < count ? 0 : keys.bytes(last, count);
    bytes += ids == null || ids.count() < count ? 0 : ids.bytes(last, count);
    if (headers != null) {
      headers.pad(count);
      bytes += headers.bytes(last, count);
    }
    byte[] cursor = cursor(last, count);
    return cursor == null ? bytes : bytes + cursor.length;
  }

  /** The sequence of a message. */
  public long sequence(int at) {
    return sequences[at];
  }

  /** What acknowledges a message; null if messages have no tokens. */
  public Object token(int at) {
    return tokens == null ? null : tokens.get(at);
  }

  /** A message by itself, after {@link #pad}. */
  public Message message(int at) {
    long time = eventTimes == null ? NULL_TIME : eventTimes[at];
    byte[] id = ids == null ? null : ids.get(at);
    return new Message(
        sequences[at],
        keys == null ? null : keys.get(at),
        values.get(at),
        time == NULL_TIME ? null : Instant.EPOCH.plus(time, ChronoUnit.MICROS),
        id == null ? null : new String(id, StandardCharsets.UTF_8),
        headers == null ? List.of() : headers.get(at));
  }

  /** The last cursor within a frame; null if there is none. It may be of an earlier message. */
  public byte[] cursor(int start, int stop) {
    for (int at = cursors.size() - 1; at >= 0; at--) {
      Cursor cursor = cursors.get(at);
      if (cursor.end <= stop) {
        return cursor.end > start ? cursor.bytes : null;
      }
    }
    return null;
  }

  /** Whether sequences are missing anywhere. */
  boolean hasGaps() {
    return gaps;
  }

  BytesColumn values() {
    return values;
  }

  BytesColumn keys() {
    return keys;
  }

  BytesColumn ids() {
    return ids;
  }

  long[] eventTimes() {
    return eventTimes;
  }

  HeadersColumn headers() {
    return headers;
  }

  private void padEventTimes(int messages) {
    if (messages > eventTimes.length) {
      eventTimes = Arrays.copyOf(eventTimes, Math.max(messages, 2 * eventTimes.length));
    }
    if (eventTimesCount < messages) {
      Arrays.fill(eventTimes, eventTimesCount, messages, NULL_TIME);
      eventTimesCount = messages;
    }
  }

  private void removeCursorsFrom(int end) {
    while (!cursors.isEmpty() && cursors.get(cursors.size() - 1).end >= end) {
      cursors.remove(cursors.size() - 1);
    }
  }
}
