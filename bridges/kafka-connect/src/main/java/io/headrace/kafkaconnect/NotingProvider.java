package io.headrace.kafkaconnect;

import java.io.IOException;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.provider.ConfigProvider;

/** A config provider, and a note of what it gave. */
final class NotingProvider implements ConfigProvider {
  private final ConfigProvider provider;
  private final Set<String> values;

  NotingProvider(ConfigProvider provider, Set<String> values) {
    this.provider = provider;
    this.values = values;
  }

  @Override
  public ConfigData get(String path) {
    return noted(provider.get(path));
  }

  @Override
  public ConfigData get(String path, Set<String> keys) {
    return noted(provider.get(path, keys));
  }

  private ConfigData noted(ConfigData data) {
    data.data().values().stream().filter(value -> value != null).forEach(values::add);
    return data;
  }

  @Override
  public void configure(Map<String, ?> settings) {
    provider.configure(settings);
  }

  @Override
  public void close() throws IOException {
    provider.close();
  }
}
