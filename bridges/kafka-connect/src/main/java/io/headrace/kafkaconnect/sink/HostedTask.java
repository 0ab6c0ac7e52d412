package io.headrace.kafkaconnect.sink;

import io.headrace.kafkaconnect.Plugin;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One task of a sink connector: what a worker of Connect is to it. For one call at a time. */
final class HostedTask {
  private static final Logger LOG = LoggerFactory.getLogger(HostedTask.class);

  private final String name;
  private final SinkTask task;
  private final Map<String, String> settings;
  private final ClassLoader loader;
  private final Intake intake;
  private final TaskContext context;

  /** The offset after the last row of each partition that is open. */
  private final Map<TopicPartition, Long> next = new HashMap<>();

  /**
   * A task that is not started.
   *
   * @param name what it is called in logs
   * @param settings its configuration
   * @param loader the context class loader of its calls
   * @param refusals takes what it refuses
   */
  HostedTask(
      String name,
      SinkTask task,
      Map<String, String> settings,
      ClassLoader loader,
      Intake intake,
      TaskContext.Refusals refusals) {
    this.name = name;
    this.task = task;
    this.settings = settings;
    this.loader = loader;
    this.intake = intake;
    this.context = new TaskContext(settings, refusals);
  }

  String name() {
    return name;
  }

  Intake intake() {
    return intake;
  }

  void start() throws Exception {
    within(() -> task.initialize(context));
    within(() -> task.start(settings));
  }

  /**
   * Closes the partitions of a number whose rows come again from an offset on, or earlier: a task
   * knows offsets that go back only from a partition that was taken away, and comes back.
   */
  void rewind(int partition, long offset) throws Exception {
    List<TopicPartition> behind =
        next.entrySet().stream()
            .filter(one -> one.getKey().partition() == partition && one.getValue() > offset)
            .map(Map.Entry::getKey)
            .toList();
    if (!behind.isEmpty()) {
      commitBeforeClose();
      close(behind);
    }
  }

  /** Opens the partitions of rows, and counts the rows as given. */
  void expect(List<Row> rows) throws Exception {
    List<TopicPartition> fresh =
        rows.stream()
            .map(Row::partition)
            .distinct()
            .filter(partition -> !next.containsKey(partition))
            .toList();
    if (!fresh.isEmpty()) {
      context.assign(fresh);
      within(() -> task.open(fresh));
    }
    rows.forEach(row -> next.put(row.partition(), row.offset() + 1));
  }

  /** Gives records to the task; none at all, to let it do what is due. */
  void put(List<SinkRecord> records) throws Exception {
    within(() -> task.put(records));
    if (context.takeCommitRequest()) {
      commitAsAsked();
    }
  }

  /**
   * The records are taken: what must wait is only the commit, which follows at the end of a part.
   */
  private void commitAsAsked() throws Exception {
    try {
      committed();
    } catch (RetriableException error) {
      LOG.info("{}: the commit that it asked for must wait: {}", name, error.toString());
    }
  }

  /** Whether the task has paused the partition of one of these rows. */
  boolean isPaused(List<Row> rows) {
    return rows.stream().anyMatch(row -> context.isPaused(row.partition()));
  }

  /** How many nanoseconds the task asked to wait, once. */
  OptionalLong takeTimeout() {
    return context.takeTimeout();
  }

  /** Whether the task says that everything before these offsets is durable. */
  boolean covers(Map<TopicPartition, Long> ends) throws Exception {
    if (ends.isEmpty()) {
      return true;
    }
    Map<TopicPartition, OffsetAndMetadata> said = committed();
    return ends.entrySet().stream()
        .allMatch(
            end ->
                said.get(end.getKey()) != null
                    && said.get(end.getKey()).offset() >= end.getValue());
  }

  /** As in Connect, `preCommit` decides; unless a task overrides it, it flushes, and covers all. */
  private Map<TopicPartition, OffsetAndMetadata> committed() throws Exception {
    Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
    next.forEach((partition, offset) -> offsets.put(partition, new OffsetAndMetadata(offset)));
    Map<TopicPartition, OffsetAndMetadata> said =
        Plugin.within(loader, () -> task.preCommit(offsets));
    return said == null ? Map.of() : said;
  }

  /** Closes all partitions, and stops the task. What fails is logged. */
  void stop() {
    commitBeforeClose();
    quietly("closing its partitions", () -> close(List.copyOf(next.keySet())));
    quietly("stopping it", () -> within(task::stop));
    intake.close();
    context.close();
  }

  /** As in Connect; nobody is told of what it covers. */
  private void commitBeforeClose() {
    if (!next.isEmpty()) {
      quietly("preCommit() before its partitions are closed", () -> committed());
    }
  }

  private void close(Collection<TopicPartition> partitions) throws Exception {
    if (partitions.isEmpty()) {
      return;
    }
    within(() -> task.close(partitions));
    next.keySet().removeAll(Set.copyOf(partitions));
    context.unassign(partitions);
  }

  private void within(Runnable call) throws Exception {
    Plugin.within(
        loader,
        () -> {
          call.run();
          return null;
        });
  }

  private interface Step {
    void run() throws Exception;
  }

  private void quietly(String what, Step step) {
    try {
      step.run();
    } catch (VirtualMachineError error) {
      throw error;
    } catch (Throwable error) { // whatever it is, the next one can start
      LOG.warn("{}: {}", name, what, error);
    }
  }
}
