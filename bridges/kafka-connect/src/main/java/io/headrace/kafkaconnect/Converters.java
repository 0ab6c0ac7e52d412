package io.headrace.kafkaconnect;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/** Makes the converters that the properties of a connector name. */
public final class Converters {
  private static final String JSON = "org.apache.kafka.connect.json.JsonConverter";
  private static final String SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter";

  private Converters() {}

  /**
   * The converter of keys; of JSON unless another is named.
   *
   * @throws ConfigException if it cannot be made, or its properties are invalid
   */
  public static Converter ofKeys(ConnectorFile file, PluginPath plugins) {
    return converter("key.converter", true, file, plugins);
  }

  /**
   * The converter of values; of JSON unless another is named.
   *
   * @throws ConfigException if it cannot be made, or its properties are invalid
   */
  public static Converter ofValues(ConnectorFile file, PluginPath plugins) {
    return converter("value.converter", false, file, plugins);
  }

  /**
   * The converter of headers.
   *
   * @throws ConfigException if it cannot be made, or its properties are invalid
   */
  public static HeaderConverter ofHeaders(ConnectorFile file, PluginPath plugins) {
    String name = file.get("header.converter", SIMPLE);
    HeaderConverter headers = plugins.make("header.converter", name, HeaderConverter.class);
    Map<String, Object> settings = new HashMap<>(file.below("header.converter."));
    settings.put("converter.type", "header");
    headers.configure(settings);
    return headers;
  }

  private static Converter converter(
      String property, boolean isKey, ConnectorFile file, PluginPath plugins) {
    Converter converter = plugins.make(property, file.get(property, JSON), Converter.class);
    try {
      converter.configure(file.below(property + "."), isKey);
    } catch (ConfigException error) {
      throw new ConfigException(property + ": " + error.getMessage());
    }
    return converter;
  }
}
