package io.headrace.examples.jdbc;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.headrace.examples.jdbc.Growth.Mark;
import io.headrace.sdk.Position;
import io.headrace.sdk.Reporter;
import io.headrace.sdk.source.Attributes;
import io.headrace.sdk.source.Backlog;
import io.headrace.sdk.source.Batch;
import io.headrace.sdk.source.PartitionReader;
import io.headrace.sdk.source.Progress;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Optional;

/** Reads the rows of a table after a position, page by page. */
final class TableReader implements PartitionReader {
  static final int PAGE = 1000;
  private static final long RETRY_NANOS = Duration.ofSeconds(1).toNanos();

  private final Table table;
  private final Database database;
  private final Horizon horizon;
  private final boolean once;
  private final Reporter reporter;
  private Optional<Mark> at;
  private Optional<Mark> readTo = Optional.empty();
  private Optional<Mark> newest = Optional.empty();
  private boolean looked;
  private long retryAt = System.nanoTime();

  TableReader(
      Table table,
      Database database,
      Horizon horizon,
      Optional<Position> position,
      boolean once,
      Reporter reporter) {
    this.table = table;
    this.database = database;
    this.horizon = horizon;
    this.once = once;
    this.reporter = reporter;
    this.at = table.growth().at(position);
  }

  @Override
  public Progress read(Batch batch) throws SQLException {
    if (System.nanoTime() - retryAt < 0) {
      return Progress.IDLE;
    }
    try {
      Progress progress = advance(batch, database.connection());
      reporter.running();
      return progress;
    } catch (SQLException error) {
      if (!database.isAway(error)) {
        throw error;
      }
      Database.report(reporter, error);
      retryAt = System.nanoTime() + RETRY_NANOS;
      return Progress.IDLE;
    }
  }

  @Override
  public Optional<Backlog> backlog() {
    // The sequence of the last row is known only where it is the row's number.
    return newest
        .filter(mark -> table.growth().time().isEmpty())
        .map(mark -> Backlog.upTo(Math.max(mark.id(), 0)));
  }

  @Override
  public void close() {
    database.close();
  }

  private Progress advance(Batch batch, Connection connection) throws SQLException {
    if (readTo.equals(horizon.limit()) && !(once && looked)) {
      look(connection);
    }
    Optional<Mark> limit = horizon.limit();
    if (readTo.equals(limit)) {
      return once && !horizon.isAhead() ? Progress.END : Progress.IDLE;
    }
    if (readPage(batch, connection, limit.orElseThrow())) {
      readTo = limit;
    }
    return Progress.MORE;
  }

  /** Notes the newest row. */
  private void look(Connection connection) throws SQLException {
    Growth growth = table.growth();
    try (PreparedStatement statement = connection.prepareStatement(growth.newest(table.name()));
        ResultSet rows = statement.executeQuery()) {
      newest =
          rows.next() && rows.getObject(growth.width()) != null
              ? Optional.of(growth.newest(rows))
              : Optional.empty();
    }
    newest.ifPresent(horizon::saw);
    looked = true;
  }

  /** Adds rows up to a limit; returns whether there are no more of them. */
  private boolean readPage(Batch batch, Connection connection, Mark limit) throws SQLException {
    Growth growth = table.growth();
    String sql =
        "SELECT %s FROM %s WHERE %s ORDER BY %s %s"
            .formatted(
                Column.selected(table.columns()),
                table.name(),
                growth.between(at.isPresent()),
                growth.ascending(),
                table.paging());
    int count = 0;
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      statement.setMaxRows(PAGE);
      growth.bind(statement, limit, at);
      try (ResultSet rows = statement.executeQuery()) {
        while (!(count > 0 && batch.isFull()) && rows.next()) {
          add(batch, rows);
          count++;
        }
        return count < PAGE && !batch.isFull();
      }
    }
  }

  private void add(Batch batch, ResultSet row) throws SQLException {
    Mark mark = table.growth().mark(row, at);
    String key = row.getString(table.key().place());
    Attributes attributes =
        batch.add(mark.sequence(), key == null ? null : key.getBytes(UTF_8), value(row));
    if (mark.time() != null) {
      attributes.eventTime(mark.instant());
    }
    table.growth().cursor(mark).ifPresent(batch::cursor);
    at = Optional.of(mark);
  }

  private byte[] value(ResultSet row) throws SQLException {
    if (table.value().isEmpty()) {
      return Json.of(row, table.columns());
    }
    Column column = table.value().get();
    if (column.isBinary()) {
      return row.getBytes(column.place());
    }
    String text = row.getString(column.place());
    return text == null ? null : text.getBytes(UTF_8);
  }
}
