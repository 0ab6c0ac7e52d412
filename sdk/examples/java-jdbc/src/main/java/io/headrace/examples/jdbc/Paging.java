package io.headrace.examples.jdbc;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;

/** How a query asks a database for the first rows only, so that it need not sort all. */
final class Paging {
  private static final List<String> WAYS =
      List.of("LIMIT %d", "FETCH FIRST %d ROWS ONLY", "OFFSET 0 ROWS FETCH NEXT %d ROWS ONLY");

  private Paging() {}

  /** What ends such a statement; empty if the database knows none of these. */
  static String of(Connection connection, String table, Growth growth, int rows)
      throws SQLException {
    for (String way : WAYS) {
      String end = way.formatted(rows);
      try (Statement statement = connection.createStatement()) {
        statement
            .executeQuery(
                "SELECT %s FROM %s WHERE 1 = 0 ORDER BY %s %s"
                    .formatted(growth.id().quoted(), table, growth.ascending(), end))
            .close();
        return end;
      } catch (SQLException error) {
        if (!connection.isValid(0)) {
          throw error;
        }
      }
    }
    return "";
  }
}
