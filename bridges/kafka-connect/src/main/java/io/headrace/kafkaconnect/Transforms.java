package io.headrace.kafkaconnect;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * The single message transforms of a connector, in order, each with its predicate if it has one.
 */
final class Transforms {
  private final List<Step> steps;

  private record Step(
      String name,
      Transformation<SourceRecord> transformation,
      Optional<Predicate<SourceRecord>> predicate,
      boolean negated) {}

  private Transforms(List<Step> steps) {
    this.steps = steps;
  }

  @SuppressWarnings("unchecked")
  static Transforms of(ConnectorFile file, PluginPath plugins) {
    Map<String, Predicate<SourceRecord>> predicates = new LinkedHashMap<>();
    for (String name : file.list("predicates")) {
      String prefix = "predicates." + name + ".";
      Predicate<SourceRecord> predicate =
          plugins.make(prefix + "type", file.get(prefix + "type"), Predicate.class);
      predicate.configure(file.below(prefix));
      predicates.put(name, predicate);
    }
    List<Step> steps = new ArrayList<>();
    for (String name : file.list("transforms")) {
      String prefix = "transforms." + name + ".";
      Transformation<SourceRecord> transformation =
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
      steps.add(
          new Step(
              name, transformation, Optional.ofNullable(predicate).map(predicates::get), negated));
    }
    return new Transforms(List.copyOf(steps));
  }

  /** The record that is left; empty if a transform drops it. */
  Optional<SourceRecord> apply(SourceRecord original) {
    SourceRecord record = original;
    for (Step step : steps) {
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

  void close() {
    for (Step step : steps) {
      step.transformation.close();
      step.predicate.ifPresent(Predicate::close);
    }
  }
}
