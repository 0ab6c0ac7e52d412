package io.headrace.sdk.sink;

import java.util.OptionalLong;
import java.util.Set;

/**
 * A sink that writes each transaction atomically together with its id, and the same transaction
 * only once. The SDK keeps the rows, in memory and in a temporary file, until Spark has named the
 * parts that count. No two methods are called at the same time.
 */
public non-sealed interface IdempotentSink extends Sink {
  /**
   * Writes all rows of a transaction and its id, or nothing. If the id is already stored, it must
   * write nothing. Called again if it throws.
   *
   * @param transaction the id: the pipeline and the batch
   * @param rows all rows, by partition and in order
   * @throws Exception if they could not be written
   */
  void write(Transaction transaction, RowStream rows) throws Exception;

  /**
   * Examines rows as they arrive, and refuses rows that must not be written. In {@link #write}, it
   * is too late.
   *
   * @param rows the rows
   * @return {@link Outcomes#ALL_WRITTEN}, the default, or an outcome for each row
   * @throws Exception if they could not be examined; nothing of the part counts
   */
  default Outcomes check(Rows rows) throws Exception {
    return Outcomes.ALL_WRITTEN;
  }

  /**
   * The last batch of a pipeline that was written. {@link #write} is not called for it again.
   *
   * @param pipeline the pipeline
   * @return by default empty: unknown, or there is none
   * @throws Exception if it cannot be determined
   */
  default OptionalLong last(String pipeline) throws Exception {
    return OptionalLong.empty();
  }

  /**
   * The pipelines whose last batch is reported to the gateway when the connector starts.
   *
   * @return by default none
   * @throws Exception if they cannot be listed; the connector tries again
   */
  default Set<String> pipelines() throws Exception {
    return Set.of();
  }
}
