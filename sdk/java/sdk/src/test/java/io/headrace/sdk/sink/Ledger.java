package io.headrace.sdk.sink;

import io.headrace.sdk.Message;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * A two-phase sink in memory, for tests. It refuses the value `bad`, unless a test says otherwise.
 */
public final class Ledger implements TwoPhaseSink {
  private final Map<Part, List<String>> staged = new LinkedHashMap<>();
  private final Set<Transaction> prepared = new LinkedHashSet<>();
  private final TreeMap<Transaction, List<String>> visible = new TreeMap<>();

  private final String name;
  private final Function<Message, String> shown;
  private final Predicate<String> refused;
  private final Predicate<String> failing;

  Hook beforeStaging = part -> {};
  Hook afterStaging = part -> {};

  /** A test's action while a part is staged. */
  interface Hook {
    void at(Part part) throws Exception;
  }

  /** A ledger of texts. */
  public Ledger() {
    this("ledger", Message::valueAsString, "bad"::equals, value -> false);
  }

  /** A ledger that shows, refuses and fails on values as a test says. */
  public Ledger(
      String name,
      Function<Message, String> shown,
      Predicate<String> refused,
      Predicate<String> failing) {
    this.name = name;
    this.shown = shown;
    this.refused = refused;
    this.failing = failing;
  }

  /** Its visible rows, by transaction, partition and row. */
  public synchronized List<String> visible() {
    return visible.values().stream().flatMap(List::stream).toList();
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Outcomes stage(Part part, RowStream stream) throws Exception {
    beforeStaging.at(part);
    Outcomes outcomes = Outcomes.ofEach();
    List<String> values = new ArrayList<>();
    for (Rows rows : stream) {
      for (Message row : rows) {
        String value = shown.apply(row);
        if (failing.test(value)) {
          throw new IllegalStateException("fails on " + value);
        }
        if (refused.test(value)) {
          outcomes.refused("is bad");
        } else {
          values.add(value);
          outcomes.written();
        }
      }
    }
    synchronized (this) {
      staged.put(part, values);
    }
    afterStaging.at(part);
    return outcomes;
  }

  @Override
  public synchronized void drop(Part part) {
    staged.remove(part);
  }

  @Override
  public synchronized void prepare(Transaction transaction, List<Part> parts) {
    staged
        .keySet()
        .removeIf(part -> part.transaction().equals(transaction) && !parts.contains(part));
    if (!staged.keySet().containsAll(parts)) {
      throw new IllegalStateException("a part is not staged");
    }
    prepared.add(transaction);
  }

  @Override
  public synchronized void commit(Transaction transaction) {
    if (visible.containsKey(transaction)) {
      return;
    }
    if (!prepared.remove(transaction)) {
      throw new IllegalStateException("unknown: " + transaction);
    }
    List<String> rows = new ArrayList<>();
    staged.keySet().stream()
        .filter(part -> part.transaction().equals(transaction))
        .sorted(Comparator.comparingInt(Part::partition))
        .forEach(part -> rows.addAll(staged.get(part)));
    visible.put(transaction, rows);
    abort(transaction);
  }

  @Override
  public synchronized void abort(Transaction transaction) {
    prepared.remove(transaction);
    staged.keySet().removeIf(part -> part.transaction().equals(transaction));
  }

  @Override
  public synchronized Recovered recover() {
    List<Transaction> last = visible.isEmpty() ? List.of() : List.of(visible.lastKey());
    return new Recovered(staged.keySet(), prepared, last);
  }
}
