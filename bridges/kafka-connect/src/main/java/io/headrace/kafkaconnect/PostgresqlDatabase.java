package io.headrace.kafkaconnect;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Properties;

/**
 * PostgreSQL. Its server keeps the log after the point that the slot has confirmed, whatever room
 * that takes, or, with {@code max_slot_wal_keep_size}, until the slot is lost.
 */
final class PostgresqlDatabase extends Database {
  private static final String TABLES =
      "SELECT n.nspname || '.' || c.relname FROM pg_class c"
          + " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p')"
          + " AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'";
  private static final String SLOT =
      "SELECT wal_status, safe_wal_size, pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery()"
          + " THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, restart_lsn)::bigint"
          + " FROM pg_replication_slots WHERE slot_name = ?";

  private final String slot;
  private final long maxWal;
  private boolean seen;

  /**
   * The database of a connector.
   *
   * @param maxWal how many bytes the slot may keep
   */
  PostgresqlDatabase(ConnectorFile file, PluginPath plugins, long maxWal) {
    super(
        file,
        plugins,
        "org.postgresql.Driver",
        url(file, "postgresql", 5432, file.get("database.dbname", "")),
        TABLES);
    this.slot = file.get("slot.name", "debezium");
    this.maxWal = maxWal;
  }

  @Override
  List<String> problems(Connection connection) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(SLOT)) {
      statement.setString(1, slot);
      try (ResultSet rows = statement.executeQuery()) {
        if (rows.next()) {
          seen = true;
          long safe = rows.getLong(2);
          safe = rows.wasNull() ? Long.MAX_VALUE : safe; // without max_slot_wal_keep_size
          return problems(rows.getString(1), safe, rows.getLong(3));
        }
      }
    }
    // The connector makes it when it starts.
    return seen
        ? List.of(
            "the slot %s is gone, and the changes after it: read the tables anew, as a new source"
                .formatted(slot))
        : List.of();
  }

  /**
   * What is wrong with a slot.
   *
   * @param status what the server says of the log that it keeps for it
   * @param safe how many bytes may be written until it is lost
   * @param kept how many bytes are kept
   */
  List<String> problems(String status, long safe, long kept) {
    if ("lost".equals(status)) {
      return List.of(
          "the server has removed what the slot %s needs: drop it, and read the tables anew, as a new source"
              .formatted(slot));
    }
    List<String> found = new ArrayList<>();
    if (kept > maxWal) {
      found.add(
          "the slot %s keeps %s of the log on the disk of the server, more than max_wal (%s): have a query read on, or drop the slot"
              .formatted(slot, shown(kept), shown(maxWal)));
    }
    if ("unreserved".equals(status) || safe < kept) {
      found.add(
          "the slot %s is lost after %s more: have a query read on, or raise max_slot_wal_keep_size"
              .formatted(slot, shown(Math.max(0, safe))));
    }
    return found;
  }

  private static String shown(long bytes) {
    return bytes >= 1_000_000_000
        ? String.format(Locale.ROOT, "%.1f GB", bytes / 1e9)
        : String.format(Locale.ROOT, "%.1f MB", bytes / 1e6);
  }

  @Override
  Properties timeouts(int seconds) {
    Properties properties = new Properties();
    for (String name : List.of("connectTimeout", "loginTimeout", "socketTimeout")) {
      properties.setProperty(name, String.valueOf(seconds));
    }
    return properties;
  }
}
