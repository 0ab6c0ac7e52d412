package io.headrace.sdk.sink;

/**
 * A sink that writes at least once: what Spark delivers again after a failure is written again. No
 * two methods are called at the same time.
 */
public non-sealed interface AtLeastOnceSink extends Sink {
  /**
   * Writes rows. Rows of different parts may alternate; rows of one part come in order.
   *
   * @param part the part; with the place of a row, it identifies the row
   * @param rows the rows
   * @return {@link Outcomes#ALL_WRITTEN}, or an outcome for each row
   * @throws Exception if the rows could not be written; nothing of the part counts as written
   */
  Outcomes write(Part part, Rows rows) throws Exception;

  /**
   * Makes everything that was written durable. Called at the end of each part.
   *
   * @throws Exception if it fails; nothing of the part counts as written
   */
  default void flush() throws Exception {}
}
