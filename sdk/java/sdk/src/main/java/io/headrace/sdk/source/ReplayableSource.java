package io.headrace.sdk.source;

import io.headrace.sdk.Position;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * A source in which the same position is always followed by the same messages: a file, a log, a
 * table with a growing key. Its sequences are its own, such as offsets.
 *
 * <p>A growing key is no position where several writers commit out of order: row 42 may be visible
 * before row 41, and a reader that has passed 42 never reads 41. Stop at a missing key until all
 * transactions that were open when the gap was met have ended, or read only rows that are older
 * than the longest transaction.
 */
public non-sealed interface ReplayableSource extends Source {
  /**
   * Opens a partition at a position. It is called when a Spark query waits for the partition, and
   * again after each reconnect; the reader before is closed first.
   *
   * @param partition one of {@link #partitions()}
   * @param position the position after which to continue; empty to begin with the first message
   *     that exists. A reader may begin at the cursor of the position instead, and add some
   *     messages again with their sequences: the gateway drops them
   * @return a reader, which the SDK closes
   * @throws PositionLostException if the source no longer has what comes after the position
   * @throws Exception if the partition cannot be opened; this ends the connector
   */
  PartitionReader open(String partition, Optional<Position> position) throws Exception;

  /**
   * Whether a query that is new to this source need not begin with the first message of each
   * partition. {@link #starts} then says where it begins.
   *
   * @return by default false
   */
  default boolean choosesStart() {
    return false;
  }

  /**
   * Determines where partitions begin for a query that is new to the source. The answer is written
   * into the query's checkpoint before any message. The SDK keeps it until then, also while the
   * gateway restarts, so that nothing that arrives meanwhile is missed. Partitions that appear
   * later begin with their first message. Called only if {@link #choosesStart()}.
   *
   * @param partitions the partitions whose start is needed
   * @return the position after which each begins; a partition that is not in the map begins with
   *     its first message
   * @throws Exception if it cannot be determined; this ends the connector
   */
  default Map<String, Position> starts(Set<String> partitions) throws Exception {
    return Map.of();
  }
}
