package io.headrace.examples.jdbc;

import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A database of H2 in a folder, which is open until SHUTDOWN. */
record Tables(String url) {
  static Tables in(Path folder) {
    return new Tables("jdbc:h2:file:" + folder.resolve("test") + ";DB_CLOSE_DELAY=-1");
  }

  Database database() {
    return new Database(url, Map.of());
  }

  Connection connect() throws SQLException {
    return DriverManager.getConnection(url);
  }

  void execute(String... statements) throws SQLException {
    try (Connection connection = connect();
        Statement statement = connection.createStatement()) {
      for (String sql : statements) {
        statement.execute(sql);
      }
    }
  }

  /** The rows of a query, with a space between columns. */
  List<String> rows(String query) throws SQLException {
    try (Connection connection = connect();
        Statement statement = connection.createStatement();
        ResultSet found = statement.executeQuery(query)) {
      List<String> rows = new ArrayList<>();
      while (found.next()) {
        List<String> row = new ArrayList<>();
        for (int at = 1; at <= found.getMetaData().getColumnCount(); at++) {
          row.add(String.valueOf(found.getString(at)));
        }
        rows.add(String.join(" ", row));
      }
      return rows;
    }
  }
}
