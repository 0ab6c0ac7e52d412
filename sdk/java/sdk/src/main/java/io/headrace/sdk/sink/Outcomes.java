package io.headrace.sdk.sink;

import java.util.ArrayList;
import java.util.List;

/**
 * What became of each row that a sink was given: one outcome for every row, in order. Any other
 * number is an error, and confirms nothing.
 *
 * <pre>{@code
 * Outcomes outcomes = Outcomes.ofEach();
 * for (Message row : rows) {
 *   if (isValid(row)) {
 *     outcomes.written();
 *   } else {
 *     outcomes.refused("not a number");
 *   }
 * }
 * return outcomes;
 * }</pre>
 */
public final class Outcomes {
  /** Every row is written. */
  public static final Outcomes ALL_WRITTEN = new Outcomes(true);

  private final boolean all;
  private final List<Refused> refused = new ArrayList<>();
  private long count;

  private Outcomes(boolean all) {
    this.all = all;
  }

  /**
   * A row that will never be accepted; it becomes a dead letter.
   *
   * @param place the place among the outcomes, counted from 0
   * @param reason the reason, for people
   */
  public record Refused(long place, String reason) {}

  /**
   * Outcomes to which one is added for each row.
   *
   * @return outcomes, without any
   */
  public static Outcomes ofEach() {
    return new Outcomes(false);
  }

  /**
   * The next row is written, or staged.
   *
   * @return this
   */
  public Outcomes written() {
    requireEach();
    count++;
    return this;
  }

  /**
   * The next row is refused permanently, and not written. To have Spark try again, throw an
   * exception instead.
   *
   * @param reason the reason, for people
   * @return this
   */
  public Outcomes refused(String reason) {
    requireEach();
    refused.add(new Refused(count, reason));
    count++;
    return this;
  }

  /**
   * The rows that are refused.
   *
   * @return by ascending place
   */
  public List<Refused> refused() {
    return List.copyOf(refused);
  }

  /**
   * Whether there is an outcome for each of that many rows.
   *
   * @param rows the number of rows
   * @return true if no outcome is missing or surplus
   */
  public boolean isFor(long rows) {
    return all || count == rows;
  }

  @Override
  public String toString() {
    return all
        ? "all written"
        : "written: " + (count - refused.size()) + ", refused: " + refused.size();
  }

  private void requireEach() {
    if (all) {
      throw new IllegalStateException("ALL_WRITTEN takes no outcomes: use Outcomes.ofEach()");
    }
  }
}
