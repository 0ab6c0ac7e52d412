package io.headrace.kafkaconnect;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.source.SourceConnector;

/** What a connector, of a source or of a sink, declares of itself and of its properties. */
public final class Declaration {
  private final Connector connector;
  private final ConnectorFile file;
  private final ClassLoader loader;

  /**
   * The declaration of the connector that properties name.
   *
   * @throws ConfigException if it cannot be made
   */
  public Declaration(ConnectorFile file, PluginPath plugins) {
    this.connector = plugins.make("connector.class", file.connectorClass(), Connector.class);
    this.file = file;
    this.loader = plugins.loaderOf(file.connectorClass());
  }

  /** Its class, without the package, and its version. */
  public String name() {
    return "%s %s".formatted(connector.getClass().getSimpleName(), connector.version());
  }

  /**
   * Refuses a sink.
   *
   * @throws ConfigException if it is one; its text names the connector of Headrace to run
   */
  public void requireSource() {
    if (!(connector instanceof SourceConnector)) {
      throw new ConfigException(
          "connector.class: %s is no source: run kafka-connect-sink --sink NAME with it"
              .formatted(connector.getClass().getName()));
    }
  }

  /**
   * Refuses a source.
   *
   * @throws ConfigException if it is one; its text names the connector of Headrace to run
   */
  public void requireSink() {
    if (!(connector instanceof SinkConnector)) {
      throw new ConfigException(
          "connector.class: %s is no sink: run kafka-connect --source NAME with it"
              .formatted(connector.getClass().getName()));
    }
  }

  /**
   * Validates the properties as the connector does; returns how many it has.
   *
   * @throws ConfigException if some are invalid; its text names each
   */
  public int requireValid() throws Exception {
    file.mostTasks();
    Config config = Plugin.within(loader, () -> connector.validate(file.all()));
    List<String> errors = new ArrayList<>();
    for (ConfigValue value : config.configValues()) {
      for (String message : value.errorMessages()) {
        errors.add(message.contains(value.name()) ? message : value.name() + ": " + message);
      }
    }
    if (!errors.isEmpty()) {
      throw new ConfigException(String.join("; ", errors));
    }
    return config.configValues().size();
  }

  /** A line about the connector, and one for each of its properties. */
  public List<String> described(String kind) throws Exception {
    ConfigDef definition = Plugin.within(loader, connector::config);
    List<String> lines = new ArrayList<>();
    lines.add("%s %s, %s".formatted(connector.getClass().getName(), connector.version(), kind));
    for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
      String begins = key.hasDefault() ? "default " + key.defaultValue : "required";
      String type = key.type.name().toLowerCase(Locale.ROOT);
      lines.add("%s (%s, %s): %s".formatted(key.name, type, begins, key.documentation));
    }
    return lines;
  }
}
