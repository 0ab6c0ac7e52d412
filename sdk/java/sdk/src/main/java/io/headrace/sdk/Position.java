package io.headrace.sdk;

import java.util.Arrays;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A place in a stream: everything at or before it has been read, and nothing after it.
 *
 * <p>Positions of one stream are ordered by epoch, then by sequence.
 */
public final class Position {
  private final long epoch;
  private final long sequence;
  private final byte @Nullable [] cursor;

  private Position(long epoch, long sequence, byte @Nullable [] cursor) {
    if (sequence < 0) {
      throw new IllegalArgumentException("sequence " + sequence + ": want 0 or more");
    }
    this.epoch = epoch;
    this.sequence = sequence;
    this.cursor = cursor == null ? null : cursor.clone();
  }

  /**
   * The position of a message.
   *
   * @param sequence the sequence of the message, from 0 to 2^63 - 1
   * @return the position, without a cursor
   */
  public static Position of(long sequence) {
    return new Position(0, sequence, null);
  }

  /**
   * The position of a message, with a cursor.
   *
   * @param sequence the sequence of the message, from 0 to 2^63 - 1
   * @param cursor where to seek for what follows, at most 64 KiB, or what the gateway allows
   * @return the position
   */
  public static Position of(long sequence, byte[] cursor) {
    return new Position(0, sequence, Objects.requireNonNull(cursor, "cursor"));
  }

  /**
   * A position as the gateway sends it.
   *
   * @param epoch the epoch
   * @param sequence the sequence
   * @param cursor the cursor, or null
   * @return the position
   */
  public static Position of(long epoch, long sequence, byte @Nullable [] cursor) {
    return new Position(epoch, sequence, cursor);
  }

  /**
   * The generation of the stream's sequences.
   *
   * @return always 0 for a replayable source
   */
  public long epoch() {
    return epoch;
  }

  /**
   * The sequence of the last message at or before this position.
   *
   * @return the sequence
   */
  public long sequence() {
    return sequence;
  }

  /**
   * The cursor of the last frame that ended at or before this position. It may refer to a place
   * before {@link #sequence()}: the gateway drops what is sent again from there.
   *
   * @return the cursor as the source wrote it; empty if no frame had one
   */
  public Optional<byte[]> cursor() {
    return Optional.ofNullable(cursor).map(byte[]::clone);
  }

  @Override
  public boolean equals(@Nullable Object other) {
    return other instanceof Position that
        && epoch == that.epoch
        && sequence == that.sequence
        && Arrays.equals(cursor, that.cursor);
  }

  @Override
  public int hashCode() {
    return Objects.hash(epoch, sequence, Arrays.hashCode(cursor));
  }

  @Override
  public String toString() {
    return cursor == null
        ? "epoch " + epoch + ", sequence " + sequence
        : "epoch " + epoch + ", sequence " + sequence + ", cursor of " + Header.size(cursor);
  }
}
