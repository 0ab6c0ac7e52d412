package io.headrace.kafkaconnect;

import io.headrace.sdk.Position;
import io.headrace.sdk.Reporter;
import io.headrace.sdk.source.PartitionReader;
import io.headrace.sdk.source.PositionLostException;
import io.headrace.sdk.source.ReplayableSource;
import java.util.Optional;

/** A connector of Kafka Connect as a source: one stream with the records of all its tasks. */
final class BridgeSource implements ReplayableSource {
  private static final long WAIT_MILLIS = 5;

  private final Options options;
  private final RecordLog log;
  private final BadRecords badRecords;
  private final Host host;

  BridgeSource(Options options, RecordLog log, BadRecords badRecords, Host host) {
    this.options = options;
    this.log = log;
    this.badRecords = badRecords;
    this.host = host;
  }

  @Override
  public String name() {
    return options.source();
  }

  @Override
  public String connector() {
    return "kafka-connect";
  }

  @Override
  public String version() {
    return "%s, replay %s".formatted(host.version(), options.replay().shown());
  }

  @Override
  public void reportTo(Reporter reporter) {
    host.health().reportTo(reporter);
  }

  @Override
  public PartitionReader open(String partition, Optional<Position> position) throws Exception {
    long acknowledged = log.acknowledgedSequence();
    if (position.isEmpty() && acknowledged > 0) {
      throw new PositionLostException(
          ("a query asks for the first message, and this bridge has had messages up to %d acknowledged, which it no"
                  + " longer has: for a second query, run another bridge with a source of its own; for a new checkpoint of"
                  + " the only query, restart this one")
              .formatted(acknowledged),
          acknowledged + 1);
    }
    options
        .secrets()
        .within(
            () -> {
              host.resume(position);
              return null;
            });
    long resumed = position.map(Position::sequence).orElse(0L);
    return new BridgeReader(
        this::attend, log, badRecords, resumed, options.forgetPartitions(), WAIT_MILLIS);
  }

  /** What it throws ends the connector, and is in its log and in its health. */
  private void attend() throws Exception {
    options
        .secrets()
        .within(
            () -> {
              host.attend();
              return null;
            });
  }

  @Override
  public void close() throws Exception {
    host.close();
  }
}
