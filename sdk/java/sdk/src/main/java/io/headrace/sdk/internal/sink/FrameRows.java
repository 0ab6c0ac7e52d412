package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.Frame;
import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Message;
import io.headrace.sdk.internal.wire.Columns;
import io.headrace.sdk.internal.wire.FrameReader;
import io.headrace.sdk.internal.wire.Frames;
import io.headrace.sdk.sink.Rows;
import java.nio.ByteBuffer;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.LongPredicate;

/** Rows of a frame, decoded on first use. Not for several threads. */
public final class FrameRows implements Rows {
  private final Frame frame;
  private FrameReader reader;

  FrameRows(Frame frame) {
    this.frame = frame;
  }

  /** Makes rows of messages. */
  public static FrameRows of(Message... messages) {
    Columns columns = new Columns();
    for (Message message : messages) {
      columns.add(message);
    }
    if (columns.count() == 0) {
      throw new InvalidMessageException("rows contain no message: give at least one");
    }
    return of(columns);
  }

  private static FrameRows of(Columns columns) {
    columns.pad();
    return new FrameRows(Frames.frame(columns, 0, 0, columns.count()));
  }

  Frame frame() {
    return frame;
  }

  /** The rows without some, by their places; null if none is left. */
  FrameRows without(LongPredicate left) {
    Columns columns = new Columns();
    for (Message message : this) {
      if (!left.test(message.sequence())) {
        columns.add(message);
      }
    }
    return columns.count() == 0 ? null : of(columns);
  }

  @Override
  public int size() {
    return frame.getCount();
  }

  @Override
  public Message get(int index) {
    return reader().message(index);
  }

  @Override
  public long place(int index) {
    return reader().sequence(index);
  }

  @Override
  public ByteBuffer value(int index) {
    return reader().value(index);
  }

  @Override
  public ByteBuffer key(int index) {
    return reader().key(index);
  }

  @Override
  public ByteBuffer values() {
    return frame.getValues().asReadOnlyByteBuffer();
  }

  @Override
  public Iterator<Message> iterator() {
    return new Iterator<>() {
      private int next;

      @Override
      public boolean hasNext() {
        return next < size();
      }

      @Override
      public Message next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        return get(next++);
      }
    };
  }

  private FrameReader reader() {
    if (reader == null) {
      reader = FrameReader.of(frame);
    }
    return reader;
  }
}
