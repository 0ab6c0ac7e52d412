package io.headrace.sdk.source;

import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Message;
import io.headrace.sdk.Position;
import java.util.Optional;

/** Reads one partition of a {@link ReplayableSource}. All methods are called on one thread. */
@FunctionalInterface
public interface PartitionReader extends AutoCloseable {
  /**
   * Adds the next messages, in order: one, or as many as are at hand until {@link Batch#isFull()}.
   *
   * <p>Return {@link Progress#IDLE} when there is nothing now, rather than wait here: only between
   * two calls can the SDK deliver acknowledgements, send what was gathered, and stop. A wait is
   * acceptable while the batch is empty, if it is short or ends when the thread is interrupted.
   *
   * @param batch takes the messages; what is in it from earlier calls has not been sent yet
   * @return how to continue
   * @throws PositionLostException if the source no longer has the next message
   * @throws Exception if the source fails; this ends the connector
   */
  Progress read(Batch batch) throws Exception;

  /**
   * Everything at or before the position is in the checkpoint of every query that reads the stream.
   * Only now may the source delete those messages. Called at most once for a position, never with
   * an older one, and possibly before the first {@link #read}. Positions may be skipped.
   *
   * @param position the position
   * @throws Exception if the source cannot act on it; this ends the connector
   */
  default void acknowledged(Position position) throws Exception {}

  /**
   * Decides about a message that no frame can carry, because it is above the gateway's limit. It
   * may be called again for the same message after a restart.
   *
   * @param message the message
   * @param error what is wrong with it; names the stream, the sequence and the limit
   * @return by default {@link Unsendable#FAIL}; {@link Unsendable#SKIP} leaves the message out
   * @throws Exception if the source fails; this ends the connector
   */
  default Unsendable unsendable(Message message, InvalidMessageException error) throws Exception {
    return Unsendable.FAIL;
  }

  /**
   * The messages that the source holds beyond the messages added so far. It feeds the lag metrics.
   * Called about once a second, so it should be cheap.
   *
   * @return by default empty: unknown. After {@link Progress#IDLE}, this counts as nothing left
   * @throws Exception if the source fails; this ends the connector
   */
  default Optional<Backlog> backlog() throws Exception {
    return Optional.empty();
  }

  /**
   * Closes the reader. Nothing is called afterwards.
   *
   * @throws Exception if it fails; this is logged
   */
  @Override
  default void close() throws Exception {}
}
