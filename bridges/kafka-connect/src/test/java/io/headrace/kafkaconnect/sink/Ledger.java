package io.headrace.kafkaconnect.sink;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.ServiceConfigurationError;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/**
 * A system that a sink connector writes to, and the connector. Its task keeps records in memory
 * until it likes to write them, fails or dies at any call, and checks that it is called as a worker
 * of Connect calls it.
 */
final class Ledger {
  /** What tasks write to; a kill of the bridge leaves only this. */
  static Ledger current;

  final Map<String, String> durable = new HashMap<>();
  final List<String> calls = new ArrayList<>();

  /** How the host did not call a task as a worker does. */
  final List<String> violations = new ArrayList<>();

  private final Random random;
  int faultsLeft;

  Ledger(Random random, int faults) {
    this.random = random;
    this.faultsLeft = faults;
  }

  /** Ends the process of the bridge: no code of it runs afterwards. */
  static final class Killed extends VirtualMachineError {
    private static final long serialVersionUID = 1;
  }

  private boolean happens(int oneIn) {
    return faultsLeft > 0 && random.nextInt(oneIn) == 0;
  }

  private void mayFail(String call) {
    calls.add(call);
    if (happens(12)) {
      faultsLeft--;
      switch (random.nextInt(4)) {
        case 0 -> throw new Killed();
        case 1 -> throw new ConnectException(call + " fails");
        case 2 -> throw new ServiceConfigurationError(call + " fails");
        default -> throw new IllegalStateException(call + " fails");
      }
    }
  }

  private void mayBeAway(String call) {
    if (happens(8)) {
      faultsLeft--;
      throw new RetriableException(call + " must wait");
    }
  }

  /** The connector. */
  public static final class Connector extends SinkConnector {
    private Map<String, String> settings = Map.of();

    @Override
    public void start(Map<String, String> given) {
      current.mayFail("connector start");
      settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
      return LedgerTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
      return java.util.Collections.nCopies(most, settings);
    }

    @Override
    public void stop() {}

    @Override
    public ConfigDef config() {
      return new ConfigDef();
    }

    @Override
    public String version() {
      return "3";
    }
  }

  /** Its task. */
  public static final class LedgerTask extends SinkTask {
    private final Map<TopicPartition, Long> seen = new HashMap<>();
    private final Map<TopicPartition, Long> durable = new HashMap<>();
    private final List<SinkRecord> held = new ArrayList<>();
    private final List<SinkRecord> judged = new ArrayList<>();
    private final Set<TopicPartition> open = new HashSet<>();

    /** The records that it took, and has asked for again nevertheless. */
    private List<SinkRecord> again = List.of();

    @Override
    public void start(Map<String, String> settings) {
      current.mayFail("start");
    }

    @Override
    public void open(Collection<TopicPartition> partitions) {
      current.mayFail("open " + partitions);
      for (TopicPartition partition : partitions) {
        require(open.add(partition), "is opened twice: " + partition);
      }
      require(context.assignment().equals(open), "has another assignment");
    }

    @Override
    public void put(Collection<SinkRecord> records) {
      current.mayFail("put " + places(records));
      if (current.happens(10) && !open.isEmpty()) {
        current.faultsLeft--;
        context.pause(open.iterator().next());
      } else {
        context.resume(open.toArray(TopicPartition[]::new));
      }
      current.mayBeAway("put");
      if (!again.isEmpty() && !records.isEmpty()) {
        require(
            again.equals(List.copyOf(records)),
            "gets other records than the ones that it asked for again");
        again = List.of();
        return;
      }
      for (SinkRecord record : records) {
        TopicPartition partition =
            new TopicPartition(record.originalTopic(), record.originalKafkaPartition());
        require(open.contains(partition), "gets a record of a partition that is not open");
        long before = seen.getOrDefault(partition, -1L);
        require(record.originalKafkaOffset() > before, "gets an offset that goes back");
        seen.put(partition, record.originalKafkaOffset());
        held.add(record);
        if (current.random.nextInt(40) == 0) {
          context.requestCommit();
        }
      }
      if (current.random.nextBoolean()) {
        write(current.random.nextInt(held.size() + 1));
      }
      if (!records.isEmpty() && current.happens(8)) {
        current.faultsLeft--;
        again = List.copyOf(records);
        throw new RetriableException("put must wait, after it has taken the records");
      }
    }

    private void write(int count) {
      for (SinkRecord record : held.subList(0, count)) {
        if (record.value().toString().startsWith("bad")) {
          judged.add(record);
        } else {
          String place =
              "%s %d %d"
                  .formatted(
                      record.originalTopic(),
                      record.originalKafkaPartition(),
                      record.originalKafkaOffset());
          String known = current.durable.put(place, record.value().toString());
          require(known == null || known.equals(record.value()), "has another row at " + place);
        }
        durable.put(
            new TopicPartition(record.originalTopic(), record.originalKafkaPartition()),
            record.originalKafkaOffset() + 1);
      }
      held.subList(0, count).clear();
    }

    @Override
    public Map<TopicPartition, OffsetAndMetadata> preCommit(
        Map<TopicPartition, OffsetAndMetadata> offsets) {
      current.mayFail("preCommit");
      current.mayBeAway("preCommit");
      require(offsets.keySet().equals(open), "is to commit other partitions than are open");
      write(current.random.nextInt(held.size() + 1));
      for (SinkRecord record : judged) {
        Future<Void> kept =
            context.errantRecordReporter().report(record, new ConnectException("is bad"));
        require(kept.isDone(), "may wait for what it has refused");
      }
      judged.clear();
      Map<TopicPartition, OffsetAndMetadata> covered = new HashMap<>();
      durable.forEach((partition, end) -> covered.put(partition, new OffsetAndMetadata(end)));
      covered.keySet().retainAll(open);
      current.mayFail("preCommit, after it has written");
      return current.random.nextInt(6) == 0 ? null : covered;
    }

    @Override
    public void close(Collection<TopicPartition> partitions) {
      current.mayFail("close " + partitions);
      for (TopicPartition partition : partitions) {
        require(open.remove(partition), "closes what is not open: " + partition);
        seen.remove(partition);
        durable.remove(partition);
      }
      held.removeIf(record -> partitions.contains(of(record)));
      judged.removeIf(record -> partitions.contains(of(record)));
    }

    private static List<String> places(Collection<SinkRecord> records) {
      return records.stream()
          .map(record -> of(record) + " at " + Places.place(record.originalKafkaOffset()))
          .toList();
    }

    private static TopicPartition of(SinkRecord record) {
      return new TopicPartition(record.originalTopic(), record.originalKafkaPartition());
    }

    @Override
    public void stop() {}

    @Override
    public String version() {
      return "3";
    }

    private static void require(boolean holds, String what) {
      if (!holds) {
        current.violations.add("the task " + what);
      }
    }
  }
}
