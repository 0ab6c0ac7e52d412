package io.headrace.sdk.internal.wire;

import static com.google.protobuf.CodedOutputStream.computeUInt32Size;
import static com.google.protobuf.CodedOutputStream.computeUInt32SizeNoTag;
import static com.google.protobuf.CodedOutputStream.computeUInt64Size;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.headrace.protocol.v1.Frame;

/** Cuts frames of columns that are padded. */
public final class Frames {
  private static final long MAX_DELTA = 0xFFFF_FFFFL;

  private Frames() {}

  /**
   * Where the largest frame from {@code start} ends, exclusive: {@code start} if not even one
   * message fits.
   */
  public static int fit(Columns columns, int streamId, int start, long maxBytes, long maxMessages) {
    int stop = (int) Math.min(columns.count(), start + Math.max(maxMessages, 0));
    if (columns.hasGaps()) {
      stop = Math.min(stop, beforeWideGap(columns, start));
    }
    if (stop <= start || size(columns, streamId, start, stop) <= maxBytes) {
      return stop;
    }
    int fits = start;
    int tooMany = stop;
    while (tooMany - fits > 1) {
      int middle = (fits + tooMany) >>> 1;
      if (size(columns, streamId, start, middle) <= maxBytes) {
        fits = middle;
      } else {
        tooMany = middle;
      }
    }
    return fits;
  }

  /** The serialized size of the frame of the messages up to {@code stop}, exclusive. */
  public static long size(Columns columns, int streamId, int start, int stop) {
    int messages = stop - start;
    long size = streamId == 0 ? 0 : computeUInt32Size(1, streamId);
    size += columns.sequence(start) == 0 ? 0 : computeUInt64Size(2, columns.sequence(start));
    size += computeUInt32Size(3, messages);
    if (hasGaps(columns, start, stop)) {
      size += field(4L * (messages - 1), 1);
    }
    size += size(columns.values(), start, stop);
    size += size(columns.keys(), start, stop);
    size += size(columns.ids(), start, stop);
    if (columns.eventTimes() != null) {
      size += field(8L * messages, 1);
    }
    if (columns.headers() != null) {
      int first = columns.headers().start(start);
      int last = columns.headers().start(stop);
      size += field(4L * messages, 1) + size(columns.headers().names(), first, last);
      // The numbers of fields from 16 on take two bytes.
      size +=
          field(columns.headers().values().bytes(first, last), 1) + field(4L * (last - first), 2);
    }
    byte[] cursor = columns.cursor(start, stop);
    return cursor == null ? size : size + 2 + computeUInt32SizeNoTag(cursor.length) + cursor.length;
  }

  /** The frame of the messages up to {@code stop}, exclusive, which refers to the columns. */
  public static Frame frame(Columns columns, int streamId, int start, int stop) {
    Frame.Builder frame =
        Frame.newBuilder()
            .setStreamId(streamId)
            .setFirstSequence(columns.sequence(start))
            .setCount(stop - start)
            .setValues(columns.values().data(start, stop))
            .setValueLengths(columns.values().lengths(start, stop));
    if (hasGaps(columns, start, stop)) {
      frame.setSequenceDeltas(deltas(columns, start, stop));
    }
    if (columns.keys() != null) {
      frame
          .setKeys(columns.keys().data(start, stop))
          .setKeyLengths(columns.keys().lengths(start, stop));
    }
    if (columns.eventTimes() != null) {
      frame.setEventTimes(LittleEndian.longs(columns.eventTimes(), start, stop));
    }
    if (columns.ids() != null) {
      frame
          .setMessageIds(columns.ids().data(start, stop))
          .setMessageIdLengths(columns.ids().lengths(start, stop));
    }
    HeadersColumn headers = columns.headers();
    if (headers != null) {
      int first = headers.start(start);
      int last = headers.start(stop);
      frame
          .setHeaderCounts(headers.counts(start, stop))
          .setHeaderNames(headers.names().data(first, last))
          .setHeaderNameLengths(headers.names().lengths(first, last))
          .setHeaderValues(headers.values().data(first, last))
          .setHeaderValueLengths(headers.values().lengths(first, last));
    }
    byte[] cursor = columns.cursor(start, stop);
    if (cursor != null) {
      frame.setCursor(UnsafeByteOperations.unsafeWrap(cursor));
    }
    return frame.build();
  }

  private static boolean hasGaps(Columns columns, int start, int stop) {
    return columns.hasGaps()
        && columns.sequence(stop - 1) - columns.sequence(start) != stop - 1 - start;
  }

  /** The index of the first message whose distance from the one before is too large for a frame. */
  private static int beforeWideGap(Columns columns, int start) {
    for (int at = start + 1; at < columns.count(); at++) {
      if (columns.sequence(at) - columns.sequence(at - 1) > MAX_DELTA) {
        return at;
      }
    }
    return columns.count();
  }

  private static ByteString deltas(Columns columns, int start, int stop) {
    int[] deltas = new int[stop - start - 1];
    for (int at = 0; at < deltas.length; at++) {
      deltas[at] = (int) (columns.sequence(start + at + 1) - columns.sequence(start + at));
    }
    return LittleEndian.ints(deltas, 0, deltas.length);
  }

  private static long size(BytesColumn column, int start, int stop) {
    return column == null ? 0 : field(column.bytes(start, stop), 1) + field(4L * (stop - start), 1);
  }

  /** The size of a field of bytes, which is left out if it is empty. */
  private static long field(long bytes, int tag) {
    return bytes == 0 ? 0 : tag + computeUInt32SizeNoTag((int) bytes) + bytes;
  }
}
