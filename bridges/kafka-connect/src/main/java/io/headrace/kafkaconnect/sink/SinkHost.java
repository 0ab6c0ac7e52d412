package io.headrace.kafkaconnect.sink;

import io.headrace.kafkaconnect.BadRecord;
import io.headrace.kafkaconnect.BadRecordException;
import io.headrace.sdk.Message;
import io.headrace.sdk.Reporter;
import io.headrace.sdk.sink.Outcomes;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.Rows;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Gives the rows of parts to the tasks of a connector, and ends a part only when its task says that
 * it is durable. For one call at a time.
 */
final class SinkHost implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(SinkHost.class);
  private static final Duration FIRST_RETRY = Duration.ofSeconds(1);
  private static final Duration MAX_RETRY = Duration.ofMinutes(1);
  private static final Duration FIRST_LOOK = Duration.ofMillis(20);
  private static final Duration MAX_LOOK = Duration.ofSeconds(1);

  private final SinkOptions options;
  private final Clock clock;
  private final HostedConnector connector;
  private final Places places = new Places();
  private volatile Reporter reporter;
  private String reported = "";

  /** The parts whose rows the tasks have, by the number of their partition. */
  private final Map<Integer, Delivery> deliveries = new ConcurrentHashMap<>();

  SinkHost(SinkOptions options, Clock clock) {
    this.options = options;
    this.clock = clock;
    this.connector = new HostedConnector(options, clock, this::refuse);
  }

  String version() {
    return connector.version();
  }

  void reportTo(Reporter to) {
    reporter = to;
  }

  /**
   * Gives rows to the task of their partition.
   *
   * @throws Exception if the part has failed: nothing of it counts
   */
  void write(Part part, Rows rows) throws Exception {
    unlessItFails(
        part,
        () -> {
          Delivery delivery = rows.place(0) == 0 ? begun(part) : known(part);
          give(delivery, rows);
          return null;
        });
  }

  /**
   * Waits until the task says that everything of a part is durable.
   *
   * @return the rows that it has refused
   * @throws Exception if the part has failed: nothing of it counts
   */
  List<Outcomes.Refused> end(Part part, long rows) throws Exception {
    if (rows == 0) {
      return List.of();
    }
    return unlessItFails(
        part,
        () -> {
          Delivery delivery = known(part);
          if (delivery.rows() != rows) {
            throw new PartFailedException(
                "rows of a part: %d expected, %d written".formatted(rows, delivery.rows()));
          }
          cover(delivery);
          deliveries.remove(places.partition(part), delivery);
          return delivery.refused();
        });
  }

  /** Begins a part. What an older attempt has of its partition no longer counts. */
  private Delivery begun(Part part) throws Exception {
    int partition = places.partition(part);
    deliveries.remove(partition);
    if (deliveries.values().stream().noneMatch(other -> mayStillEnd(other.part(), part))) {
      connector.reconfigureIfAsked();
    }
    HostedTask task = connector.task(partition);
    task.rewind(partition, Places.offset(part, 0));
    Delivery delivery = new Delivery(part, task);
    deliveries.put(partition, delivery);
    return delivery;
  }

  /** A part that was begun in an earlier batch of the pipeline was given up. */
  private static boolean mayStillEnd(Part other, Part begun) {
    return !other.transaction().pipeline().equals(begun.transaction().pipeline())
        || other.transaction().batch() >= begun.transaction().batch();
  }

  private Delivery known(Part part) {
    Delivery delivery = deliveries.get(places.partition(part));
    if (delivery == null || !delivery.part().equals(part)) {
      throw new PartFailedException(
          "rows of the part were lost, as the connector was started again, or a newer attempt has begun");
    }
    return delivery;
  }

  private void give(Delivery delivery, Rows rows) throws Exception {
    List<Row> taken = new ArrayList<>();
    for (Message message : rows) {
      taken(delivery, message).ifPresent(taken::add);
    }
    delivery.came(rows.size());
    delivery.task().expect(taken);
    List<SinkRecord> records = new ArrayList<>();
    for (Row row : taken) {
      row.record()
          .ifPresent(
              record -> {
                delivery.given(row);
                records.add(record);
              });
    }
    if (!records.isEmpty()) {
      put(delivery.task(), taken, records);
    }
  }

  private Optional<Row> taken(Delivery delivery, Message message) throws IOException {
    Part part = delivery.part();
    try {
      return delivery
          .task()
          .intake()
          .of(message, places.partition(part), Places.offset(part, message.sequence()));
    } catch (BadRecordException error) {
      String reason = options.secrets().masked(error.getMessage());
      if (!options.badRecords().takes(BadRecord.of(message), reason)) {
        delivery.refuse(message.sequence(), reason);
      }
      return Optional.empty();
    }
  }

  /** Called by tasks, on any thread. */
  private void refuse(SinkRecord record, Throwable error) {
    String reason = options.secrets().masked(String.valueOf(error));
    try {
      if (options.badRecords().takes(BadRecord.of(record), reason)) {
        return;
      }
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    long offset = record.originalKafkaOffset();
    Delivery delivery = deliveries.get(record.originalKafkaPartition());
    if (delivery == null || Places.offset(delivery.part(), Places.place(offset)) != offset) {
      LOG.error("a row is refused after its part was acknowledged, and is lost: {}", reason);
      return;
    }
    delivery.refuse(Places.place(offset), reason);
  }

  /**
   * Puts records, again until the task takes them. One that never does fails: after a {@link
   * RetriableException}, a task may count on getting the same records next.
   */
  private void put(HostedTask task, List<Row> rows, List<SinkRecord> records) throws Exception {
    Patience patience = new Patience(clock, options.retryFor(), FIRST_RETRY, MAX_RETRY);
    while (true) {
      connector.requireSound();
      String why;
      try {
        if (!task.isPaused(rows)) {
          task.put(records);
          waits("");
          return;
        }
        why = "%s has paused the partition".formatted(task.name());
        task.put(List.of());
      } catch (RetriableException error) {
        why = "%s tries again: %s".formatted(task.name(), error);
      }
      if (patience.isOver()) {
        throw new ConnectException(patience.givenUp(why));
      }
      waits(why);
      patience.await(task.takeTimeout());
    }
  }

  private void cover(Delivery delivery) throws Exception {
    HostedTask task = delivery.task();
    Patience patience = new Patience(clock, options.retryFor(), FIRST_LOOK, MAX_LOOK);
    while (true) {
      connector.requireSound();
      String why = "%s keeps rows back, which preCommit() does not cover".formatted(task.name());
      try {
        if (task.covers(delivery.ends())) {
          waits("");
          return;
        }
        task.put(List.of());
      } catch (RetriableException error) {
        why = "%s tries again to commit: %s".formatted(task.name(), error);
      }
      if (patience.isOver()) {
        throw new PartFailedException(patience.givenUp(why));
      }
      waits(why);
      patience.await(task.takeTimeout());
    }
  }

  /** A failure of a task or of the connector is one of all parts that they have. */
  private <T> T unlessItFails(Part part, Callable<T> call) throws Exception {
    try {
      return call.call();
    } catch (PartFailedException | InterruptedException error) {
      deliveries.values().removeIf(delivery -> delivery.part().equals(part));
      throw error;
    } catch (VirtualMachineError error) {
      throw error;
    } catch (Throwable error) { // whatever it is, the gateway must learn of it
      deliveries.clear();
      long delay = connector.fail();
      String said = "the connector failed, and starts again in %d s: %s".formatted(delay, error);
      LOG.warn(options.secrets().masked(said), options.secrets().masked(error));
      waits(said);
      throw error instanceof Exception known
          ? known
          : new ConnectException("the connector failed: " + error, error);
    }
  }

  private void waits(String reason) {
    String masked = options.secrets().masked(reason);
    if (reporter == null || masked.equals(reported)) {
      return;
    }
    reported = masked;
    if (masked.isEmpty()) {
      reporter.running();
    } else {
      reporter.waiting(masked);
    }
  }

  @Override
  public void close() {
    connector.close();
  }
}
