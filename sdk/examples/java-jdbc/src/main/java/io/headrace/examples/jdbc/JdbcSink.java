package io.headrace.examples.jdbc;

import io.headrace.examples.jdbc.Target.InvalidRowException;
import io.headrace.sdk.Connector;
import io.headrace.sdk.HeadraceException;
import io.headrace.sdk.Message;
import io.headrace.sdk.Reporter;
import io.headrace.sdk.sink.IdempotentSink;
import io.headrace.sdk.sink.Outcomes;
import io.headrace.sdk.sink.RowStream;
import io.headrace.sdk.sink.Rows;
import io.headrace.sdk.sink.Transaction;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Inserts the rows of each batch into a table, exactly once: the same transaction of the database
 * notes the batch in {@code headrace_batches}.
 */
public final class JdbcSink implements IdempotentSink {
  static final Set<String> OPTIONS =
      Set.of("url", "table", "sink", "columns", "value-column", "key-column");
  private static final int AT_ONCE = 500;
  private static final Duration PATIENCE = Duration.ofMinutes(1);
  private static final Duration RETRY = Duration.ofMillis(500);

  private final String name;
  private final Database database;
  private final Target target;
  private final Batches batches;
  private Reporter reporter;

  /**
   * A sink as a command line describes it. It connects once, so that mistakes show at once.
   *
   * @throws io.headrace.sdk.InvalidConnectorException if an option is invalid, or the database
   *     cannot be reached
   */
  JdbcSink(Arguments arguments, Database database) {
    this.database = database;
    this.name = arguments.require("sink");
    this.batches = new Batches(name);
    String table = arguments.require("table");
    List<Column> all =
        database.atFirst(
            connection -> {
              Batches.create(connection);
              return Column.of(connection, table);
            });
    Optional<Column> value = arguments.get("value-column").map(column -> Column.named(all, column));
    Optional<Column> key = arguments.get("key-column").map(column -> Column.named(all, column));
    List<Column> columns =
        value
            .map(column -> Stream.concat(value.stream(), key.stream()).toList())
            .orElseGet(() -> columns(arguments, all));
    this.target = new Target(table, columns, value, key);
  }

  private static List<Column> columns(Arguments arguments, List<Column> all) {
    return arguments
        .list("columns")
        .map(names -> names.stream().map(column -> Column.named(all, column)).toList())
        .orElseGet(() -> all.stream().filter(column -> !column.generated()).toList());
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public void reportTo(Reporter reporter) {
    this.reporter = reporter;
  }

  @Override
  public Outcomes check(Rows rows) {
    Outcomes outcomes = Outcomes.ofEach();
    for (Message row : rows) {
      try {
        target.values(row);
        outcomes.written();
      } catch (InvalidRowException error) {
        outcomes.refused(error.getMessage());
      }
    }
    return outcomes;
  }

  @Override
  public void write(Transaction transaction, RowStream rows) throws Exception {
    ask(
        connection -> {
          connection.setAutoCommit(false);
          if (batches.claim(connection, transaction)) {
            insert(connection, rows);
          }
          connection.commit();
          return null;
        });
  }

  @Override
  public OptionalLong last(String pipeline) throws SQLException, InterruptedException {
    awaitDatabase(); // It is asked for the last batch before it is asked to write the next one.
    return ask(connection -> batches.last(connection, pipeline));
  }

  @Override
  public Set<String> pipelines() throws SQLException {
    return ask(batches::pipelines);
  }

  /**
   * Waits for a database that is away, before anything is written: an error would end the query.
   */
  private void awaitDatabase() throws SQLException, InterruptedException {
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    while (true) {
      try {
        database.answering();
        return;
      } catch (SQLException error) {
        Database.report(reporter, error);
        if (System.nanoTime() - deadline >= 0) {
          throw error;
        }
        Thread.sleep(RETRY.toMillis());
      }
    }
  }

  private void insert(Connection connection, RowStream stream) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(target.insert())) {
      int waiting = 0;
      for (Rows rows : stream) {
        for (Message row : rows) {
          target.bind(statement, row);
          statement.addBatch();
          if (++waiting == AT_ONCE) {
            statement.executeBatch();
            waiting = 0;
          }
        }
      }
      if (waiting > 0) {
        statement.executeBatch();
      }
    } catch (InvalidRowException error) {
      throw new AssertionError("check() has let it pass", error);
    }
  }

  /** Asks the database, whose open transaction ends with the connection if that fails. */
  private <T> T ask(Database.Question<T> question) throws SQLException {
    try {
      Connection connection = database.answering();
      connection.setAutoCommit(true);
      T answer = question.ask(connection);
      reporter.running();
      return answer;
    } catch (SQLException error) {
      if (database.isAway(error)) {
        Database.report(reporter, error);
      }
      throw error;
    } catch (RuntimeException | Error error) {
      database.close();
      throw error;
    }
  }

  /** Runs the sink. */
  public static void main(String[] words) {
    try {
      Arguments arguments = new Arguments(words, OPTIONS, Set.of());
      Database database = new Database(arguments.require("url"), System.getenv());
      System.exit(Connector.run(new JdbcSink(arguments, database)));
    } catch (HeadraceException error) {
      System.err.println("Error: " + error.getMessage());
      System.exit(error.exitCode());
    }
  }
}
