package io.headrace.examples.jdbc;

import io.headrace.sdk.Connector;
import io.headrace.sdk.HeadraceException;
import io.headrace.sdk.Position;
import io.headrace.sdk.Reporter;
import io.headrace.sdk.source.PartitionReader;
import io.headrace.sdk.source.ReplayableSource;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** Streams the rows of a table in the order in which it grows. */
public final class JdbcSource implements ReplayableSource {
  static final Set<String> OPTIONS =
      Set.of("url", "table", "order", "source", "key", "value-column", "lag", "poll");
  static final Set<String> FLAGS = Set.of("once");
  private static final Duration LAG = Duration.ofSeconds(10);
  private static final Duration POLL = Duration.ofMillis(100);

  private final String name;
  private final Database database;
  private final Table table;
  private final Duration lag;
  private final Duration poll;
  private final boolean once;
  private Reporter reporter;

  /**
   * A source as a command line describes it. It connects once, so that mistakes show at once.
   *
   * @throws io.headrace.sdk.InvalidConnectorException if an option is invalid, or the database
   *     cannot be reached
   */
  JdbcSource(Arguments arguments, Database database) {
    this.database = database;
    String tableName = arguments.require("table");
    this.name = arguments.require("source");
    this.lag = arguments.seconds("lag", LAG);
    this.poll = arguments.seconds("poll", POLL);
    this.once = arguments.has("once");
    List<Column> columns = database.atFirst(connection -> Column.of(connection, tableName));
    Growth growth = Growth.by(arguments.list("order").orElse(List.of("id")), columns);
    String paging =
        database.atFirst(connection -> Paging.of(connection, tableName, growth, TableReader.PAGE));
    database.close();
    this.table =
        new Table(
            tableName,
            growth,
            arguments.get("key").map(key -> Column.named(columns, key)).orElse(growth.id()),
            arguments.get("value-column").map(value -> Column.named(columns, value)),
            columns,
            paging);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Duration idleWait() {
    return poll;
  }

  @Override
  public void reportTo(Reporter reporter) {
    this.reporter = reporter;
  }

  @Override
  public PartitionReader open(String partition, Optional<Position> position) {
    Horizon horizon = new Horizon(lag, System::nanoTime);
    return new TableReader(table, database.another(), horizon, position, once, reporter);
  }

  /** Runs the source. */
  public static void main(String[] words) {
    try {
      Arguments arguments = new Arguments(words, OPTIONS, FLAGS);
      Database database = new Database(arguments.require("url"), System.getenv());
      System.exit(Connector.run(new JdbcSource(arguments, database)));
    } catch (HeadraceException error) {
      System.err.println("Error: " + error.getMessage());
      System.exit(error.exitCode());
    }
  }
}
