package io.headrace.examples.jdbc;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.headrace.sdk.sink.Transaction;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.HexFormat;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;

/**
 * The table {@code headrace_batches}: the last batch of each pipeline that a sink has written. It
 * is written in the transaction that writes the rows.
 */
record Batches(String sink) {
  /** Makes the table, if there is none. */
  static void create(Connection connection) throws SQLException {
    if (exists(connection)) {
      return;
    }
    try (Statement statement = connection.createStatement()) {
      // Names are compared by their hashes: some databases do not tell upper and lower case apart.
      statement.execute(
          "CREATE TABLE headrace_batches (id VARCHAR(64) NOT NULL PRIMARY KEY, sink VARCHAR(255) NOT"
              + " NULL, pipeline VARCHAR(255) NOT NULL, batch BIGINT NOT NULL)");
    } catch (SQLException error) {
      if (!exists(connection)) { // Another sink may have made it just now.
        throw error;
      }
    }
  }

  private static boolean exists(Connection connection) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      statement.executeQuery("SELECT batch FROM headrace_batches WHERE 1 = 0").close();
      return true;
    } catch (SQLException error) {
      if (!connection.isValid(0)) {
        throw error;
      }
      return false;
    }
  }

  /**
   * Notes a batch in the transaction of its rows. Another process that writes the same batch waits
   * here, until one of the two has committed.
   *
   * @return whether the batch is to be written: it was not before
   */
  boolean claim(Connection connection, Transaction transaction) throws SQLException {
    String id = id(transaction.pipeline());
    try (PreparedStatement update =
        connection.prepareStatement(
            "UPDATE headrace_batches SET batch = ? WHERE id = ? AND batch < ?")) {
      update.setLong(1, transaction.batch());
      update.setString(2, id);
      update.setLong(3, transaction.batch());
      if (update.executeUpdate() == 1) {
        return true;
      }
    }
    if (last(connection, transaction.pipeline()).isPresent()) {
      return false;
    }
    try (PreparedStatement insert =
        connection.prepareStatement(
            "INSERT INTO headrace_batches (id, sink, pipeline, batch) VALUES (?, ?, ?, ?)")) {
      insert.setString(1, id);
      insert.setString(2, sink);
      insert.setString(3, transaction.pipeline());
      insert.setLong(4, transaction.batch());
      insert.executeUpdate();
      return true;
    }
  }

  /** The last batch of a pipeline. */
  OptionalLong last(Connection connection, String pipeline) throws SQLException {
    try (PreparedStatement select =
        connection.prepareStatement("SELECT batch FROM headrace_batches WHERE id = ?")) {
      select.setString(1, id(pipeline));
      try (ResultSet found = select.executeQuery()) {
        return found.next() ? OptionalLong.of(found.getLong(1)) : OptionalLong.empty();
      }
    }
  }

  /** The pipelines that have written. */
  Set<String> pipelines(Connection connection) throws SQLException {
    Set<String> pipelines = new TreeSet<>();
    try (PreparedStatement select =
        connection.prepareStatement("SELECT pipeline FROM headrace_batches WHERE sink = ?")) {
      select.setString(1, sink);
      try (ResultSet found = select.executeQuery()) {
        while (found.next()) {
          pipelines.add(found.getString(1));
        }
      }
    }
    return pipelines;
  }

  private String id(String pipeline) {
    try {
      MessageDigest hash = MessageDigest.getInstance("SHA-256");
      // The name of a sink has no space.
      return HexFormat.of().formatHex(hash.digest((sink + " " + pipeline).getBytes(UTF_8)));
    } catch (NoSuchAlgorithmException error) {
      throw new AssertionError("every Java runtime has SHA-256", error);
    }
  }
}
