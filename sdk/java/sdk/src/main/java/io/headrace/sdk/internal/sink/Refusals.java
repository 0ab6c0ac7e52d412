package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.Staged;
import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.sink.Outcomes;
import java.util.List;

/** Checks what a sink says of rows. */
final class Refusals {
  private Refusals() {}

  /**
   * The rows that were refused, by their places in the part.
   *
   * @param outcomes what the sink returned
   * @param first the place of the first row
   * @param rows the number of rows that it was given
   * @throws InvalidMessageException if not every row has one outcome
   */
  static List<Staged.Refused> of(Outcomes outcomes, long first, long rows) {
    if (outcomes == null) {
      throw new InvalidMessageException("the sink returned null instead of Outcomes");
    }
    if (!outcomes.isFor(rows)) {
      throw new InvalidMessageException(
          "%s for %d rows: return one outcome for each row".formatted(outcomes, rows));
    }
    return outcomes.refused().stream()
        .map(
            refused ->
                Staged.Refused.newBuilder()
                    .setSequence(first + refused.place())
                    .setReason(String.valueOf(refused.reason()))
                    .build())
        .toList();
  }

  /**
   * Checks that a part has arrived completely.
   *
   * @throws InvalidMessageException if rows are missing
   */
  static void checkWhole(long arrived, long rows) {
    if (arrived != rows) {
      throw new InvalidMessageException(
          "%d rows of a part have arrived, and it has %d".formatted(arrived, rows));
    }
  }
}
