package io.headrace.sdk.internal.wire;

import com.google.protobuf.ByteString;
import io.headrace.sdk.Header;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The headers of messages: names and values of all of them, and how many each message has. */
final class HeadersColumn {
  private final BytesColumn names = new BytesColumn(16, 256);
  private final BytesColumn values = new BytesColumn(16, 256);
  private int[] ends = new int[64];
  private int count;

  /** Adds a header to the message at an index, the last one. */
  void add(int at, byte[] name, byte[] value) {
    pad(at + 1);
    names.add(name, 0, name.length);
    values.add(value, 0, value == null ? 0 : value.length);
    ends[at] = names.count();
  }

  /** Messages up to that many have no more headers than they have now. */
  void pad(int messages) {
    if (messages > ends.length) {
      ends = Arrays.copyOf(ends, Math.max(messages, 2 * ends.length));
    }
    for (; count < messages; count++) {
      ends[count] = names.count();
    }
  }

  /** Takes the last messages away until that many are left. */
  void truncate(int messages) {
    if (count > messages) {
      count = messages;
      names.truncate(start(messages));
      values.truncate(start(messages));
    }
  }

  /** The bytes of names and values of messages. */
  int bytes(int start, int stop) {
    return names.bytes(start(start), start(stop)) + values.bytes(start(start), start(stop));
  }

  /** The headers of one message. */
  List<Header> get(int at) {
    List<Header> headers = new ArrayList<>();
    for (int header = start(at); header < ends[at]; header++) {
      headers.add(
          new Header(new String(names.get(header), StandardCharsets.UTF_8), values.get(header)));
    }
    return headers;
  }

  /** How many headers each message has. */
  ByteString counts(int start, int stop) {
    int[] counts = new int[stop - start];
    for (int at = start; at < stop; at++) {
      counts[at - start] = ends[at] - start(at);
    }
    return LittleEndian.ints(counts, 0, counts.length);
  }

  /** The index of the first header of a message. */
  int start(int at) {
    return at == 0 ? 0 : ends[at - 1];
  }

  BytesColumn names() {
    return names;
  }

  BytesColumn values() {
    return values;
  }
}
