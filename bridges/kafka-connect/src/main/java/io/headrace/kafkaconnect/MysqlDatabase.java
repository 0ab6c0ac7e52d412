package io.headrace.kafkaconnect;

import java.sql.Connection;
import java.util.List;
import java.util.Properties;

/** MariaDB or MySQL. */
final class MysqlDatabase extends Database {
  private static final String TABLES =
      "SELECT concat(table_schema, '.', table_name) FROM information_schema.tables"
          + " WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('mysql', 'performance_schema', 'sys')";

  MysqlDatabase(ConnectorFile file, PluginPath plugins, String driver, String kind, int port) {
    super(file, plugins, driver, url(file, kind, port, ""), TABLES);
  }

  @Override
  List<String> problems(Connection connection) {
    return List.of();
  }

  @Override
  Properties timeouts(int seconds) {
    Properties properties = new Properties();
    for (String name : List.of("connectTimeout", "socketTimeout")) {
      properties.setProperty(name, String.valueOf(1000L * seconds));
    }
    return properties;
  }
}
