package io.headrace.sdk.source;

import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Message;
import java.util.List;
import java.util.Optional;

/**
 * Reads one partition of a {@link RedeliveringSource}. All methods are called on one thread.
 *
 * @param <T> what acknowledges one message at the queue, such as its delivery tag
 */
public interface QueueReader<T> extends AutoCloseable {
  /**
   * Adds the next messages: one, or as many as are at hand until {@link Deliveries#isFull()}. As
   * with {@link PartitionReader#read}, return {@link Progress#IDLE} rather than wait.
   *
   * @param deliveries takes the messages
   * @return how to continue
   * @throws Exception if the queue fails; this ends the connector
   */
  Progress read(Deliveries<T> deliveries) throws Exception;

  /**
   * These messages are in the checkpoint of every query that reads the stream: acknowledge them at
   * the queue. Each token is passed exactly once, in the order in which the messages were added.
   * For a queue with cumulative acknowledgements, the last token is enough.
   *
   * @param tokens the tokens of the messages, at least one
   * @throws Exception if the queue fails; this ends the connector
   */
  void acknowledged(List<T> tokens) throws Exception;

  /**
   * Decides about a message that no frame can carry, because it is above the gateway's limit. Its
   * token is never passed to {@link #acknowledged}: acknowledge or reject it here.
   *
   * @param token the token of the message
   * @param message the message
   * @param error what is wrong with it; names the stream and the limit
   * @return by default {@link Unsendable#FAIL}; {@link Unsendable#SKIP} leaves the message out
   * @throws Exception if the queue fails; this ends the connector
   */
  default Unsendable unsendable(T token, Message message, InvalidMessageException error)
      throws Exception {
    return Unsendable.FAIL;
  }

  /**
   * The messages that the queue holds beyond the messages added so far. Called about once a second.
   *
   * @return by default empty: unknown. After {@link Progress#IDLE}, this counts as nothing left
   * @throws Exception if the queue fails; this ends the connector
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
