package io.headrace.sdk.sink;

import java.util.List;

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
   * Makes everything that was written durable. Called at the end of each part, by {@link #end}.
   *
   * @throws Exception if it fails; nothing of the part counts as written
   */
  default void flush() throws Exception {}

  /**
   * Ends a part: everything of it becomes durable. By default, calls {@link #flush}. A system that
   * judges rows after it has taken them refuses them here.
   *
   * @param part the part
   * @param rows how many rows it has; {@link #write} was not called if there are none
   * @return the rows that are refused only now, by their places in the part; by default none
   * @throws Exception if it fails; nothing of the part counts as written
   */
  default List<Outcomes.Refused> end(Part part, long rows) throws Exception {
    flush();
    return List.of();
  }
}
