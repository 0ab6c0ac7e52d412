package io.headrace.sdk.sink;

import java.util.Comparator;

/**
 * Identifies what one micro-batch of one pipeline writes to one sink.
 *
 * @param pipeline the pipeline: the id of its query
 * @param batch the micro-batch, counted from 0
 */
public record Transaction(String pipeline, long batch) implements Comparable<Transaction> {
  private static final Comparator<Transaction> ORDER =
      Comparator.comparing(Transaction::pipeline).thenComparingLong(Transaction::batch);

  @Override
  public int compareTo(Transaction other) {
    return ORDER.compare(this, other);
  }
}
