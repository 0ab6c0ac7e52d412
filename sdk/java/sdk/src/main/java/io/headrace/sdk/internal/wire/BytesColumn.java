package io.headrace.sdk.internal.wire;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import java.util.Arrays;

/** Entries of bytes, each of which may be null: all of them joined, and the length of each. */
final class BytesColumn {
  /** The length that stands for null, {@code FF FF FF FF} on the wire. */
  static final int NULL = -1;

  private byte[] data;
  private int size;
  private int[] ends;
  private int[] lengths;
  private int count;

  BytesColumn(int entries, int bytes) {
    data = new byte[bytes];
    ends = new int[entries];
    lengths = new int[entries];
  }

  int count() {
    return count;
  }

  /** The bytes of all entries. */
  int size() {
    return size;
  }

  void add(byte[] source, int offset, int length) {
    if (source == null) {
      addNull();
      return;
    }
    if (size + length > data.length) {
      data = Arrays.copyOf(data, Math.max(size + length, Math.min(2 * data.length, 1 << 30)));
    }
    System.arraycopy(source, offset, data, size, length);
    size += length;
    append(length);
  }

  void addNull() {
    append(NULL);
  }

  /** Adds nulls until there are that many entries. */
  void pad(int entries) {
    while (count < entries) {
      append(NULL);
    }
  }

  /** Takes the last entries away until that many are left. */
  void truncate(int entries) {
    if (count > entries) {
      count = entries;
      size = end(entries);
    }
  }

  boolean isNull(int at) {
    return lengths[at] == NULL;
  }

  /** A copy of an entry; null where it is null. */
  byte[] get(int at) {
    return isNull(at) ? null : Arrays.copyOfRange(data, end(at), ends[at]);
  }

  /** The bytes of the entries from {@code start} to {@code stop}, exclusive. */
  int bytes(int start, int stop) {
    return end(stop) - end(start);
  }

  /** The same entries, joined, without copying them. */
  ByteString data(int start, int stop) {
    return UnsafeByteOperations.unsafeWrap(data, end(start), bytes(start, stop));
  }

  /** The lengths of the same entries. */
  ByteString lengths(int start, int stop) {
    return LittleEndian.ints(lengths, start, stop);
  }

  /** Where the entry before {@code at} ends. */
  private int end(int at) {
    return at == 0 ? 0 : ends[at - 1];
  }

  private void append(int length) {
    if (count == ends.length) {
      ends = Arrays.copyOf(ends, 2 * count);
      lengths = Arrays.copyOf(lengths, 2 * count);
    }
    ends[count] = size;
    lengths[count] = length;
    count++;
  }
}
