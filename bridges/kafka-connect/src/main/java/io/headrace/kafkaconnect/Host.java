package io.headrace.kafkaconnect;

import io.headrace.sdk.Position;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongSupplier;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceConnectorContext;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A connector with its tasks: what a worker of Connect is to it. Used by the thread that reads. A
 * connector or task that fails is started again after the records in the log, with backoff.
 */
final class Host implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Host.class);

  /** How long a task or a connector may take to stop. */
  static final long STOP_MILLIS = 10_000;

  private final Options options;
  private final RecordLog log;
  private final LongSupplier nanos;
  private final long stopMillis;
  private final ClassLoader loader;
  private final Confirmations confirmations;
  private final Restarts restarts = new Restarts();
  private final AtomicBoolean reconfigure = new AtomicBoolean();
  private final AtomicReference<Exception> raised = new AtomicReference<>();
  private final UnreadMetrics metrics = new UnreadMetrics();
  private final String version;
  private final Health health;
  private Optional<SourceConnector> connector = Optional.empty();
  private Context context = new Context();
  private List<TaskRunner> tasks = List.of();
  private List<Map<String, String>> configured = List.of();
  private Repeats repeats = Repeats.none();
  private boolean wanted;
  private long startAt;

  Host(Options options, RecordLog log, LongSupplier nanos, long stopMillis) {
    this.options = options;
    this.log = log;
    this.nanos = nanos;
    this.stopMillis = stopMillis;
    this.loader = options.plugins().loaderOf(options.file().connectorClass());
    SourceConnector made = make();
    this.version = "%s %s".formatted(made.getClass().getSimpleName(), made.version());
    this.health = new Health(options.secrets());
    this.confirmations = new Confirmations(log);
    confirmations.start();
  }

  private SourceConnector make() {
    return options
        .plugins()
        .make("connector.class", options.file().connectorClass(), SourceConnector.class);
  }

  /** The connector's class and version. */
  String version() {
    return version;
  }

  /** What it says of itself. */
  Health health() {
    return health;
  }

  /** Begins at a position, unless everything after it is in the log of a connector that runs. */
  void resume(Optional<Position> position) throws Exception {
    if (wanted && log.has(position)) {
      return;
    }
    stop();
    log.reset(position);
    LOG.info("the connector begins at {} with {}", position, log.settled());
    repeats = log.repeats();
    wanted = true;
    startAt = nanos.getAsLong();
    attend();
  }

  /** Starts what is due, looks for failures, and applies a new configuration of tasks. */
  void attend() throws Exception {
    if (!wanted) {
      return;
    }
    if (connector.isEmpty()) {
      if (nanos.getAsLong() - startAt >= 0) {
        start();
      }
      return;
    }
    Exception error = raised.getAndSet(null);
    if (error != null) {
      failed("the connector", error);
      return;
    }
    for (TaskRunner task : tasks) {
      if (task.failure().orElse(null) instanceof ConfigException invalid) {
        throw invalid; // it is the same at each start
      }
      if (task.failure().isPresent()) {
        failed(task.name(), task.failure().get());
        return;
      }
    }
    if (reconfigure.getAndSet(false)) {
      unlessItFails(() -> reconfigure(connector.get()));
    }
  }

  /** A connector may ask at each look at its system: as in Connect, only a change has an effect. */
  private void reconfigure(SourceConnector running) throws Exception {
    List<Map<String, String>> wanted = configurations(running);
    if (wanted.equals(configured)) {
      return;
    }
    // What the tasks have read until then is in the log, and the new ones begin after it.
    stopTasks();
    repeats = log.repeats();
    startTasks(running, wanted);
  }

  private interface Attempt {
    void run() throws Exception;
  }

  private void unlessItFails(Attempt attempt) throws Exception {
    try {
      attempt.run();
    } catch (ConfigException error) {
      throw error;
    } catch (Exception error) {
      failed("the connector", error);
    }
  }

  private void start() throws Exception {
    restarts.started(nanos.getAsLong());
    reconfigure.set(false);
    SourceConnector made = make();
    connector = Optional.of(made);
    context = new Context();
    unlessItFails(
        () -> {
          Plugin.within(
              loader,
              () -> {
                made.initialize(context);
                made.start(options.file().all());
                return null;
              });
          startTasks(made, configurations(made));
        });
  }

  private List<Map<String, String>> configurations(SourceConnector made) throws Exception {
    List<Map<String, String>> given =
        Plugin.within(loader, () -> made.taskConfigs(options.file().mostTasks()));
    return given.stream().<Map<String, String>>map(HashMap::new).toList();
  }

  private void startTasks(SourceConnector made, List<Map<String, String>> configurations)
      throws Exception {
    if (configurations.size() > 1 && options.replay() == Replay.EXACT) {
      throw new ConfigException(
          "replay: exact: %d tasks return their records in any order: set tasks.max to 1, or replay to safe"
              .formatted(configurations.size()));
    }
    List<TaskRunner> runners = new ArrayList<>();
    for (Map<String, String> configuration : configurations) {
      runners.add(task(made.taskClass(), configuration, runners.size()));
    }
    tasks = List.copyOf(runners);
    configured = configurations;
    tasks.forEach(TaskRunner::start);
    LOG.info("started, tasks: {}", tasks.size());
  }

  private TaskRunner task(Class<?> type, Map<String, String> configuration, int number)
      throws Exception {
    Map<String, String> settings = new HashMap<>(configuration);
    settings.put("task.class", type.getName());
    SourceTask task =
        Plugin.within(loader, () -> (SourceTask) type.getDeclaredConstructor().newInstance());
    Conversion conversion =
        new Conversion(
            options.file(), options.plugins(), options.silentTopics(), options.badRecords());
    String name = "task %d of %s".formatted(number, options.source());
    return new TaskRunner(name, task, settings, loader, conversion, log, repeats, health::waits);
  }

  private void failed(String who, Throwable error) throws InterruptedException {
    stop();
    repeats = log.repeats();
    long delay = restarts.next(nanos.getAsLong());
    startAt = nanos.getAsLong() + delay;
    String said =
        "%s failed, and starts again in %d s: %s"
            .formatted(who, delay / 1_000_000_000L, described(error));
    LOG.warn(options.secrets().masked(said), options.secrets().masked(error));
    health.waits(said);
  }

  /** An error with its first cause, which is what most libraries say something in. */
  private static String described(Throwable error) {
    Throwable first = error;
    while (first.getCause() != null && first.getCause() != first) {
      first = first.getCause();
    }
    return first == error ? error.toString() : "%s: %s".formatted(error, first);
  }

  private void stopTasks() throws InterruptedException {
    tasks.forEach(TaskRunner::stop);
    for (TaskRunner task : tasks) {
      task.join(stopMillis);
    }
    tasks = List.of();
  }

  private void stop() throws InterruptedException {
    stopTasks();
    if (connector.isPresent()) {
      SourceConnector running = connector.get();
      connector = Optional.empty();
      context.end();
      raised.set(null);
      stop(running);
    }
  }

  /** On a thread of its own: a connector may wait for its system without end. */
  private void stop(SourceConnector running) throws InterruptedException {
    Thread thread =
        new Thread(
            () -> {
              try {
                running.stop();
              } catch (Throwable error) { // whatever it is, the next one can start
                LOG.warn("stopping the connector", error);
              }
            },
            "stop of " + options.source());
    thread.setContextClassLoader(loader);
    thread.setDaemon(true);
    thread.start();
    thread.join(stopMillis);
    if (thread.isAlive()) {
      LOG.warn("the connector: stop() does not return, and is abandoned");
      thread.interrupt();
    }
  }

  @Override
  public void close() throws Exception {
    wanted = false;
    log.close();
    confirmations.close();
    stop();
    metrics.close();
  }

  private final class Context extends ConnectorRequests implements SourceConnectorContext {
    Context() {
      super(reconfigure, raised, metrics);
    }

    @Override
    public OffsetStorageReader offsetStorageReader() {
      return log.settled().reader();
    }
  }
}
