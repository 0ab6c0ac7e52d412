package io.headrace.sdk.sink;

import java.util.Collection;
import java.util.List;

/**
 * The transactions that a two-phase sink has stored.
 *
 * @param staged every part that is staged, also the parts of prepared transactions
 * @param prepared every transaction that is prepared and neither committed nor aborted
 * @param committed the last committed transaction of each pipeline of which anything was committed
 */
public record Recovered(
    Collection<Part> staged, Collection<Transaction> prepared, Collection<Transaction> committed) {
  /**
   * Copies the collections.
   *
   * @param staged every part that is staged, also the parts of prepared transactions
   * @param prepared every transaction that is prepared and neither committed nor aborted
   * @param committed the last committed transaction of each pipeline of which anything was
   *     committed
   */
  public Recovered {
    staged = List.copyOf(staged);
    prepared = List.copyOf(prepared);
    committed = List.copyOf(committed);
  }
}
