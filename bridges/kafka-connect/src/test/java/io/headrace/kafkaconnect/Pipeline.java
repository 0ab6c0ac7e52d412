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
  /** The most bytes of a cursor. */
  static final int MAX_CURSOR_BYTES = 65_536;

  private static final Place NOWHERE = new Place(-1, Optional.empty(), 0);

  /** The frames that the gateway holds. */
  private final List<Frame> frames = new ArrayList<>();

  private final Random random;
  private Place received = NOWHERE;
  private Place committed = NOWHERE;
  private Optional<Place> planned = Optional.empty();
  private long lastSent = -1;
  private Gathered gathered;

  /** The values of committed messages, in order, without fillers. */
  final List<String> values = new ArrayList<>();

  private record Sent(long sequence, String value) {}

  private record Frame(List<Sent> messages, Optional<byte[]> cursor) {
    long last() {
      return messages.get(messages.size() - 1).sequence;
    }
  }

  /** A position, with how often its cursor has moved without a message. */
  private record Place(long sequence, Optional<byte[]> cursor, long moves) {
    boolean isPast(Place other) {
      return sequence > other.sequence || (sequence == other.sequence && moves > other.moves);
    }

    Optional<Position> position() {
      return sequence < 0
          ? Optional.empty()
          : Optional.of(
              cursor
                  .map(bytes -> Position.of(sequence, bytes))
                  .orElseGet(() -> Position.of(sequence)));
    }
  }

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
    public int maxCursorBytes() {
      return MAX_CURSOR_BYTES;
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
    Gathered taken = gathered;
    gathered = new Gathered();
    if (taken.messages.isEmpty()) {
      taken.cursor.ifPresent(this::move);
      return;
    }
    lastSent = taken.messages.get(taken.messages.size() - 1).sequence;
    List<Sent> fresh =
        taken.messages.stream().filter(one -> one.sequence > received.sequence).toList();
    if (!fresh.isEmpty()) {
      Frame frame = new Frame(fresh, taken.cursor.or(received::cursor));
      frames.add(frame);
      received = new Place(frame.last(), frame.cursor, 0);
    }
  }

  /** A frame without messages moves the cursor of the place that was reached. */
  private void move(byte[] cursor) {
    long place = Math.max(received.sequence, 0);
    if (Math.max(lastSent, 0) != place) {
      return; // of messages that are sent again
    }
    long moves = 0;
    for (Place known : List.of(received, committed, planned.orElse(NOWHERE))) {
      moves = known.sequence == place ? Math.max(moves, known.moves) : moves;
    }
    received = new Place(place, Optional.of(cursor), moves + 1);
  }

  /** The session is lost with what is not sent. */
  void lose() {
    gathered = new Gathered();
    if (committed.sequence == received.sequence) {
      received = committed; // a cursor that is not committed may be of another gateway
    }
    lastSent = received.sequence;
  }

  /** The gateway dies, too: only what is in the checkpoint remains. */
  void die() {
    frames.clear();
    received = committed;
    lose();
  }

  /** Where a session resumes. */
  Optional<Position> received() {
    return received.position();
  }

  /** The place of a message: its cursor is of the last frame that ended at or before it. */
  private Place end(int frame, int message) {
    List<Sent> messages = frames.get(frame).messages;
    if (message == messages.size() - 1) {
      boolean all = frame == frames.size() - 1 && random.nextBoolean();
      return all ? received : new Place(frames.get(frame).last(), frames.get(frame).cursor, 0);
    }
    Optional<byte[]> cursor = frame == 0 ? committed.cursor : frames.get(frame - 1).cursor;
    return new Place(messages.get(message).sequence, cursor, 0);
  }

  /** Plans a micro-batch that ends anywhere in what is received. */
  void plan() {
    if (planned.isPresent()) {
      return;
    }
    if (!frames.isEmpty()) {
      int frame = random.nextInt(frames.size());
      planned = Optional.of(end(frame, random.nextInt(frames.get(frame).messages.size())));
    } else if (received.isPast(committed)) {
      planned = Optional.of(received);
    }
  }

  /** Commits the planned micro-batch if its last message is here; returns its end. */
  Optional<Position> commit() {
    if (planned.isEmpty() || received.sequence < planned.get().sequence) {
      return Optional.empty();
    }
    long last = planned.get().sequence;
    boolean here =
        frames.stream().flatMap(one -> one.messages.stream()).anyMatch(m -> m.sequence == last);
    if (!here && last > Math.max(committed.sequence, 0)) {
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
    committed = planned.get(); // with the cursor of the first attempt, as in Spark's log
    planned = Optional.empty();
    return committed();
  }

  Optional<Position> committed() {
    return committed.position();
  }
}
