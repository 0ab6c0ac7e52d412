package io.headrace.kafkaconnect;

import java.util.Locale;
import java.util.Set;
import org.apache.kafka.common.config.ConfigException;

/** What follows an offset of a connector: Connect itself only asks for "at least once". */
enum Replay {
  /**
   * The same records in the same order, except during a snapshot. A cursor is the offset of the
   * last record that was sent, and records get the same sequences again: exactly once.
   */
  EXACT,

  /**
   * Everything, in any order. A cursor is the offset of what was acknowledged when it was sent, so
   * that a micro-batch that runs again with other records loses none: at least once.
   */
  SAFE,

  /** Whatever the system behind was not told is acknowledged; offsets are of no use. */
  QUEUE;

  /** The connectors that were tried, and always repeat the same. */
  private static final Set<String> TRIED =
      Set.of(
          "org.apache.kafka.connect.file.FileStreamSourceConnector",
          "io.debezium.connector.postgresql.PostgresConnector",
          "io.debezium.connector.mariadb.MariaDbConnector");

  /** The kind of a connector: what its user says, or what is known of its class. */
  static Replay of(String said, String connectorClass) {
    if (said == null || said.equals("auto")) {
      return TRIED.contains(connectorClass) ? EXACT : SAFE;
    }
    try {
      return valueOf(said.toUpperCase(Locale.ROOT));
    } catch (IllegalArgumentException error) {
      throw new ConfigException("replay: %s: want auto, exact, safe or queue".formatted(said));
    }
  }

  String shown() {
    return name().toLowerCase(Locale.ROOT);
  }
}
