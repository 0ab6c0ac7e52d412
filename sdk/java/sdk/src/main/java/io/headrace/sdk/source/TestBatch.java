package io.headrace.sdk.source;

import io.headrace.sdk.Message;
import io.headrace.sdk.internal.source.Recorder;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A batch for tests of sources: it keeps what a {@link PartitionReader} adds, and checks it as a
 * gateway with the default limits does.
 */
public final class TestBatch implements Batch {
  private final Recorder recorder;
  private final Batch batch;

  /** A batch that is never full. */
  public TestBatch() {
    this(Integer.MAX_VALUE);
  }

  /**
   * A batch that is full at some time.
   *
   * @param fullAt with how many messages it is full, at least 1
   */
  public TestBatch(int fullAt) {
    recorder = new Recorder("test/0", fullAt);
    batch = recorder.batch();
  }

  /**
   * Takes what was added, as the SDK does when it sends: the batch is empty then.
   *
   * @return the messages, in order
   * @throws io.headrace.sdk.InvalidMessageException if the last message is too large
   */
  public List<Message> take() {
    return recorder.take();
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
  public Attributes add(
      long sequence,
      byte @Nullable [] key,
      int keyOffset,
      int keyLength,
      byte @Nullable [] value,
      int valueOffset,
      int valueLength) {
    return batch.add(sequence, key, keyOffset, keyLength, value, valueOffset, valueLength);
  }

  @Override
  public void cursor(byte[] cursor) {
    batch.cursor(cursor);
  }

  @Override
  public boolean isFull() {
    return batch.isFull();
  }

  @Override
  public boolean isEmpty() {
    return batch.isEmpty();
  }
}
