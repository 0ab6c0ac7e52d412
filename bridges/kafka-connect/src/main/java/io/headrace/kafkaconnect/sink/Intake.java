package io.headrace.kafkaconnect.sink;

import io.headrace.kafkaconnect.BadRecordException;
import io.headrace.kafkaconnect.ConnectorFile;
import io.headrace.kafkaconnect.Converters;
import io.headrace.kafkaconnect.PluginPath;
import io.headrace.kafkaconnect.Transforms;
import io.headrace.sdk.Header;
import io.headrace.sdk.Message;
import java.time.Instant;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/** Converts messages to records, and transforms them. */
final class Intake {
  /** The header of a message that only fills a micro-batch of a source of Connect. */
  private static final String FILLER = "connect.marker";

  private final Topics topics;
  private final Transforms<SinkRecord> transforms;
  private final Converter key;
  private final Converter value;
  private final HeaderConverter headers;

  /** By the properties of a connector. */
  Intake(ConnectorFile file, PluginPath plugins) {
    this.topics = Topics.of(file);
    this.transforms = Transforms.of(file, plugins);
    this.key = Converters.ofKeys(file, plugins);
    this.value = Converters.ofValues(file, plugins);
    this.headers = Converters.ofHeaders(file, plugins);
  }

  /**
   * A message as a row; empty if it has no content.
   *
   * @throws BadRecordException if it has no topic, or a converter or transform fails
   */
  Optional<Row> of(Message message, int partition, long offset) {
    if (message.headers().stream().anyMatch(header -> header.name().equals(FILLER))) {
      return Optional.empty();
    }
    String topic = topicOf(message);
    SinkRecord record = converted(message, topic, partition, offset);
    return Optional.of(
        new Row(new TopicPartition(topic, partition), offset, transforms.apply(record)));
  }

  private String topicOf(Message message) {
    try {
      return topics.of(message);
    } catch (IllegalArgumentException error) {
      throw new BadRecordException("topics", error);
    }
  }

  private SinkRecord converted(Message message, String topic, int partition, long offset) {
    Headers raw = new RecordHeaders();
    ConnectHeaders carried = new ConnectHeaders();
    for (Header header : message.headers()) {
      if (!header.name().equals(Topics.HEADER)) {
        raw.add(header.name(), header.value());
        SchemaAndValue one =
            or(
                "header.converter",
                () -> headers.toConnectHeader(topic, header.name(), header.value()));
        carried.add(header.name(), one);
      }
    }
    SchemaAndValue itsKey = or("key.converter", () -> key.toConnectData(topic, raw, message.key()));
    SchemaAndValue itsValue =
        or("value.converter", () -> value.toConnectData(topic, raw, message.value()));
    Instant time = message.eventTime();
    return new SinkRecord(
        topic,
        partition,
        itsKey.schema(),
        itsKey.value(),
        itsValue.schema(),
        itsValue.value(),
        offset,
        time == null ? null : (Long) time.toEpochMilli(),
        time == null ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME,
        carried);
  }

  private interface Conversion {
    SchemaAndValue call();
  }

  private static SchemaAndValue or(String property, Conversion conversion) {
    try {
      return conversion.call();
    } catch (RuntimeException error) {
      throw new BadRecordException(property, error);
    }
  }

  void close() {
    transforms.close();
  }
}
