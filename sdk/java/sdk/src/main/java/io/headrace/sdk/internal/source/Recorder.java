package io.headrace.sdk.internal.source;

import io.headrace.sdk.Message;
import io.headrace.sdk.internal.wire.Columns;
import io.headrace.sdk.source.Batch;
import io.headrace.sdk.source.Deliveries;
import io.headrace.sdk.source.Unsendable;
import java.util.ArrayList;
import java.util.List;

/** Gathers messages as a reader does, with a gateway's usual limits, and gives them to a test. */
public final class Recorder {
  private static final long MAX_FRAME_BYTES = 4L << 20;
  private static final int MAX_CURSOR_BYTES = 1 << 16;

  private final Gatherer gatherer;
  private final List<Object> tokens = new ArrayList<>();
  private byte[] cursor;

  /**
   * Begins without messages.
   *
   * @param stream names the stream in errors
   * @param fullAt with how many messages it is full
   */
  public Recorder(String stream, int fullAt) {
    StreamLimits limits =
        new StreamLimits(stream, 1, MAX_FRAME_BYTES, MAX_CURSOR_BYTES, Long.MAX_VALUE, fullAt);
    this.gatherer = new Gatherer(limits, (token, message, error) -> Unsendable.FAIL);
  }

  /** What takes the messages of a log. */
  public Batch batch() {
    return gatherer;
  }

  /** What takes the messages of a queue. */
  public <T> Deliveries<T> deliveries() {
    return new Counted<>(gatherer);
  }

  /** Takes what was gathered, after which nothing is. */
  public List<Message> take() {
    List<Message> messages = new ArrayList<>();
    tokens.clear();
    Columns columns = gatherer.take();
    for (int at = 0; columns != null && at < columns.count(); at++) {
      messages.add(columns.message(at));
      tokens.add(columns.token(at));
    }
    cursor = columns == null ? null : columns.cursor(columns.count() - 1, columns.count());
    byte[] moved = gatherer.takeCursor();
    cursor = moved == null ? cursor : moved;
    return messages;
  }

  /** The tokens of what was taken last. */
  public List<Object> tokens() {
    return List.copyOf(tokens);
  }

  /** The cursor after what was taken last; null if there is none. */
  public byte[] cursor() {
    return cursor == null ? null : cursor.clone();
  }
}
