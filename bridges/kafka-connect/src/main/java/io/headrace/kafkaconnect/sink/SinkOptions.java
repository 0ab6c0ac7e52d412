package io.headrace.kafkaconnect.sink;

import io.headrace.kafkaconnect.BadRecords;
import io.headrace.kafkaconnect.ConnectorFile;
import io.headrace.kafkaconnect.Parameters;
import io.headrace.kafkaconnect.PluginPath;
import io.headrace.kafkaconnect.Secrets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The parameters of the manifest {@code kafka-connect-sink}.
 *
 * @param sink the name of the sink
 * @param plugins the plugins
 * @param file the properties of the connector
 * @param retryFor how long a task may be unable to write, or keep back what it was given
 * @param badRecords whether rows that cannot be written are left out, or else refused
 * @param secrets what nobody may see of the properties
 */
public record SinkOptions(
    String sink,
    PluginPath plugins,
    ConnectorFile file,
    Duration retryFor,
    BadRecords badRecords,
    Secrets secrets) {

  /**
   * Reads the properties.
   *
   * @throws org.apache.kafka.common.config.ConfigException if they cannot be used
   */
  public static SinkOptions of(Parameters given) {
    List<Path> folders = given.list("plugin_path").stream().map(Path::of).toList();
    PluginPath plugins = PluginPath.of(folders);
    ConnectorFile file = ConnectorFile.read(Path.of(given.text("config")), plugins);
    if (folders.isEmpty() && file.get("plugin.path") != null) {
      plugins = PluginPath.of(file.list("plugin.path").stream().map(Path::of).toList());
    }
    Topics.of(file);
    Secrets secrets = Secrets.of(file, plugins);
    return new SinkOptions(
        given.text("sink"),
        plugins,
        file,
        Duration.ofMillis(given.millis("retry_for")),
        badRecords(file, secrets),
        secrets);
  }

  /** As a worker: left out if all errors are tolerated, and no topic is named for them. */
  static BadRecords badRecords(ConnectorFile file, Secrets secrets) {
    boolean tolerant = file.get("errors.tolerance", "none").equals("all");
    boolean kept = !file.get("errors.deadletterqueue.topic.name", "").isBlank();
    BadRecords.Policy policy = tolerant && !kept ? BadRecords.Policy.SKIP : BadRecords.Policy.FAIL;
    return new BadRecords(policy, Optional.empty(), secrets);
  }

  /** What the connector gets: all properties, and a name. */
  Map<String, String> settings() {
    Map<String, String> settings = file.all();
    settings.putIfAbsent("name", sink);
    return settings;
  }
}
