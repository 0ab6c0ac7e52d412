package io.headrace.kafkaconnect;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.source.SourceConnector;

/** What a connector says of its properties. */
final class Validation {
  private Validation() {}

  /** Validates everything as a run would, and returns a line about it. */
  static String checked(Options options) throws Exception {
    SourceConnector connector = connector(options);
    ClassLoader loader = options.plugins().loaderOf(options.file().connectorClass());
    options.file().mostTasks();
    Config config = Plugin.within(loader, () -> connector.validate(options.file().all()));
    List<String> errors = errors(config);
    if (!errors.isEmpty()) {
      throw new ConfigException(String.join("; ", errors));
    }
    new Conversion(options.file(), options.plugins(), options.silentTopics(), options.badRecords())
        .close();
    return "%s %s: %d properties are valid, replay is %s"
        .formatted(
            connector.getClass().getSimpleName(),
            connector.version(),
            config.configValues().size(),
            options.replay().shown());
  }

  /** The properties of a connector, a line for each. */
  static List<String> described(Options options) throws Exception {
    SourceConnector connector = connector(options);
    ClassLoader loader = options.plugins().loaderOf(options.file().connectorClass());
    ConfigDef definition = Plugin.within(loader, connector::config);
    List<String> lines = new ArrayList<>();
    lines.add(
        "%s %s, replay %s"
            .formatted(
                connector.getClass().getName(), connector.version(), options.replay().shown()));
    for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
      String begins = key.hasDefault() ? "default " + key.defaultValue : "required";
      lines.add(
          "%s (%s, %s): %s"
              .formatted(
                  key.name,
                  key.type.name().toLowerCase(java.util.Locale.ROOT),
                  begins,
                  key.documentation));
    }
    return lines;
  }

  private static SourceConnector connector(Options options) {
    return options
        .plugins()
        .make("connector.class", options.file().connectorClass(), SourceConnector.class);
  }

  private static List<String> errors(Config config) {
    List<String> errors = new ArrayList<>();
    for (ConfigValue value : config.configValues()) {
      for (String message : value.errorMessages()) {
        errors.add(message.contains(value.name()) ? message : value.name() + ": " + message);
      }
    }
    return errors;
  }
}
