package io.headrace.examples.jdbc;

import io.headrace.sdk.InvalidConnectorException;
import io.headrace.sdk.Reporter;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.Map;
import java.util.Properties;

/** A database, to which one connection is kept. Used by one thread at a time. */
final class Database implements AutoCloseable {
  private static final int TIMEOUT_S = 10;

  private final String url;
  private final Properties properties = new Properties();
  private Connection connection;

  /** A database at a URL; user and password are in JDBC_USER and JDBC_PASSWORD, if not in it. */
  Database(String url, Map<String, String> environment) {
    this.url = url;
    for (String name : new String[] {"user", "password"}) {
      String value = environment.get("JDBC_" + name.toUpperCase(java.util.Locale.ROOT));
      if (value != null && !value.isEmpty()) {
        properties.setProperty(name, value);
      }
    }
  }

  /** Another connection of its own to the same database. */
  Database another() {
    Database other = new Database(url, Map.of());
    other.properties.putAll(properties);
    return other;
  }

  /** The connection; a new one if there is none, or if it was lost. */
  Connection connection() throws SQLException {
    if (connection == null) {
      DriverManager.setLoginTimeout(TIMEOUT_S);
      connection = DriverManager.getConnection(url, properties);
    }
    return connection;
  }

  /** The connection, after the database has answered on it; a new one if it has not. */
  Connection answering() throws SQLException {
    if (connection != null && !isAlive()) {
      close();
    }
    return connection();
  }

  /** Asks the database something before anything else, so that mistakes show at once. */
  <T> T atFirst(Question<T> question) {
    try {
      return question.ask(connection());
    } catch (SQLException error) {
      close();
      throw new InvalidConnectorException(
          "the database: %s; check --url, JDBC_USER, JDBC_PASSWORD, and the names of table and columns"
              .formatted(error.getMessage()),
          error);
    }
  }

  /** Something that is asked of a database. */
  interface Question<T> {
    T ask(Connection connection) throws SQLException;
  }

  /**
   * Ends the connection after an error; the next call gets a new one.
   *
   * @return whether the database is away, rather than what it was asked wrong
   */
  boolean isAway(SQLException error) {
    boolean away = connection == null || isConnectionError(error) || !isAlive();
    close();
    return away;
  }

  /** Reports that the database is away. */
  static void report(Reporter reporter, SQLException error) {
    reporter.waiting("the database is away: " + error.getMessage());
  }

  @Override
  public void close() {
    if (connection != null) {
      try {
        connection.close();
      } catch (SQLException error) {
        // It is gone either way.
      }
      connection = null;
    }
  }

  private boolean isAlive() {
    try {
      return connection.isValid(TIMEOUT_S);
    } catch (SQLException error) {
      return false;
    }
  }

  private static boolean isConnectionError(SQLException error) {
    String state = error.getSQLState();
    // Class 08 is of the standard; PostgreSQL says 57P0x while it stops or starts.
    return state != null && (state.startsWith("08") || state.startsWith("57P"));
  }
}
