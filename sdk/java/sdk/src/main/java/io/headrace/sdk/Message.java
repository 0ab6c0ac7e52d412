package io.headrace.sdk;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * One message. The arrays are not copied: do not change them.
 *
 * @param sequence its sequence in its stream; for a sink, its place in its part, counted from 0
 * @param key the key, or null
 * @param value the value, or null
 * @param eventTime when it happened, to the microsecond, or null
 * @param id the id that its source gave it, or null
 * @param headers the headers, in order
 */
public record Message(
    long sequence,
    byte @Nullable [] key,
    byte @Nullable [] value,
    @Nullable Instant eventTime,
    @Nullable String id,
    List<Header> headers) {

  /**
   * Copies the list of headers.
   *
   * @param sequence its sequence in its stream; for a sink, its place in its part, counted from 0
   * @param key the key, or null
   * @param value the value, or null
   * @param eventTime when it happened, to the microsecond, or null
   * @param id the id that its source gave it, or null
   * @param headers the headers, in order
   */
  public Message(
      long sequence,
      byte @Nullable [] key,
      byte @Nullable [] value,
      @Nullable Instant eventTime,
      @Nullable String id,
      List<Header> headers) {
    this.sequence = sequence;
    this.key = key;
    this.value = value;
    this.eventTime = eventTime;
    this.id = id;
    this.headers = List.copyOf(headers);
  }

  /**
   * A message with only a value.
   *
   * @param sequence the sequence
   * @param value the value, or null
   */
  public Message(long sequence, byte @Nullable [] value) {
    this(sequence, null, value, null, null, List.of());
  }

  /**
   * A message with a key and a value.
   *
   * @param sequence the sequence
   * @param key the key, or null
   * @param value the value, or null
   */
  public Message(long sequence, byte @Nullable [] key, byte @Nullable [] value) {
    this(sequence, key, value, null, null, List.of());
  }

  /**
   * The value as text.
   *
   * @return the value, decoded as UTF-8; null if there is none
   */
  public @Nullable String valueAsString() {
    return value == null ? null : new String(value, StandardCharsets.UTF_8);
  }

  /**
   * The key as text.
   *
   * @return the key, decoded as UTF-8; null if there is none
   */
  public @Nullable String keyAsString() {
    return key == null ? null : new String(key, StandardCharsets.UTF_8);
  }

  @Override
  public boolean equals(@Nullable Object other) {
    return other instanceof Message that
        && sequence == that.sequence
        && Arrays.equals(key, that.key)
        && Arrays.equals(value, that.value)
        && Objects.equals(eventTime, that.eventTime)
        && Objects.equals(id, that.id)
        && headers.equals(that.headers);
  }

  @Override
  public int hashCode() {
    return Objects.hash(
        sequence, Arrays.hashCode(key), Arrays.hashCode(value), eventTime, id, headers);
  }

  @Override
  public String toString() {
    return "message "
        + sequence
        + (key == null ? "" : ", key of " + Header.size(key))
        + (value == null ? ", no value" : ", value of " + Header.size(value))
        + (id == null ? "" : ", id " + id);
  }
}
