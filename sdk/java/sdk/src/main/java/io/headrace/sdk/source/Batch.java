package io.headrace.sdk.source;

import io.headrace.sdk.Message;
import org.jspecify.annotations.Nullable;

/**
 * Gathers messages of a partition in columns, until they are sent. Arrays are copied, so the caller
 * may reuse them.
 */
public interface Batch {
  /**
   * Adds a message without a key.
   *
   * @param sequence larger than the sequence of the message before; gaps are normal
   * @param value the value, or null
   * @return sets what else the message has
   * @throws io.headrace.sdk.InvalidMessageException if the sequence does not increase
   */
  default Attributes add(long sequence, byte @Nullable [] value) {
    return add(sequence, null, 0, 0, value, 0, value == null ? 0 : value.length);
  }

  /**
   * Adds a message.
   *
   * @param sequence larger than the sequence of the message before; gaps are normal
   * @param key the key, or null
   * @param value the value, or null
   * @return sets what else the message has
   * @throws io.headrace.sdk.InvalidMessageException if the sequence does not increase
   */
  default Attributes add(long sequence, byte @Nullable [] key, byte @Nullable [] value) {
    int keyLength = key == null ? 0 : key.length;
    return add(sequence, key, 0, keyLength, value, 0, value == null ? 0 : value.length);
  }

  /**
   * Adds a message from parts of arrays.
   *
   * @param sequence larger than the sequence of the message before; gaps are normal
   * @param key holds the key, or null
   * @param keyOffset where the key begins
   * @param keyLength the length of the key, in bytes
   * @param value holds the value, or null
   * @param valueOffset where the value begins
   * @param valueLength the length of the value, in bytes
   * @return sets what else the message has
   * @throws io.headrace.sdk.InvalidMessageException if the sequence does not increase
   */
  Attributes add(
      long sequence,
      byte @Nullable [] key,
      int keyOffset,
      int keyLength,
      byte @Nullable [] value,
      int valueOffset,
      int valueLength);

  /**
   * Adds a message.
   *
   * @param message the message; its sequence must be larger than the sequence of the message before
   * @throws io.headrace.sdk.InvalidMessageException if the sequence does not increase
   */
  default void add(Message message) {
    Attributes attributes = add(message.sequence(), message.key(), message.value());
    if (message.eventTime() != null) {
      attributes.eventTime(message.eventTime());
    }
    if (message.id() != null) {
      attributes.id(message.id());
    }
    message.headers().forEach(header -> attributes.header(header.name(), header.value()));
  }

  /**
   * Notes where to seek for what follows the last message, if its sequence does not say it. It
   * comes back in the position to resume from.
   *
   * <p>If that message was sent, or there was none, the cursor moves alone: for instance past
   * messages that the source leaves out, or in quiet times. Queries record it with their next
   * messages, or every ten seconds, and {@link PartitionReader#acknowledged} gets it then. The next
   * message needs a sequence above 0.
   *
   * @param cursor at most 64 KiB, or what the gateway allows, that only this source interprets
   * @throws io.headrace.sdk.InvalidMessageException if it is too long
   */
  void cursor(byte[] cursor);

  /**
   * How long a cursor may be, as the gateway announces it.
   *
   * @return the most bytes of {@link #cursor}; 64 KiB of a batch that a test implements
   */
  default int maxCursorBytes() {
    return 1 << 16;
  }

  /**
   * Whether enough is gathered for a frame. Return from {@link PartitionReader#read} then.
   *
   * @return true if the batch should take no more
   */
  boolean isFull();

  /**
   * Whether nothing is gathered that is not sent yet.
   *
   * @return true if the batch is empty
   */
  boolean isEmpty();
}
