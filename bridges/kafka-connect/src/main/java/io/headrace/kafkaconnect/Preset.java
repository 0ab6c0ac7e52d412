package io.headrace.kafkaconnect;

import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigException;

/** Connectors whose properties are made of parameters in words of their systems. */
final class Preset {
  /** The property with the folder of the manifest {@code kafka-connect}. */
  static final String FOLDER = "headrace.folder";

  private Preset() {}

  /** The folder with the jars of a preset, beside its manifest. */
  static Path plugin(String name) {
    return Path.of(System.getProperty(FOLDER, "."), "..", name, "plugin");
  }

  /** The properties of a connector. */
  static Map<String, String> properties(String name, Parameters given) {
    return switch (name) {
      case "debezium-postgresql" -> postgresql(given);
      case "debezium-mariadb" ->
          withHistory(given, "io.debezium.connector.mariadb.MariaDbConnector");
      case "debezium-mysql" -> withHistory(given, "io.debezium.connector.mysql.MySqlConnector");
      default -> throw new ConfigException("there is no preset %s".formatted(name));
    };
  }

  private static Map<String, String> postgresql(Parameters given) {
    Map<String, String> made = debezium(given);
    String slot = given.text("slot");
    if (slot == null) {
      // Names of slots have small letters, digits and _ only.
      String source = given.text("source").toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9_]", "_");
      slot = "headrace_" + source;
    }
    made.put("connector.class", "io.debezium.connector.postgresql.PostgresConnector");
    made.put("database.dbname", given.text("database"));
    made.put("plugin.name", "pgoutput");
    made.put("publication.autocreate.mode", "filtered");
    made.put("publication.name", slot);
    made.put("slot.name", slot);
    return made;
  }

  /** MariaDB or MySQL: older changes are read by the definitions of the tables at their time. */
  private static Map<String, String> withHistory(Parameters given, String connectorClass) {
    Map<String, String> made = debezium(given);
    made.put("connector.class", connectorClass);
    made.put("database.server.id", given.text("server_id"));
    // A table in the captured server would wait for the lock of the snapshot that writes it.
    Path history = history(given).toAbsolutePath();
    made.put("schema.history.internal", "io.debezium.storage.file.history.FileSchemaHistory");
    made.put("schema.history.internal.file.filename", history.toString());
    made.put("schema.history.internal.store.only.captured.tables.ddl", "true");
    made.put("include.schema.changes", "false");
    return made;
  }

  /** The file of the definitions: what is in the temporary folder would not outlive the machine. */
  private static Path history(Parameters given) {
    String named = given.text("history");
    if (named != null) {
      return Path.of(named);
    }
    String state = System.getenv("XDG_STATE_HOME");
    Path folder =
        state == null || state.isBlank()
            ? Path.of(System.getProperty("user.home"), ".local", "state")
            : Path.of(state);
    return folder.resolve("headrace").resolve(given.text("source") + ".history");
  }

  /** What all connectors of Debezium have: the row after a change, and no row after a delete. */
  private static Map<String, String> debezium(Parameters given) {
    Map<String, String> made = new TreeMap<>();
    made.put("tasks.max", "1");
    made.put("database.hostname", given.text("host"));
    made.put("database.port", given.text("port"));
    made.put("database.user", given.text("user"));
    String password = System.getenv("HEADRACE_SECRET_PASSWORD");
    made.put("database.password", password == null ? "" : password);
    made.put("topic.prefix", given.text("source"));
    made.put("table.include.list", String.join(",", given.list("tables")));
    made.put("snapshot.mode", given.text("snapshot"));
    made.put("heartbeat.interval.ms", String.valueOf(given.millis("heartbeat")));
    made.put("poll.interval.ms", "20");
    made.put("tombstones.on.delete", "false");
    // The default is a scale and bytes in Base64; a double would lose digits.
    made.put("decimal.handling.mode", "string");
    made.put("key.converter.schemas.enable", "false");
    made.put("value.converter.schemas.enable", "false");
    made.put("transforms", "time, row");
    made.put("transforms.time.type", EventTime.class.getName());
    made.put("transforms.row.type", "io.debezium.transforms.ExtractNewRecordState");
    made.put("transforms.row.delete.tombstone.handling.mode", "delete-to-tombstone");
    made.put("transforms.row.add.headers", "op,source.table");
    made.put("transforms.row.add.headers.prefix", "debezium.");
    return made;
  }
}
