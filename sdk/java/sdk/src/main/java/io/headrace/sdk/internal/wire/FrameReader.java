package io.headrace.sdk.internal.wire;

import com.google.protobuf.ByteString;
import io.headrace.protocol.v1.Frame;
import io.headrace.sdk.Header;
import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Message;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;

/** The messages of a frame, whose columns are checked. */
public final class FrameReader {
  private static final int NULL = -1;

  private final int count;
  private final long[] sequences;
  private final Entries keys;
  private final Entries values;
  private final Entries ids;
  private final long[] eventTimes;
  private final int[] headerEnds;
  private final Entries headerNames;
  private final Entries headerValues;

  private FrameReader(Frame frame) {
    count = frame.getCount();
    check(count > 0, "count", count, "at least 1");
    sequences = sequences(frame);
    values = entries("value", frame.getValues(), frame.getValueLengths(), count, false);
    keys = entries("key", frame.getKeys(), frame.getKeyLengths(), count, true);
    ids = entries("message_id", frame.getMessageIds(), frame.getMessageIdLengths(), count, true);
    check(
        frame.getEventTimes().isEmpty() || frame.getEventTimes().size() == 8L * count,
        "event_times",
        frame.getEventTimes().size(),
        8L * count);
    checkText("message_id", ids);
    eventTimes = LittleEndian.longs(frame.getEventTimes());
    headerEnds = headerEnds(frame);
    int headers = headerEnds.length == 0 ? 0 : headerEnds[count - 1];
    headerNames =
        entries("header_name", frame.getHeaderNames(), frame.getHeaderNameLengths(), headers, true);
    headerValues =
        entries(
            "header_value", frame.getHeaderValues(), frame.getHeaderValueLengths(), headers, true);
    check(headers == 0 || (headerNames != null && headerValues != null), "headers", 0, headers);
    checkText("header_name", headerNames);
    for (int at = 0; at < headers; at++) {
      check(headerNames.get(at) != null, "header_name_lengths", "null", "a name");
    }
  }

  /** Entries of bytes: all of them joined, and where each ends. */
  private record Entries(ByteString data, int[] lengths, int[] ends) {
    ByteString get(int at) {
      return lengths[at] == NULL ? null : data.substring(ends[at] - lengths[at], ends[at]);
    }
  }

  /**
   * Reads a frame.
   *
   * @throws InvalidMessageException if its columns do not add up
   */
  public static FrameReader of(Frame frame) {
    return new FrameReader(frame);
  }

  /** The number of messages. */
  public int count() {
    return count;
  }

  /** The sequence of a message. */
  public long sequence(int at) {
    return sequences[at];
  }

  /** The value of a message, read-only; null if there is none. */
  public ByteBuffer value(int at) {
    return buffer(values.get(at));
  }

  /** The key of a message, read-only; null if there is none. */
  public ByteBuffer key(int at) {
    return keys == null ? null : buffer(keys.get(at));
  }

  /** A message by itself. */
  public Message message(int at) {
    long time = eventTimes.length == 0 ? Columns.NULL_TIME : eventTimes[at];
    ByteString id = ids == null ? null : ids.get(at);
    return new Message(
        sequences[at],
        keys == null ? null : bytes(keys.get(at)),
        bytes(values.get(at)),
        time == Columns.NULL_TIME ? null : Instant.EPOCH.plus(time, ChronoUnit.MICROS),
        id == null ? null : id.toStringUtf8(),
        headers(at));
  }

  private List<Header> headers(int at) {
    if (headerEnds.length == 0) {
      return List.of();
    }
    List<Header> headers = new ArrayList<>();
    for (int header = at == 0 ? 0 : headerEnds[at - 1]; header < headerEnds[at]; header++) {
      headers.add(
          new Header(headerNames.get(header).toStringUtf8(), bytes(headerValues.get(header))));
    }
    return headers;
  }

  private static long[] sequences(Frame frame) {
    int count = frame.getCount();
    int[] deltas = LittleEndian.ints(frame.getSequenceDeltas());
    check(
        frame.getSequenceDeltas().isEmpty() || frame.getSequenceDeltas().size() == 4L * (count - 1),
        "sequence_deltas",
        frame.getSequenceDeltas().size(),
        4L * (count - 1));
    long[] sequences = new long[count];
    sequences[0] = frame.getFirstSequence();
    for (int at = 1; at < count; at++) {
      long delta = deltas.length == 0 ? 1 : Integer.toUnsignedLong(deltas[at - 1]);
      check(delta > 0, "sequence_deltas", delta, "at least 1");
      sequences[at] = sequences[at - 1] + delta;
    }
    check(
        sequences[0] >= 0 && sequences[count - 1] >= 0,
        "the last sequence",
        sequences[count - 1],
        "at most 2^63 - 1");
    return sequences;
  }

  private static int[] headerEnds(Frame frame) {
    int[] ends = LittleEndian.ints(frame.getHeaderCounts());
    check(
        frame.getHeaderCounts().isEmpty()
            || frame.getHeaderCounts().size() == 4L * frame.getCount(),
        "header_counts",
        frame.getHeaderCounts().size(),
        4L * frame.getCount());
    long end = 0;
    for (int at = 0; at < ends.length; at++) {
      end += Integer.toUnsignedLong(ends[at]);
      check(end <= Integer.MAX_VALUE, "header_counts", end, "fewer headers");
      ends[at] = (int) end;
    }
    return ends;
  }

  private static Entries entries(
      String name, ByteString data, ByteString packed, int count, boolean optional) {
    if (optional && packed.isEmpty() && data.isEmpty()) {
      return null;
    }
    check(packed.size() == 4L * count, name + "_lengths", packed.size(), 4L * count);
    int[] lengths = LittleEndian.ints(packed);
    int[] ends = new int[count];
    long end = 0;
    for (int at = 0; at < count; at++) {
      end += lengths[at] == NULL ? 0 : Integer.toUnsignedLong(lengths[at]);
      check(end <= data.size(), name + "_lengths", "at least " + end, data.size());
      ends[at] = (int) end;
    }
    check(end == data.size(), name + "_lengths", end, data.size());
    return new Entries(data, lengths, ends);
  }

  private static void checkText(String name, Entries entries) {
    for (int at = 0; entries != null && at < entries.lengths.length; at++) {
      ByteString entry = entries.get(at);
      check(entry == null || entry.isValidUtf8(), name, "entry " + at, "UTF-8");
    }
  }

  private static void check(boolean holds, String column, Object found, Object wanted) {
    if (!holds) {
      throw new InvalidMessageException(
          "a frame is invalid: %s: %s, want %s".formatted(column, found, wanted));
    }
  }

  private static ByteBuffer buffer(ByteString bytes) {
    return bytes == null ? null : bytes.asReadOnlyByteBuffer();
  }

  private static byte[] bytes(ByteString bytes) {
    return bytes == null ? null : bytes.toByteArray();
  }
}
