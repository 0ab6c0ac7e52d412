package io.headrace.sdk.internal.wire;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Integers as in frames: fixed-width, little-endian and packed. */
final class LittleEndian {
  private LittleEndian() {}

  static ByteString ints(int[] values, int start, int stop) {
    ByteBuffer buffer =
        ByteBuffer.allocate(Integer.BYTES * (stop - start)).order(ByteOrder.LITTLE_ENDIAN);
    buffer.asIntBuffer().put(values, start, stop - start);
    return UnsafeByteOperations.unsafeWrap(buffer.array());
  }

  static ByteString longs(long[] values, int start, int stop) {
    ByteBuffer buffer =
        ByteBuffer.allocate(Long.BYTES * (stop - start)).order(ByteOrder.LITTLE_ENDIAN);
    buffer.asLongBuffer().put(values, start, stop - start);
    return UnsafeByteOperations.unsafeWrap(buffer.array());
  }

  static int[] ints(ByteString bytes) {
    int[] values = new int[bytes.size() / Integer.BYTES];
    bytes.asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN).asIntBuffer().get(values);
    return values;
  }

  static long[] longs(ByteString bytes) {
    long[] values = new long[bytes.size() / Long.BYTES];
    bytes.asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(values);
    return values;
  }
}
