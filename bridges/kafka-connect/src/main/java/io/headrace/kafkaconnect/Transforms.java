package io.headrace.kafkaconnect;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * The single message transforms of a connector, in order, each with its predicate if it has one.
 *
 * @param <R> the records of the connector: a source's or a sink's
 */
public final class Transforms<R extends ConnectRecord<R>> {
  private final List<Step<R>> steps;

  private record Step<R extends ConnectRecord<R>>(
      String name,
      Transformation<R> transformation,
      Optional<Predicate<R>> predicate,
      boolean negated) {}

  private Transforms(List<Step<R>> steps) {
    this.steps = steps;
  }

  /**
   * The transforms that properties name.
   *
   * @throws ConfigException if one cannot be made, or its properties are invalid
   */
  public static <R extends ConnectRecord<R>> Transforms<R> of(
      ConnectorFile file, PluginPath plugins) {
    Map<String, Predicate<R>> predicates = predicates(file, plugins);
    List<Step<R>> steps = new ArrayList<>();
    for (String name : file.list("transforms")) {
      steps.add(step(name, file, plugins, predicates));
    }
    return new Transforms<>(List.copyOf(steps));
  }

  @SuppressWarnings("unchecked")
  private static <R extends ConnectRecord<R>> Map<String, Predicate<R>> predicates(
      ConnectorFile file, PluginPath plugins) {
    Map<String, Predicate<R>> predicates = new LinkedHashMap<>();
    for (String name : file.list("predicates")) {
      String prefix = "predicates." + name + ".";
      Predicate<R> predicate =
          plugins.make(prefix + "type", file.get(prefix + "type"), Predicate.class);
      predicate.configure(file.below(prefix));
      predicates.put(name, predicate);
    }
    return predicates;
  }

  @SuppressWarnings("unchecked")
  private static <R extends ConnectRecord<R>> Step<R> step(
      String name, ConnectorFile file, PluginPath plugins, Map<String, Predicate<R>> predicates) {
    String prefix = "transforms." + name + ".";
    Transformation<R> transformation =
        plugins.make(prefix + "type", file.get(prefix + "type"), Transformation.class);
    Map<String, String> settings = file.below(prefix);
    String predicate = settings.remove("predicate");
    boolean negated = Boolean.parseBoolean(settings.remove("negate"));
    if (predicate != null && !predicates.containsKey(predicate)) {
      throw new ConfigException(
          "%spredicate: there is no predicate %s: add it to predicates"
              .formatted(prefix, predicate));
    }
    try {
      transformation.configure(settings);
    } catch (ConfigException error) {
      throw new ConfigException(prefix + ": " + error.getMessage());
    }
    return new Step<>(
        name, transformation, Optional.ofNullable(predicate).map(predicates::get), negated);
  }

  /**
   * The record that is left; empty if a transform drops it.
   *
   * @throws BadRecordException if a transform or a predicate fails
   */
  public Optional<R> apply(R original) {
    R record = original;
    for (Step<R> step : steps) {
      try {
        if (step.predicate.isEmpty() || step.predicate.get().test(record) != step.negated) {
          record = step.transformation.apply(record);
        }
      } catch (RuntimeException error) {
        throw new BadRecordException("transforms." + step.name, error);
      }
      if (record == null) {
        return Optional.empty();
      }
    }
    return Optional.of(record);
  }

  /** Closes them all. */
  public void close() {
    for (Step<R> step : steps) {
      step.transformation.close();
      step.predicate.ifPresent(Predicate::close);
    }
  }
}
