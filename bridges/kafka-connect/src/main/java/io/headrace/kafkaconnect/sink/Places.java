package io.headrace.kafkaconnect.sink;

import io.headrace.sdk.sink.Part;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.kafka.connect.errors.ConnectException;

/**
 * Where a row is in the words of Connect: a partition of a topic, and an offset in it. A row of a
 * batch that is written again is at the same place, and offsets grow with batches.
 */
final class Places {
  private static final int MAX_PARTITIONS = 1 << 16;
  private static final int PIPELINES = 1 << 15;
  private static final int PLACE_BITS = 32;

  private final Map<Integer, String> pipelines = new HashMap<>();

  /**
   * The partition of a part: Spark's, in a range of its pipeline. Connectors name files and rows by
   * it, so that it must be the same after each restart.
   *
   * @throws ConnectException if two pipelines have the same range, or Spark's number is too high
   */
  int partition(Part part) {
    if (part.partition() >= MAX_PARTITIONS) {
      throw new ConnectException(
          "partition %d of a batch: Connect numbers partitions below %d: write with fewer, by coalesce()"
              .formatted(part.partition(), MAX_PARTITIONS));
    }
    String pipeline = part.transaction().pipeline();
    CRC32 sum = new CRC32();
    sum.update(pipeline.getBytes(StandardCharsets.UTF_8));
    int range = (int) (sum.getValue() % PIPELINES);
    String known = pipelines.putIfAbsent(range, pipeline);
    if (known != null && !known.equals(pipeline)) {
      throw new ConnectException(
          "the pipelines %s and %s would have the same partitions: give one of them a sink of its own"
              .formatted(known, pipeline));
    }
    return range * MAX_PARTITIONS + part.partition();
  }

  /** The offset of a row: the batch, and the place in its part. */
  static long offset(Part part, long place) {
    long batch = part.transaction().batch();
    if (batch >>> (Long.SIZE - 1 - PLACE_BITS) != 0 || place >>> PLACE_BITS != 0) {
      throw new ConnectException(
          "row %d of batch %d has no offset: places in a part are below %d"
              .formatted(place, batch, 1L << PLACE_BITS));
    }
    return batch << PLACE_BITS | place;
  }

  /** The place in its part of a row at an offset. */
  static long place(long offset) {
    return offset & ((1L << PLACE_BITS) - 1);
  }
}
