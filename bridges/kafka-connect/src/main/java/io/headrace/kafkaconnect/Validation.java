package io.headrace.kafkaconnect;

import java.sql.SQLException;
import java.util.List;
import org.apache.kafka.common.config.ConfigException;

/** What the connector of a source says of its properties. */
final class Validation {
  private Validation() {}

  /** Validates everything as a run would, and returns a line about it. */
  static String checked(Options options) throws Exception {
    Declaration declaration = new Declaration(options.file(), options.plugins());
    int properties = declaration.requireValid();
    new Conversion(options.file(), options.plugins(), options.silentTopics(), options.badRecords())
        .close();
    return "%s: all properties are valid (%d), replay is %s%s"
        .formatted(declaration.name(), properties, options.replay().shown(), tables(options));
  }

  /** Refuses captured tables that do not exist; returns why nobody could look for them, if so. */
  private static String tables(Options options) {
    try {
      List<String> missing =
          options.database().isPresent() ? options.database().get().missing() : List.of();
      if (!missing.isEmpty()) {
        throw new ConfigException("tables: " + String.join("; ", missing));
      }
      return "";
    } catch (SQLException error) {
      return "; the tables could not be looked for: " + error.getMessage();
    }
  }

  /** The properties of a connector, a line for each. */
  static List<String> described(Options options) throws Exception {
    return new Declaration(options.file(), options.plugins())
        .described("replay " + options.replay().shown());
  }
}
