package io.headrace.kafkaconnect;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigTransformer;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.common.config.provider.DirectoryConfigProvider;
import org.apache.kafka.common.config.provider.EnvVarConfigProvider;
import org.apache.kafka.common.config.provider.FileConfigProvider;

/** The properties of a connector, as a standalone worker of Connect reads them. */
public final class ConnectorFile {
  private static final Pattern VARIABLE = Pattern.compile("\\$\\{([^}:]+):([^}]*)}");

  private final Map<String, String> properties;
  private final Set<String> resolved;

  private ConnectorFile(Map<String, String> properties, Set<String> resolved) {
    this.properties = properties;
    this.resolved = resolved;
  }

  /** Reads a file, and replaces what {@code ${provider:path:key}} stands for. */
  public static ConnectorFile read(Path path, PluginPath plugins) {
    Properties read = new Properties();
    try (Reader reader = Files.newBufferedReader(path)) {
      read.load(reader);
    } catch (IOException | IllegalArgumentException error) {
      throw new ConfigException(
          "config: %s cannot be read: %s".formatted(path.toAbsolutePath(), error));
    }
    Map<String, String> given = new TreeMap<>();
    read.forEach((name, value) -> given.put((String) name, ((String) value).strip()));
    return of(given, plugins);
  }

  public static ConnectorFile of(Map<String, String> given, PluginPath plugins) {
    ConnectorFile raw = new ConnectorFile(new TreeMap<>(given), Set.of());
    Map<String, ConfigProvider> providers = providers(raw, plugins);
    try {
      Set<String> values = new TreeSet<>();
      Map<String, ConfigProvider> noting = new LinkedHashMap<>();
      providers.forEach((name, provider) -> noting.put(name, new NotingProvider(provider, values)));
      ConfigTransformer transformer = new ConfigTransformer(noting);
      Map<String, String> resolved = new TreeMap<>();
      given.forEach((name, value) -> resolved.put(name, resolved(name, value, transformer)));
      resolved.forEach((name, value) -> requireResolved(name, value, providers));
      return new ConnectorFile(resolved, values);
    } finally {
      for (ConfigProvider provider : providers.values()) {
        closeQuietly(provider);
      }
    }
  }

  private static String resolved(String name, String value, ConfigTransformer transformer) {
    try {
      return transformer.transform(Map.of(name, value)).data().get(name);
    } catch (ConfigException error) {
      throw new ConfigException(name + ": " + error.getMessage());
    }
  }

  private static Map<String, ConfigProvider> providers(ConnectorFile raw, PluginPath plugins) {
    Map<String, ConfigProvider> providers = new LinkedHashMap<>();
    providers.put("file", new FileConfigProvider());
    providers.put("env", new EnvVarConfigProvider());
    providers.put("directory", new DirectoryConfigProvider());
    for (String name : raw.list("config.providers")) {
      String property = "config.providers." + name + ".class";
      providers.put(name, plugins.make(property, raw.get(property), ConfigProvider.class));
    }
    providers.forEach(
        (name, provider) -> provider.configure(raw.below("config.providers." + name + ".param.")));
    return providers;
  }

  private static void requireResolved(
      String name, String value, Map<String, ConfigProvider> providers) {
    Matcher found = VARIABLE.matcher(value);
    while (found.find()) {
      if (providers.containsKey(found.group(1))) {
        throw new ConfigException(
            "%s: %s stands for nothing: set it, or correct the path and the key"
                .formatted(name, found.group()));
      }
    }
  }

  private static void closeQuietly(ConfigProvider provider) {
    try {
      provider.close();
    } catch (IOException error) {
      throw new ConfigException("config.providers: %s".formatted(error));
    }
  }

  /** What providers gave, which may be secret. */
  Set<String> resolved() {
    return resolved;
  }

  /** The value of a property, or null. */
  public String get(String name) {
    return properties.get(name);
  }

  public String get(String name, String otherwise) {
    return properties.getOrDefault(name, otherwise);
  }

  /** The names in a property, between commas. */
  public List<String> list(String name) {
    String value = get(name, "").strip();
    return value.isEmpty() ? List.of() : List.of(value.split("\\s*,\\s*"));
  }

  /** The properties below a prefix, without it. */
  public Map<String, String> below(String prefix) {
    Map<String, String> found = new TreeMap<>();
    properties.forEach(
        (name, value) -> {
          if (name.startsWith(prefix)) {
            found.put(name.substring(prefix.length()), value);
          }
        });
    return found;
  }

  /** All, as the connector gets them. */
  public Map<String, String> all() {
    return new TreeMap<>(properties);
  }

  public String connectorClass() {
    String name = get("connector.class");
    if (name == null) {
      throw new ConfigException(
          "connector.class is missing: name the connector by its whole class name");
    }
    return name;
  }

  /** How many tasks there may be. */
  public int mostTasks() {
    String text = get("tasks.max", "1");
    try {
      int most = Integer.parseInt(text);
      if (most >= 1) {
        return most;
      }
    } catch (NumberFormatException error) {
      // It is said below.
    }
    throw new ConfigException("tasks.max: %s: want a number of at least 1".formatted(text));
  }
}
