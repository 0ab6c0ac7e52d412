package io.headrace.sdk.sink;

import java.util.List;

/**
 * A sink that writes exactly once: it stages parts durably, votes, and makes them visible at a
 * Commit.
 *
 * <p>{@link #stage} is called on a thread for each part, and several may run at the same time. No
 * two of the other methods are called at the same time.
 */
public non-sealed interface TwoPhaseSink extends Sink {
  /**
   * Stores a part durably. Nothing of it may be visible yet; it must survive a crash until it is
   * committed, dropped or aborted.
   *
   * @param part the part
   * @param rows its rows, in order, as they arrive; read them to the end. {@link
   *     PartDroppedException} is thrown if the part is dropped meanwhile; let it pass
   * @return {@link Outcomes#ALL_WRITTEN}, or an outcome for each row of the part
   * @throws Exception if the part could not be staged; {@link #drop} is then called
   */
  Outcomes stage(Part part, RowStream rows) throws Exception;

  /**
   * Deletes everything that is stored of a part. Does nothing if nothing is stored.
   *
   * @param part the part
   * @throws Exception if it fails; this is logged
   */
  void drop(Part part) throws Exception;

  /**
   * Promises to commit these staged parts on request, even after a crash, and drops all other parts
   * of the transaction. Returning is the vote.
   *
   * @param transaction the transaction
   * @param parts the parts that count, by ascending partition
   * @throws Exception if a part is not staged, or it cannot promise; this votes against it
   */
  void prepare(Transaction transaction, List<Part> parts) throws Exception;

  /**
   * Makes a prepared transaction visible, durably. Does nothing if it is visible already.
   *
   * @param transaction the transaction
   * @throws Exception if it fails, or the transaction is unknown; the gateway asks again
   */
  void commit(Transaction transaction) throws Exception;

  /**
   * Drops everything of a transaction that is not committed. Does nothing if nothing is stored.
   *
   * @param transaction the transaction
   * @throws Exception if it fails; this is logged
   */
  void abort(Transaction transaction) throws Exception;

  /**
   * Reports what is stored, after it has completed a commit that a crash interrupted. Called each
   * time the connector connects.
   *
   * @return what is staged, prepared and committed
   * @throws Exception if it fails; the connector tries again
   */
  Recovered recover() throws Exception;
}
