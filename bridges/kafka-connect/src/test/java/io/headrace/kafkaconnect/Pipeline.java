package io.headrace.kafkaconnect;

import io.headrace.sdk.Position;
import io.headrace.sdk.source.Attributes;
import io.headrace.sdk.source.Batch;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;

/** A gateway and a query, as far as a source can see them. */
final class Pipeline {
  /** The frames that the gateway holds. */
  private final List<Frame> frames = new ArrayList<>();

  private final Random random;
  private Optional<Position> committed = Optional.empty();
  private Optional<Position> planned = Optional.empty();
  private Gathered gathered;
  private boolean hadMarker;

  /** The values of committed messages, in order, without markers. */
  final List<String> values = new ArrayList<>();

  private record Sent(long sequence, String value) {}

  private record Frame(List<Sent> messages, Optional<byte[]> cursor) {}

  Pipeline(Random random) {
    this.random = random;
    this.gathered = new Gathered();
  }

  /** Gathers what is not sent yet. */
  final class Gathered implements Batch, Attributes {
    private final List<Sent> messages = new ArrayList<>();
    private Optional<byte[]> cursor = Optional.empty();
    private final int most = 1 + random.nextInt(20);

    @Override
    public Attributes add(
        long sequence, byte[] key, int keyAt, int keyLength, byte[] value, int at, int length) {
      long last = messages.isEmpty() ? 0 : messages.get(messages.size() - 1).sequence;
      if (sequence <= last) {
        throw new AssertionError("message " + sequence + " follows message " + last);
      }
      String text = value == null ? null : new String(value, at, length, StandardCharsets.UTF_8);
      messages.add(new Sent(sequence, text));
      return this;
    }

    @Override
    public void cursor(byte[] bytes) {
      cursor = Optional.of(bytes);
    }

    @Override
    public boolean isFull() {
      return messages.size() >= most;
    }

    @Override
    public boolean isEmpty() {
      return messages.isEmpty();
    }

    @Override
    public Attributes eventTime(Instant time) {
      return this;
    }

    @Override
    public Attributes eventTimeMicros(long micros) {
      return this;
    }

    @Override
    public Attributes id(String id) {
      return this;
    }

    @Override
    public Attributes header(String name, byte[] value) {
      return this;
    }
  }

  Batch batch() {
    return gathered;
  }

  /** Sends what is gathered as a frame; the gateway drops what it has. */
  void send() {
    long last = received().map(Position::sequence).orElse(0L);
    List<Sent> fresh = gathered.messages.stream().filter(one -> one.sequence > last).toList();
    if (!fresh.isEmpty()) {
      frames.add(new Frame(fresh, gathered.cursor));
    }
    gathered = new Gathered();
  }

  /** The session is lost with what is not sent. */
  void lose() {
    gathered = new Gathered();
  }

  /** The gateway dies, too: only what is in the checkpoint remains. */
  void die() {
    lose();
    frames.clear();
  }

  /** Where a session resumes. */
  Optional<Position> received() {
    return frames.isEmpty() ? committed : Optional.of(end(frames.size() - 1, Integer.MAX_VALUE));
  }

  /** The position of a message: its cursor is of the last frame that ended at or before it. */
  private Position end(int frame, int message) {
    List<Sent> messages = frames.get(frame).messages;
    int last = Math.min(message, messages.size() - 1);
    Optional<byte[]> cursor = committed.flatMap(Position::cursor);
    int whole = last == messages.size() - 1 ? frame : frame - 1;
    for (int at = 0; at <= whole; at++) {
      cursor = frames.get(at).cursor.or(cursorOf(cursor));
    }
    long sequence = messages.get(last).sequence;
    return cursor.map(bytes -> Position.of(sequence, bytes)).orElseGet(() -> Position.of(sequence));
  }

  private static java.util.function.Supplier<Optional<byte[]>> cursorOf(Optional<byte[]> cursor) {
    return () -> cursor;
  }

  /** Plans a micro-batch that ends anywhere in what is received. */
  void plan() {
    if (planned.isPresent() || frames.isEmpty()) {
      return;
    }
    int frame = random.nextInt(frames.size());
    planned = Optional.of(end(frame, random.nextInt(frames.get(frame).messages.size())));
    long last = planned.get().sequence();
    hadMarker =
        frames.stream()
            .flatMap(one -> one.messages.stream())
            .anyMatch(one -> one.sequence <= last && one.value == null);
  }

  /**
   * Whether the planned micro-batch had a marker, and will be another one when it is read again.
   */
  boolean loses() {
    return planned.isPresent() && hadMarker;
  }

  /** Commits the planned micro-batch if its last message is here; returns its end. */
  Optional<Position> commit() {
    if (planned.isEmpty() || frames.isEmpty()) {
      return Optional.empty();
    }
    long last = planned.get().sequence();
    long received = received().orElseThrow().sequence();
    if (received < last) {
      return Optional.empty();
    }
    boolean here =
        frames.stream().flatMap(one -> one.messages.stream()).anyMatch(m -> m.sequence == last);
    if (!here) {
      throw new AssertionError("message " + last + " was planned and is lost");
    }
    List<Frame> left = new ArrayList<>();
    for (Frame frame : frames) {
      List<Sent> later = new ArrayList<>();
      for (Sent message : frame.messages) {
        if (message.sequence > last) {
          later.add(message);
        } else if (message.value != null) {
          values.add(message.value);
        }
      }
      if (!later.isEmpty()) {
        left.add(new Frame(later, frame.cursor));
      }
    }
    frames.clear();
    frames.addAll(left);
    committed = planned; // with the cursor of the first attempt, as in Spark's log
    planned = Optional.empty();
    return committed;
  }

  Optional<Position> committed() {
    return committed;
  }
}
