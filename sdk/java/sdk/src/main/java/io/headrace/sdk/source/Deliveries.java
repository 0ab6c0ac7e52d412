package io.headrace.sdk.source;

import org.jspecify.annotations.Nullable;

/**
 * Gathers messages of a queue in columns, until they are sent. Arrays are copied, so the caller may
 * reuse them.
 *
 * @param <T> what acknowledges one message at the queue, such as its delivery tag
 */
public interface Deliveries<T> {
  /**
   * Adds a message without a key.
   *
   * @param token acknowledges the message at the queue; it stays in this process
   * @param value the value, or null
   * @return sets what else the message has
   */
  default Attributes add(T token, byte @Nullable [] value) {
    return add(token, null, value);
  }

  /**
   * Adds a message.
   *
   * @param token acknowledges the message at the queue; it stays in this process
   * @param key the key, or null
   * @param value the value, or null
   * @return sets what else the message has
   */
  Attributes add(T token, byte @Nullable [] key, byte @Nullable [] value);

  /**
   * Names the system behind the source, as of the message that was added last. It comes back with
   * {@link RedeliveringSource#open(String, java.util.Optional)} once that message is in a
   * checkpoint.
   *
   * @param cursor at most 64 KiB, or what the gateway allows, that only this source interprets
   */
  void cursor(byte[] cursor);

  /**
   * Whether enough is gathered for a frame. Return from {@link QueueReader#read} then.
   *
   * @return true if it should take no more
   */
  boolean isFull();

  /**
   * Whether nothing is gathered that is not sent yet.
   *
   * @return true if it is empty
   */
  boolean isEmpty();
}
