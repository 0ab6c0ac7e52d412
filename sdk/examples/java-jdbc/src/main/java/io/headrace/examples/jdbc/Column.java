package io.headrace.examples.jdbc;

import io.headrace.sdk.InvalidConnectorException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * A column of a table.
 *
 * @param place its place among the columns of the table, from 1: names may differ only in case
 * @param name its name
 * @param quoted its name as it is written in SQL
 * @param type its type in {@link Types}
 * @param typeName its type as the database calls it
 * @param size how many digits or characters it has; 0 if that is unknown
 * @param scale how many of the digits are behind the point
 * @param nullable whether it may be null
 * @param generated whether the database numbers the rows
 */
record Column(
    int place,
    String name,
    String quoted,
    int type,
    String typeName,
    int size,
    int scale,
    boolean nullable,
    boolean generated) {
  private static final Set<Integer> INTEGERS =
      Set.of(Types.TINYINT, Types.SMALLINT, Types.INTEGER, Types.BIGINT);

  /** The columns of a table. */
  static List<Column> of(Connection connection, String table) throws SQLException {
    String quote = connection.getMetaData().getIdentifierQuoteString().trim();
    List<Column> columns = new ArrayList<>();
    try (PreparedStatement none =
        connection.prepareStatement("SELECT * FROM " + table + " WHERE 1 = 0")) {
      ResultSetMetaData found = none.executeQuery().getMetaData();
      for (int at = 1; at <= found.getColumnCount(); at++) {
        String name = found.getColumnName(at);
        columns.add(
            new Column(
                at,
                name,
                quote + name.replace(quote, quote + quote) + quote,
                found.getColumnType(at),
                found.getColumnTypeName(at),
                found.getPrecision(at),
                found.getScale(at),
                found.isNullable(at) != ResultSetMetaData.columnNoNulls,
                found.isAutoIncrement(at)));
      }
    }
    return columns;
  }

  /** How columns are selected, each in its place. */
  static String selected(List<Column> columns) {
    return columns.stream().map(Column::quoted).collect(Collectors.joining(", "));
  }

  /**
   * Finds a column by its name.
   *
   * @throws InvalidConnectorException if there is none
   */
  static Column named(List<Column> columns, String name) {
    return find(columns, name)
        .orElseThrow(
            () ->
                new InvalidConnectorException(
                    "there is no column %s: want one of %s"
                        .formatted(name, columns.stream().map(Column::name).toList())));
  }

  /** Finds the column of a name, or else the only one whose name differs from it in case alone. */
  static Optional<Column> find(List<Column> columns, String name) {
    List<Column> alike =
        columns.stream().filter(column -> column.name.equalsIgnoreCase(name)).toList();
    return alike.stream()
        .filter(column -> alike.size() == 1 || column.name.equals(name))
        .findFirst();
  }

  boolean isInteger() {
    return INTEGERS.contains(type);
  }

  boolean isBinary() {
    return type == Types.BINARY
        || type == Types.VARBINARY
        || type == Types.LONGVARBINARY
        || type == Types.BLOB;
  }

  boolean isTimestamp() {
    return type == Types.TIMESTAMP || type == Types.TIMESTAMP_WITH_TIMEZONE;
  }

  /** Whether it has instants, rather than what a clock on a wall shows. */
  boolean isZoned() {
    String called = typeName.toLowerCase(Locale.ROOT);
    return type == Types.TIMESTAMP_WITH_TIMEZONE
        || called.equals("timestamptz")
        || called.contains("with time zone")
        || called.equals("datetimeoffset");
  }
}
