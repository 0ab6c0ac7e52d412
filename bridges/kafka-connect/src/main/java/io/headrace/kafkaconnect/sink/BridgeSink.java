package io.headrace.kafkaconnect.sink;

import io.headrace.sdk.Reporter;
import io.headrace.sdk.sink.AtLeastOnceSink;
import io.headrace.sdk.sink.Outcomes;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.Rows;
import java.util.List;

/** A connector of Kafka Connect as a sink, at least once. */
public final class BridgeSink implements AtLeastOnceSink {
  private final SinkOptions options;
  private final SinkHost host;

  /**
   * A sink whose connector starts with the first rows.
   *
   * @throws org.apache.kafka.common.config.ConfigException if it is no sink connector
   */
  public BridgeSink(SinkOptions options) {
    this.options = options;
    this.host = new SinkHost(options, Clock.SYSTEM);
  }

  @Override
  public String name() {
    return options.sink();
  }

  @Override
  public String connector() {
    return "kafka-connect-sink";
  }

  @Override
  public String version() {
    return host.version();
  }

  @Override
  public void reportTo(Reporter reporter) {
    host.reportTo(reporter);
  }

  @Override
  public Outcomes write(Part part, Rows rows) throws Exception {
    options
        .secrets()
        .within(
            () -> {
              host.write(part, rows);
              return null;
            });
    return Outcomes.ALL_WRITTEN; // What is refused is told at the end of the part.
  }

  @Override
  public List<Outcomes.Refused> end(Part part, long rows) throws Exception {
    return options.secrets().within(() -> host.end(part, rows));
  }

  @Override
  public void close() {
    host.close();
  }
}
