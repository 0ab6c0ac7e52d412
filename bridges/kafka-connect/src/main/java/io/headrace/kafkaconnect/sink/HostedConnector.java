package io.headrace.kafkaconnect.sink;

import io.headrace.kafkaconnect.ConnectorRequests;
import io.headrace.kafkaconnect.Plugin;
import io.headrace.kafkaconnect.Restarts;
import io.headrace.kafkaconnect.UnreadMetrics;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkConnectorContext;
import org.apache.kafka.connect.sink.SinkTask;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A sink connector with its tasks, which runs from the first row on. After a failure, it starts
 * again with backoff. For one call at a time.
 */
final class HostedConnector {
  private static final Logger LOG = LoggerFactory.getLogger(HostedConnector.class);

  private final SinkOptions options;
  private final Clock clock;
  private final TaskContext.Refusals refusals;
  private final ClassLoader loader;
  private final Restarts restarts = new Restarts();
  private final AtomicBoolean reconfigure = new AtomicBoolean();
  private final AtomicReference<Exception> raised = new AtomicReference<>();
  private final UnreadMetrics metrics = new UnreadMetrics();
  private final String version;
  private Optional<SinkConnector> connector = Optional.empty();
  private Context context = new Context();
  private List<HostedTask> tasks = List.of();
  private List<Map<String, String>> configured = List.of();
  private long startAt;

  HostedConnector(SinkOptions options, Clock clock, TaskContext.Refusals refusals) {
    this.options = options;
    this.clock = clock;
    this.refusals = refusals;
    this.loader = options.plugins().loaderOf(options.file().connectorClass());
    this.startAt = clock.nanos();
    SinkConnector made = make();
    this.version = "%s %s".formatted(made.getClass().getSimpleName(), made.version());
  }

  private SinkConnector make() {
    return options
        .plugins()
        .make("connector.class", options.file().connectorClass(), SinkConnector.class);
  }

  /** The connector's class and version. */
  String version() {
    return version;
  }

  /** The task of a partition; starts the connector if it does not run, once that is due. */
  HostedTask task(int partition) throws Exception {
    if (connector.isEmpty()) {
      clock.sleep(startAt - clock.nanos());
      start();
    }
    return tasks.get(partition % tasks.size());
  }

  /** Throws what the connector has raised meanwhile. */
  void requireSound() throws Exception {
    Exception error = raised.getAndSet(null);
    if (error != null) {
      throw error;
    }
  }

  /**
   * Applies a new configuration of tasks, if the connector has asked for one. What tasks hold must
   * be acknowledged.
   */
  void reconfigureIfAsked() throws Exception {
    if (connector.isEmpty() || !reconfigure.getAndSet(false)) {
      return;
    }
    List<Map<String, String>> wanted = configurations(connector.get());
    if (!wanted.equals(configured)) {
      stopTasks();
      startTasks(connector.get(), wanted);
    }
  }

  private void start() throws Exception {
    restarts.started(clock.nanos());
    reconfigure.set(false);
    SinkConnector made = make();
    connector = Optional.of(made);
    context = new Context();
    Plugin.within(
        loader,
        () -> {
          made.initialize(context);
          made.start(options.settings());
          return null;
        });
    startTasks(made, configurations(made));
  }

  private List<Map<String, String>> configurations(SinkConnector made) throws Exception {
    List<Map<String, String>> given =
        Plugin.within(loader, () -> made.taskConfigs(options.file().mostTasks()));
    if (given.isEmpty()) {
      throw new ConnectException("the connector has no task: taskConfigs() returned nothing");
    }
    return given.stream().<Map<String, String>>map(HashMap::new).toList();
  }

  private void startTasks(SinkConnector made, List<Map<String, String>> configurations)
      throws Exception {
    List<HostedTask> started = new ArrayList<>();
    tasks = started; // a failure stops those that were started
    for (Map<String, String> configuration : configurations) {
      HostedTask task = task(made.taskClass(), configuration, started.size());
      started.add(task);
      task.start();
    }
    configured = configurations;
    LOG.info("started, tasks: {}", tasks.size());
  }

  private HostedTask task(Class<?> type, Map<String, String> configuration, int number)
      throws Exception {
    Map<String, String> settings = new HashMap<>(configuration);
    settings.put("task.class", type.getName());
    // As a worker does: a task may ask for them though its connector did not hand them on.
    for (String name : List.of(SinkTask.TOPICS_CONFIG, SinkTask.TOPICS_REGEX_CONFIG)) {
      if (options.file().get(name) != null) {
        settings.put(name, options.file().get(name));
      }
    }
    SinkTask task =
        Plugin.within(loader, () -> (SinkTask) type.getDeclaredConstructor().newInstance());
    Intake intake = new Intake(options.file(), options.plugins());
    String name = "task %d of %s".formatted(number, options.sink());
    return new HostedTask(name, task, settings, loader, intake, refusals);
  }

  /** Stops, to start again at the next row; returns in how many seconds at the earliest. */
  long fail() {
    stop();
    long delay = restarts.next(clock.nanos());
    startAt = clock.nanos() + delay;
    return delay / 1_000_000_000L;
  }

  private void stopTasks() {
    tasks.forEach(HostedTask::stop);
    tasks = List.of();
  }

  /** Stops the tasks and the connector. */
  void stop() {
    stopTasks();
    if (connector.isEmpty()) {
      return;
    }
    SinkConnector running = connector.get();
    connector = Optional.empty();
    context.end();
    raised.set(null);
    try {
      Plugin.within(
          loader,
          () -> {
            running.stop();
            return null;
          });
    } catch (VirtualMachineError error) {
      throw error;
    } catch (Throwable error) { // whatever it is, the next one can start
      LOG.warn("stopping the connector", error);
    }
  }

  void close() {
    stop();
    metrics.close();
  }

  private final class Context extends ConnectorRequests implements SinkConnectorContext {
    Context() {
      super(reconfigure, raised, metrics);
    }
  }
}
