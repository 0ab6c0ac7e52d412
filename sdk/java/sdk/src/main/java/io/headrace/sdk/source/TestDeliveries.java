package io.headrace.sdk.source;

import io.headrace.sdk.Message;
import io.headrace.sdk.internal.source.Recorder;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Deliveries for tests of queues: they keep what a {@link QueueReader} adds, and check it as a
 * gateway with the default limits does.
 *
 * @param <T> what acknowledges one message at the queue, such as its delivery tag
 */
public final class TestDeliveries<T> implements Deliveries<T> {
  private final Recorder recorder;
  private final Deliveries<T> deliveries;

  /** Deliveries that are never full. */
  public TestDeliveries() {
    this(Integer.MAX_VALUE);
  }

  /**
   * Deliveries that are full at some time.
   *
   * @param fullAt with how many messages they are full, at least 1
   */
  public TestDeliveries(int fullAt) {
    recorder = new Recorder("test/0", fullAt);
    deliveries = recorder.deliveries();
  }

  /**
   * Takes what was added, as the SDK does when it sends: nothing is gathered then.
   *
   * @return the messages, in order, whose sequences count from 1
   * @throws io.headrace.sdk.InvalidMessageException if the last message is too large
   */
  public List<Message> take() {
    return recorder.take();
  }

  /**
   * The tokens of the messages that were taken last, as {@link QueueReader#acknowledged} gets them
   * once they are in every checkpoint.
   *
   * @return the tokens, in order
   */
  @SuppressWarnings("unchecked") // Only `add` gives tokens.
  public List<T> tokens() {
    return (List<T>) recorder.tokens();
  }

  /**
   * The cursor that was set after the last message that was taken.
   *
   * @return the cursor; empty if there is none
   */
  public Optional<byte[]> cursor() {
    return Optional.ofNullable(recorder.cursor());
  }

  @Override
  public Attributes add(T token, byte @Nullable [] key, byte @Nullable [] value) {
    return deliveries.add(token, key, value);
  }

  @Override
  public void cursor(byte[] cursor) {
    deliveries.cursor(cursor);
  }

  @Override
  public boolean isFull() {
    return deliveries.isFull();
  }

  @Override
  public boolean isEmpty() {
    return deliveries.isEmpty();
  }
}
