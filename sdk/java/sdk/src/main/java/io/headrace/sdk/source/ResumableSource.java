package io.headrace.sdk.source;

import io.headrace.sdk.Position;
import java.util.Optional;

/**
 * A source in which everything follows a cursor, but not the same messages again, nor the same
 * boundaries: a change feed. After a fault, messages may arrive twice. If they have ids, set them
 * ({@link Attributes#id}), so that the query can drop repeated messages.
 *
 * <p>The bytes of its cursors ({@link Batch#cursor}) must have the order of their places: a later
 * place has the larger cursor, byte by byte, without a sign.
 */
public non-sealed interface ResumableSource extends Source {
  /**
   * Opens a partition after a cursor. It is called when a Spark query waits for the partition, and
   * again after each reconnect; the reader before is closed first.
   *
   * @param partition one of {@link #partitions()}
   * @param position the position whose cursor is before everything that is to be read; empty to
   *     begin with the first message that exists. The reader counts its messages on from the
   *     position's sequence, or from 1
   * @return a reader, which the SDK closes
   * @throws PositionLostException if the source no longer has what comes after the cursor
   * @throws Exception if the partition cannot be opened; this ends the connector
   */
  PartitionReader open(String partition, Optional<Position> position) throws Exception;
}
