package io.headrace.kafkaconnect;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * What {@code headrace connector run} hands over: the parameters of the manifest.
 *
 * @param source the name of the source; its stream is {@code SOURCE/0}
 * @param plugins the plugins
 * @param file the properties of the connector
 * @param replay what follows an offset of it
 * @param memory how many bytes may be unacknowledged
 * @param database what the bridge looks at itself; empty if it does not know the connector's
 * @param completeAfter when an offset that nothing follows counts as complete
 * @param silentTopics beginnings of topics whose records only move the offset
 * @param forgetPartitions whether a cursor that is too long forgets the oldest partitions
 * @param badRecords what happens to records that cannot be sent
 * @param secrets what nobody may see of the properties
 */
record Options(
    String source,
    PluginPath plugins,
    ConnectorFile file,
    Replay replay,
    long memory,
    Optional<Database> database,
    Duration completeAfter,
    List<String> silentTopics,
    boolean forgetPartitions,
    BadRecords badRecords,
    Secrets secrets) {
  private static final long MAX_WAL = 1L << 30;

  /** Of the manifest {@code kafka-connect}: the properties are in a file. */
  static Options of(Parameters given) {
    List<Path> folders = given.list("plugin_path").stream().map(Path::of).toList();
    PluginPath plugins = PluginPath.of(folders);
    ConnectorFile file = ConnectorFile.read(Path.of(given.text("config")), plugins);
    if (folders.isEmpty() && file.get("plugin.path") != null) {
      plugins = PluginPath.of(file.list("plugin.path").stream().map(Path::of).toList());
    }
    return of(given, plugins, file);
  }

  /** Of the manifest of a preset: the properties are made of its parameters. */
  static Options of(String preset, Parameters given) {
    PluginPath plugins = PluginPath.of(List.of(Preset.plugin(preset)));
    return of(given, plugins, ConnectorFile.of(Preset.properties(preset, given), plugins));
  }

  private static Options of(Parameters given, PluginPath plugins, ConnectorFile file) {
    String source = given.text("source");
    Secrets secrets = Secrets.of(file, plugins);
    return new Options(
        source,
        plugins,
        file,
        Replay.of(given.text("replay"), file.connectorClass()),
        given.number("memory").longValue(),
        KnownDatabases.of(file, plugins, maxWal(given)),
        Duration.ofMillis(given.millis("complete_after")),
        given.list("silent_topics"),
        given.flag("forget_partitions"),
        badRecords(source, given, file, secrets),
        secrets);
  }

  /** How many bytes of its log a server may keep for the connector. */
  private static long maxWal(Parameters given) {
    Number most = given.number("max_wal");
    return most == null ? MAX_WAL : most.longValue();
  }

  /** By the parameters of all sources, or else by {@code errors.tolerance}. */
  private static BadRecords badRecords(
      String source, Parameters given, ConnectorFile file, Secrets secrets) {
    Optional<Path> folder = Optional.ofNullable(given.text("dead_letters")).map(Path::of);
    String said = given.text("bad_records");
    if (said == null) {
      boolean tolerant = file.get("errors.tolerance", "none").equals("all");
      said = !tolerant ? "fail" : folder.isPresent() ? "dead-letter" : "skip";
    }
    BadRecords.Policy policy = BadRecords.policy(said);
    if (policy == BadRecords.Policy.DEAD_LETTER && folder.isEmpty()) {
      throw new org.apache.kafka.common.config.ConfigException(
          "bad_records is dead-letter: name a folder for them with dead_letters");
    }
    return new BadRecords(
        policy,
        policy == BadRecords.Policy.DEAD_LETTER
            ? folder.map(path -> new DeadLetters(path, source))
            : Optional.empty(),
        secrets);
  }
}
