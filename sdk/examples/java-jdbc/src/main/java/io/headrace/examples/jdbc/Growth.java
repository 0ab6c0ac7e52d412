package io.headrace.examples.jdbc;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.headrace.sdk.InvalidConnectorException;
import io.headrace.sdk.Position;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Optional;

/**
 * The columns by which a table grows: an integer, or a timestamp and an integer that tells rows of
 * the same time apart.
 */
record Growth(Optional<Column> time, Column id) {
  /** How many sequences a microsecond has, before the sequences of the next one are used. */
  private static final long PER_MICROSECOND = 1024;

  /**
   * A row in the order of the table.
   *
   * @param sequence its sequence; 0 if it is not known
   * @param time its time, as the driver gives it; null without a column for it
   * @param id its number
   */
  record Mark(long sequence, Object time, long id) {
    Instant instant() {
      return time instanceof OffsetDateTime zoned
          ? zoned.toInstant()
          : ((LocalDateTime) time).toInstant(ZoneOffset.UTC);
    }
  }

  /**
   * Finds the columns.
   *
   * @throws InvalidConnectorException if they are not of these types
   */
  static Growth by(List<String> names, List<Column> columns) {
    if (names.isEmpty() || names.size() > 2) {
      throw new InvalidConnectorException(
          "--order %s: want an integer column, or a timestamp and an integer column"
              .formatted(String.join(",", names)));
    }
    Optional<Column> time =
        names.size() == 1 ? Optional.empty() : Optional.of(Column.named(columns, names.get(0)));
    Column id = Column.named(columns, names.get(names.size() - 1));
    if (!id.isInteger() || !time.map(Column::isTimestamp).orElse(true)) {
      throw new InvalidConnectorException(
          "--order %s: %s is of type %s, and%s; want an integer column, or a timestamp and an integer column"
              .formatted(
                  String.join(",", names),
                  id.name(),
                  id.typeName(),
                  time.map(column -> " " + column.name() + " of type " + column.typeName())
                      .orElse(" there is no other")));
    }
    return new Growth(time, id);
  }

  /** The condition for rows up to a mark, and after another one if there is one. */
  String between(boolean hasAfter) {
    String condition =
        time.map(
                column ->
                    "%1$s <= ? AND (%1$s < ? OR %2$s <= ?)".formatted(column.quoted(), id.quoted()))
            .orElse(id.quoted() + " <= ?");
    if (!hasAfter) {
      return condition;
    }
    return condition
        + time.map(
                column ->
                    " AND %1$s >= ? AND (%1$s > ? OR %2$s > ?)"
                        .formatted(column.quoted(), id.quoted()))
            .orElse(" AND " + id.quoted() + " > ?");
  }

  /** Sets the parameters of {@link #between}. */
  void bind(PreparedStatement statement, Mark last, Optional<Mark> after) throws SQLException {
    int next = bind(statement, 1, last);
    if (after.isPresent()) {
      bind(statement, next, after.get());
    }
  }

  private int bind(PreparedStatement statement, int first, Mark mark) throws SQLException {
    int at = first;
    if (time.isPresent()) {
      statement.setObject(at++, mark.time());
      statement.setObject(at++, mark.time());
    }
    statement.setLong(at++, mark.id());
    return at;
  }

  String ascending() {
    return time.map(column -> column.quoted() + ", ").orElse("") + id.quoted();
  }

  /** Selects the columns of the newest row; nothing, or null, if there is none. */
  String newest(String table) {
    return time.map(
            column ->
                ("SELECT %1$s, MAX(%2$s) AS %2$s FROM %3$s WHERE %1$s ="
                        + " (SELECT MAX(%1$s) FROM %3$s WHERE %2$s IS NOT NULL) GROUP BY %1$s")
                    .formatted(column.quoted(), id.quoted(), table))
        .orElseGet(() -> "SELECT MAX(%1$s) AS %1$s FROM %2$s".formatted(id.quoted(), table));
  }

  /** How many columns {@link #newest(String)} selects; the last one is the number of the row. */
  int width() {
    return time.isPresent() ? 2 : 1;
  }

  /** The mark of the row that {@link #newest(String)} has selected. */
  Mark newest(ResultSet row) throws SQLException {
    return mark(row, 1, width(), Optional.empty());
  }

  /** The mark of the row at hand, which follows another one. */
  Mark mark(ResultSet row, Optional<Mark> before) throws SQLException {
    return mark(row, time.map(Column::place).orElse(0), id.place(), before);
  }

  private Mark mark(ResultSet row, int timeAt, int idAt, Optional<Mark> before)
      throws SQLException {
    long number = row.getLong(idAt);
    if (time.isEmpty()) {
      if (number < 0) {
        throw new IllegalStateException(
            "column %s has the value %d: an order by it alone needs 0 or more"
                .formatted(id.name(), number));
      }
      return new Mark(number, null, number);
    }
    Class<?> type = time.get().isZoned() ? OffsetDateTime.class : LocalDateTime.class;
    Mark found = new Mark(0, row.getObject(timeAt, type), number);
    // The sequence follows from the time, so that a row that vanishes does not move those after it.
    long micros = ChronoUnit.MICROS.between(Instant.EPOCH, found.instant());
    long next = before.map(Mark::sequence).orElse(0L) + 1;
    return new Mark(
        Math.max(next, Math.multiplyExact(micros, PER_MICROSECOND)), found.time, number);
  }

  /**
   * The rest of a position besides the sequence; the sequence is the number of the row otherwise.
   */
  Optional<byte[]> cursor(Mark mark) {
    return time.map(
        column -> "%d %s %d".formatted(mark.sequence, mark.time, mark.id).getBytes(UTF_8));
  }

  /** Where to continue: at the position, or before it; empty at the beginning. */
  Optional<Mark> at(Optional<Position> position) {
    if (time.isEmpty()) {
      return position.map(at -> new Mark(at.sequence(), null, at.sequence()));
    }
    return position
        .flatMap(Position::cursor)
        .map(cursor -> new String(cursor, UTF_8).split(" ", 3))
        .map(
            parts -> new Mark(Long.parseLong(parts[0]), parse(parts[1]), Long.parseLong(parts[2])));
  }

  private Object parse(String text) {
    return time.orElseThrow().isZoned() ? OffsetDateTime.parse(text) : LocalDateTime.parse(text);
  }
}
