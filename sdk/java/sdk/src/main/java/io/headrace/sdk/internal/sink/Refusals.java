package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.Staged;
import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.sink.Outcomes;
import java.util.List;
import java.util.TreeMap;

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
          "return one outcome for each row: %d expected, returned: %s".formatted(rows, outcomes));
    }
    return outcomes.refused().stream().map(refused -> refused(first, refused)).toList();
  }

  /**
   * The rows of a part that were refused, in order, each once.
   *
   * @param refused the rows that were refused as they were written
   * @param late the rows that were refused at the end, by their places in the part
   * @param rows the number of rows of the part
   * @throws InvalidMessageException if a place is not in the part
   */
  static List<Staged.Refused> joined(
      List<Staged.Refused> refused, List<Outcomes.Refused> late, long rows) {
    if (late == null) {
      throw new InvalidMessageException("the sink returned null instead of the refused rows");
    }
    TreeMap<Long, Staged.Refused> byPlace = new TreeMap<>();
    refused.forEach(one -> byPlace.put(one.getSequence(), one));
    for (Outcomes.Refused one : late) {
      if (one.place() < 0 || one.place() >= rows) {
        throw new InvalidMessageException(
            "the sink refused place %d; the places of this part are below %d"
                .formatted(one.place(), rows));
      }
      byPlace.putIfAbsent(one.place(), refused(0, one));
    }
    return List.copyOf(byPlace.values());
  }

  private static Staged.Refused refused(long first, Outcomes.Refused refused) {
    return Staged.Refused.newBuilder()
        .setSequence(first + refused.place())
        .setReason(String.valueOf(refused.reason()))
        .build();
  }

  /**
   * Checks that a part has arrived completely.
   *
   * @throws InvalidMessageException if rows are missing
   */
  static void checkWhole(long arrived, long rows) {
    if (arrived != rows) {
      throw new InvalidMessageException(
          "messages of a part: %d expected, %d arrived".formatted(rows, arrived));
    }
  }
}
