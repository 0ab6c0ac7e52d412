package io.headrace.kafkaconnect;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * A transform of Debezium's changes: their event time becomes the time at which the database made
 * them.
 *
 * @param <R> the type of records
 */
public final class EventTime<R extends ConnectRecord<R>> implements Transformation<R> {
  /** Makes it for the properties that name its class. */
  public EventTime() {}

  @Override
  public R apply(R record) {
    if (!(record.value() instanceof Struct change) || change.schema().field("source") == null) {
      return record;
    }
    Struct source = change.getStruct("source");
    if (source == null || source.schema().field("ts_ms") == null) {
      return record;
    }
    return record.newRecord(
        record.topic(),
        record.kafkaPartition(),
        record.keySchema(),
        record.key(),
        record.valueSchema(),
        record.value(),
        source.getInt64("ts_ms"));
  }

  @Override
  public ConfigDef config() {
    return new ConfigDef();
  }

  @Override
  public void configure(Map<String, ?> settings) {}

  @Override
  public void close() {}
}
