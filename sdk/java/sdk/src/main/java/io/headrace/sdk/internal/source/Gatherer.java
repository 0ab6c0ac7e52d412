package io.headrace.sdk.internal.source;

import io.headrace.sdk.ConnectorFailedException;
import io.headrace.sdk.HeadraceException;
import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Message;
import io.headrace.sdk.internal.wire.Columns;
import io.headrace.sdk.internal.wire.Frames;
import io.headrace.sdk.source.Attributes;
import io.headrace.sdk.source.Batch;
import io.headrace.sdk.source.Unsendable;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;

/** Gathers the messages of one reader in columns, and checks each. Used by the reader's thread. */
final class Gatherer implements Batch, Attributes {
  /** Reading on regardless of {@link #isFull} is an error of the source. */
  private static final long MAX_BYTES = 256L << 20;

  /** More than a frame of one message needs besides the message. */
  private static final int FRAME_MARGIN = 256;

  private final StreamLimits limits;
  private final Rejection rejection;
  private Columns columns = new Columns();
  private byte[] cursor;
  private boolean unchecked;
  private long lastSequence = -1;

  /** What to do with a message that is above the gateway's limit. */
  interface Rejection {
    Unsendable decide(Object token, Message message, InvalidMessageException error)
        throws Exception;
  }

  Gatherer(StreamLimits limits, Rejection rejection) {
    this.limits = limits;
    this.rejection = rejection;
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
    if (unchecked) {
      checkLast();
    }
    if (sequence <= lastSequence) {
      throw new InvalidMessageException(
          sequence < 0
              ? "stream %s: message %d: a sequence is from 0 to 2^63 - 1"
                  .formatted(limits.stream(), sequence)
              : "stream %s: message %d follows message %d: sequences must increase"
                  .formatted(limits.stream(), sequence, lastSequence));
    }
    if (columns.bytes() > MAX_BYTES) {
      throw new InvalidMessageException(
          "stream %s: more than %d bytes in one batch: return from read() when isFull()"
              .formatted(limits.stream(), MAX_BYTES));
    }
    columns.add(sequence, key, keyOffset, keyLength, value, valueOffset, valueLength);
    lastSequence = sequence;
    unchecked = true;
    cursor = null;
    return this;
  }

  @Override
  public Attributes eventTime(Instant time) {
    try {
      return eventTimeMicros(Columns.micros(time));
    } catch (ArithmeticException error) {
      throw outside(time.toString());
    }
  }

  @Override
  public Attributes eventTimeMicros(long micros) {
    if (micros < Columns.MIN_TIME || micros > Columns.MAX_TIME) {
      throw outside(micros + " microseconds");
    }
    requireMessage();
    columns.setEventTime(micros);
    return this;
  }

  @Override
  public Attributes id(String id) {
    requireMessage();
    columns.setId(utf8("id", id));
    return this;
  }

  @Override
  public Attributes header(String name, byte[] value) {
    requireMessage();
    columns.addHeader(utf8("header name", name), value);
    return this;
  }

  @Override
  public void cursor(byte[] moved) {
    if (moved.length > limits.maxCursorBytes()) {
      throw new InvalidMessageException(
          "stream %s: the cursor after message %d has %d bytes: the gateway takes at most %d"
              .formatted(
                  limits.stream(),
                  Math.max(0, lastSequence),
                  moved.length,
                  limits.maxCursorBytes()));
    }
    if (columns.count() > 0) {
      columns.setCursor(moved);
      unchecked = true;
      return;
    }
    cursor = moved.clone();
    // A message with the sequence of the place where it stands would go backwards.
    lastSequence = Math.max(0, lastSequence);
  }

  @Override
  public int maxCursorBytes() {
    return limits.maxCursorBytes();
  }

  /** Takes a cursor that stands after what was taken before it; null if there is none. */
  byte[] takeCursor() {
    byte[] taken = cursor;
    cursor = null;
    return taken;
  }

  void token(Object token) {
    columns.addToken(token);
  }

  @Override
  public boolean isFull() {
    return columns.count() >= limits.targetMessages() || columns.bytes() >= limits.targetBytes();
  }

  @Override
  public boolean isEmpty() {
    return columns.count() == 0;
  }

  /** Looks at the last message: nothing more is set of it. */
  void checkLast() {
    unchecked = false;
    if (columns.lastBytes() + FRAME_MARGIN <= limits.maxFrameBytes()) {
      return;
    }
    columns.pad();
    int last = columns.count() - 1;
    long size = Frames.size(columns, limits.streamId(), last, last + 1);
    if (size > limits.maxFrameBytes()) {
      reject(last, size);
    }
  }

  /** Takes what was gathered; null if there is nothing. */
  Columns take() {
    if (unchecked) {
      checkLast();
    }
    if (columns.count() == 0) {
      return null;
    }
    Columns taken = columns;
    taken.pad();
    columns = new Columns();
    return taken;
  }

  private void reject(int last, long size) {
    Message message = columns.message(last);
    Object token = columns.token(last);
    columns.removeLast();
    InvalidMessageException error =
        new InvalidMessageException(
            "stream %s: message %d makes a frame of %d bytes, and the gateway takes at most %d: raise its limit or skip the message"
                .formatted(limits.stream(), message.sequence(), size, limits.maxFrameBytes()));
    Unsendable decision;
    try {
      decision = rejection.decide(token, message, error);
    } catch (HeadraceException failure) {
      throw failure;
    } catch (Exception failure) {
      throw new ConnectorFailedException(
          "stream %s: unsendable() threw %s".formatted(limits.stream(), failure), failure);
    }
    if (decision != Unsendable.SKIP) {
      throw error;
    }
  }

  /** Throws if there is no message whose attributes could be set. */
  void requireMessage() {
    if (!unchecked) {
      throw new InvalidMessageException(
          "stream %s: there is no message whose attributes could be set: add it first"
              .formatted(limits.stream()));
    }
  }

  private InvalidMessageException outside(String time) {
    return invalid("its event time " + time + " is not within the years 1 to 9999");
  }

  private InvalidMessageException invalid(String problem) {
    return new InvalidMessageException(
        "stream %s: message %d: %s".formatted(limits.stream(), lastSequence, problem));
  }

  private byte[] utf8(String what, String text) {
    try {
      ByteBuffer bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
      byte[] encoded = new byte[bytes.remaining()];
      bytes.get(encoded);
      return encoded;
    } catch (CharacterCodingException error) {
      throw invalid("its %s is not valid Unicode".formatted(what));
    }
  }
}
