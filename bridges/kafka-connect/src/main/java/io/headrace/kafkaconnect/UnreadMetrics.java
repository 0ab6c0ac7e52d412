package io.headrace.kafkaconnect;

import java.util.LinkedHashMap;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.MetricValueProvider;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.Sensor;

/** Metrics that a plugin may register; nobody reads them. */
public final class UnreadMetrics implements PluginMetrics, AutoCloseable {
  private final Metrics metrics = new Metrics();

  @Override
  @SuppressWarnings("NonApiType") // Kafka's
  public MetricName metricName(
      String name, String description, LinkedHashMap<String, String> tags) {
    return metrics.metricName(name, "plugin", description, tags);
  }

  @Override
  public void addMetric(MetricName name, MetricValueProvider<?> provider) {}

  @Override
  public void removeMetric(MetricName name) {}

  @Override
  public Sensor addSensor(String name) {
    return metrics.sensor(name);
  }

  @Override
  public void removeSensor(String name) {
    metrics.removeSensor(name);
  }

  @Override
  public void close() {
    metrics.close();
  }
}
