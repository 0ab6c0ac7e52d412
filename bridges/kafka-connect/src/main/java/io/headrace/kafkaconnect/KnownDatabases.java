package io.headrace.kafkaconnect;

import java.util.Optional;

/** Which databases the bridge looks at itself. */
final class KnownDatabases {
  private KnownDatabases() {}

  /** The database of a connector; empty if it is none that the bridge knows. */
  static Optional<Database> of(ConnectorFile file, PluginPath plugins, long maxWal) {
    return switch (file.connectorClass()) {
      case "io.debezium.connector.postgresql.PostgresConnector" ->
          Optional.of(new PostgresqlDatabase(file, plugins, maxWal));
      case "io.debezium.connector.mariadb.MariaDbConnector" ->
          Optional.of(new MysqlDatabase(file, plugins, "org.mariadb.jdbc.Driver", "mariadb", 3306));
      case "io.debezium.connector.mysql.MySqlConnector" ->
          Optional.of(new MysqlDatabase(file, plugins, "com.mysql.cj.jdbc.Driver", "mysql", 3306));
      default -> Optional.empty();
    };
  }
}
