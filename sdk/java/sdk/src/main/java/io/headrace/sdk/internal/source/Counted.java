package io.headrace.sdk.internal.source;

import io.headrace.sdk.source.Attributes;
import io.headrace.sdk.source.Deliveries;
import java.util.Objects;

/** Counts the messages of a queue, and keeps their tokens. */
final class Counted<T> implements Deliveries<T> {
  private final Gatherer gatherer;
  private long sequence;

  Counted(Gatherer gatherer) {
    this.gatherer = gatherer;
  }

  @Override
  public Attributes add(T token, byte[] key, byte[] value) {
    Objects.requireNonNull(token, "the token of a message");
    sequence++;
    gatherer.add(sequence, key, value);
    gatherer.token(token);
    return gatherer;
  }

  @Override
  public void cursor(byte[] cursor) {
    gatherer.requireMessage();
    gatherer.cursor(cursor);
  }

  @Override
  public boolean isFull() {
    return gatherer.isFull();
  }

  @Override
  public boolean isEmpty() {
    return gatherer.isEmpty();
  }
}
