package io.headrace.sdk.source;

import io.headrace.sdk.Position;
import java.util.Optional;

/**
 * A source that delivers a message again until it is acknowledged, in no guaranteed order: a
 * classic queue. The SDK counts its messages.
 *
 * <p>Messages that a micro-batch had read when a session was lost arrive twice. If the queue has
 * message ids, set them ({@link Attributes#id}), so that the query can drop repeated messages.
 *
 * @param <T> what acknowledges one message at the queue, such as its delivery tag
 */
public non-sealed interface RedeliveringSource<T> extends Source {
  /**
   * Opens a partition. It is called when a Spark query waits for the partition, and again after
   * each reconnect; the reader before is closed first. Everything that was not acknowledged must
   * then be delivered again.
   *
   * @param partition one of {@link #partitions()}
   * @return a reader, which the SDK closes
   * @throws Exception if the partition cannot be opened; this ends the connector
   */
  QueueReader<T> open(String partition) throws Exception;

  /**
   * Opens a partition as {@link #open(String)} does, for a source that has to know whether the
   * system behind it is still the one whose messages are in a checkpoint. The reader delivers what
   * is not acknowledged, whatever the position.
   *
   * @param partition one of {@link #partitions()}
   * @param earlier the last position in a checkpoint, of an earlier epoch, with the cursor that
   *     this source gave before it ({@link Deliveries#cursor}); empty if no checkpoint has one
   * @return a reader, which the SDK closes
   * @throws Exception if the partition cannot be opened, or the messages of another system would be
   *     taken for messages of this one; this ends the connector
   */
  default QueueReader<T> open(String partition, Optional<Position> earlier) throws Exception {
    return open(partition);
  }
}
