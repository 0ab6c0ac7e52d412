package io.headrace.kafkaconnect;

import java.sql.Connection;
import java.sql.Driver;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.kafka.common.config.ConfigException;

/**
 * The database whose changes Debezium captures, as the bridge itself looks at it: with the driver
 * and the properties of the connector, on a connection for each look.
 */
abstract class Database {
  private static final int TIMEOUT_SECONDS = 10;

  private final ConnectorFile file;
  private final PluginPath plugins;
  private final String driver;
  private final String url;
  private final String tables;

  /**
   * A database.
   *
   * @param driver the class of the driver
   * @param url where it is
   * @param tables a query for the names of all tables, as the connector writes them
   */
  Database(ConnectorFile file, PluginPath plugins, String driver, String url, String tables) {
    this.file = file;
    this.plugins = plugins;
    this.driver = driver;
    this.url = url;
    this.tables = tables;
  }

  /** Where a server is, for its driver. */
  static String url(ConnectorFile file, String kind, int port, String database) {
    return "jdbc:%s://%s:%s/%s"
        .formatted(
            kind,
            file.get("database.hostname", "127.0.0.1"),
            file.get("database.port", String.valueOf(port)),
            database);
  }

  /**
   * What is wrong with the system, a line for each.
   *
   * @throws SQLException if it cannot be looked at
   */
  final List<String> problems() throws SQLException {
    try (Connection connection = connect()) {
      List<String> found = new ArrayList<>(problems(connection));
      found.addAll(missing(connection));
      return found;
    }
  }

  /** What else is wrong than tables that do not exist. */
  abstract List<String> problems(Connection connection) throws SQLException;

  /**
   * The captured tables that do not exist, a line for each: the connector itself captures nothing
   * then, and says nothing.
   *
   * @throws SQLException if it cannot be looked at
   */
  final List<String> missing() throws SQLException {
    try (Connection connection = connect()) {
      return missing(connection);
    }
  }

  private List<String> missing(Connection connection) throws SQLException {
    List<String> wanted = file.list("table.include.list");
    if (wanted.isEmpty()) {
      return List.of();
    }
    Set<String> there = new LinkedHashSet<>();
    try (Statement statement = connection.createStatement()) {
      statement.setQueryTimeout(TIMEOUT_SECONDS);
      try (ResultSet rows = statement.executeQuery(tables)) {
        while (rows.next()) {
          there.add(rows.getString(1));
        }
      }
    }
    List<String> missing = new ArrayList<>();
    for (String pattern : wanted) {
      if (there.stream().noneMatch(matches(pattern))) {
        missing.add(
            "there is no table %s: correct its name, or make it; tables are %s"
                .formatted(pattern, shown(there)));
      }
    }
    return missing;
  }

  /** As Debezium reads it: a regular expression for the whole name, in small or capital letters. */
  private static java.util.function.Predicate<String> matches(String pattern) {
    try {
      Pattern whole = Pattern.compile(pattern, Pattern.CASE_INSENSITIVE);
      return name -> whole.matcher(name).matches();
    } catch (PatternSyntaxException error) {
      throw new ConfigException(
          "table.include.list: %s is no regular expression: %s"
              .formatted(pattern, error.getDescription()));
    }
  }

  private static String shown(Set<String> tables) {
    List<String> some = tables.stream().sorted().limit(10).toList();
    String list = some.isEmpty() ? "none" : String.join(", ", some);
    return tables.size() > some.size() ? list + ", ..." : list;
  }

  private Connection connect() throws SQLException {
    Properties properties = new Properties();
    file.below("driver.").forEach(properties::setProperty);
    file.below("database.")
        .forEach(
            (name, value) -> {
              if (name.toLowerCase(Locale.ROOT).startsWith("ssl")) {
                properties.setProperty(name, value);
              }
            });
    properties.setProperty("user", file.get("database.user", ""));
    properties.setProperty("password", file.get("database.password", ""));
    timeouts(TIMEOUT_SECONDS).forEach((name, value) -> properties.put(name, value));
    ClassLoader loader = plugins.loaderOf(driver);
    Driver made = plugins.make("driver", driver, Driver.class);
    try {
      return Plugin.within(loader, () -> made.connect(url, properties));
    } catch (SQLException | RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new SQLException(error);
    }
  }

  /** The properties of the driver by which no look waits without end. */
  abstract Properties timeouts(int seconds);
}
