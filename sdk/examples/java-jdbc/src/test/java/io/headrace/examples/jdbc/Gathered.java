package io.headrace.examples.jdbc;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.headrace.sdk.Position;
import io.headrace.sdk.source.Attributes;
import io.headrace.sdk.source.Batch;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/** A batch that keeps what is added. */
final class Gathered implements Batch, Attributes {
  final List<Long> sequences = new ArrayList<>();
  final List<String> keys = new ArrayList<>();
  final List<String> values = new ArrayList<>();
  final List<Instant> times = new ArrayList<>();
  final List<Position> positions = new ArrayList<>();
  private final int fullAt;

  Gathered(int fullAt) {
    this.fullAt = fullAt;
  }

  Gathered() {
    this(Integer.MAX_VALUE);
  }

  @Override
  public Attributes add(
      long sequence,
      byte[] key,
      int keyOffset,
      int keyLength,
      byte[] value,
      int valueOffset,
      int valueLength) {
    sequences.add(sequence);
    keys.add(key == null ? null : new String(key, keyOffset, keyLength, UTF_8));
    values.add(value == null ? null : new String(value, valueOffset, valueLength, UTF_8));
    positions.add(Position.of(sequence));
    return this;
  }

  @Override
  public void cursor(byte[] cursor) {
    int last = positions.size() - 1;
    positions.set(last, Position.of(sequences.get(last), cursor));
  }

  @Override
  public int maxCursorBytes() {
    return 65_536;
  }

  @Override
  public boolean isFull() {
    return sequences.size() >= fullAt;
  }

  @Override
  public boolean isEmpty() {
    return sequences.isEmpty();
  }

  @Override
  public Attributes eventTime(Instant time) {
    times.add(time);
    return this;
  }

  @Override
  public Attributes eventTimeMicros(long micros) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Attributes id(String id) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Attributes header(String name, byte[] value) {
    throw new UnsupportedOperationException();
  }
}
