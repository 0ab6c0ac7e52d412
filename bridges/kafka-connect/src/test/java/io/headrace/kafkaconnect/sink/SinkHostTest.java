package io.headrace.kafkaconnect.sink;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.kafkaconnect.ConnectorFile;
import io.headrace.kafkaconnect.PluginPath;
import io.headrace.kafkaconnect.Secrets;
import io.headrace.sdk.Header;
import io.headrace.sdk.Message;
import io.headrace.sdk.Reporter;
import io.headrace.sdk.sink.Outcomes;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.TestRows;
import io.headrace.sdk.sink.Transaction;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.sink.SinkTaskContext;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

final class SinkHostTest {
  private static final List<String> CALLS = new ArrayList<>();
  private static Consumer<Probe> onPut;
  private static Consumer<Probe> onStart;
  private static boolean covering;
  private static String columns;
  private static Connector connector;

  private final Map<String, String> properties = new HashMap<>();
  private final List<String> reports = new ArrayList<>();
  private final ManualClock clock = new ManualClock();

  /** A connector whose task does what a test tells it. */
  public static final class Connector extends SinkConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> given) {
      settings = given;
      connector = this;
      CALLS.add("begin");
    }

    void reconfigure() {
      context().requestTaskReconfiguration();
    }

    void raise() {
      context().raiseError(new ConnectException("the monitor fails, with pa55word"));
    }

    @Override
    public Class<? extends Task> taskClass() {
      return Probe.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
      Map<String, String> one = new HashMap<>(settings);
      one.put("columns", columns);
      one.remove("topics");
      return java.util.Collections.nCopies(most, one);
    }

    @Override
    public void stop() {
      CALLS.add("end");
    }

    @Override
    public ConfigDef config() {
      return new ConfigDef()
          .define("system.password", ConfigDef.Type.PASSWORD, "", ConfigDef.Importance.LOW, "");
    }

    @Override
    public String version() {
      return "3";
    }
  }

  /** Its task. */
  public static final class Probe extends SinkTask {
    private Collection<SinkRecord> records;
    private Map<String, String> settings;

    SinkTaskContext asks() {
      return context;
    }

    @Override
    public void start(Map<String, String> given) {
      settings = given;
      CALLS.add("start");
      onStart.accept(this);
    }

    @Override
    public void open(Collection<TopicPartition> partitions) {
      partitions.forEach(one -> CALLS.add("open " + one.topic()));
    }

    @Override
    public void put(Collection<SinkRecord> given) {
      records = given;
      CALLS.add("put " + given.size());
      onPut.accept(this);
    }

    @Override
    public Map<TopicPartition, OffsetAndMetadata> preCommit(
        Map<TopicPartition, OffsetAndMetadata> offsets) {
      CALLS.add("preCommit");
      return covering ? offsets : Map.of();
    }

    @Override
    public void close(Collection<TopicPartition> partitions) {
      partitions.forEach(one -> CALLS.add("close " + one.topic()));
    }

    @Override
    public void stop() {
      CALLS.add("stop");
    }

    @Override
    public String version() {
      return "3";
    }
  }

  @BeforeEach
  void begin() {
    CALLS.clear();
    onPut = task -> {};
    onStart = task -> {};
    covering = true;
    columns = "";
    properties.put("connector.class", Connector.class.getName());
    properties.put("topics", "a");
    properties.put("key.converter", "org.apache.kafka.connect.storage.StringConverter");
    properties.put("value.converter", "org.apache.kafka.connect.json.JsonConverter");
    properties.put("value.converter.schemas.enable", "false");
  }

  private SinkHost host() {
    PluginPath plugins = PluginPath.of(List.of());
    ConnectorFile file = ConnectorFile.of(properties, plugins);
    Secrets secrets = Secrets.of(file, plugins);
    SinkOptions options =
        new SinkOptions(
            "probe",
            plugins,
            file,
            Duration.ofSeconds(60),
            SinkOptions.badRecords(file, secrets),
            secrets);
    SinkHost host = new SinkHost(options, clock);
    host.reportTo(
        new Reporter() {
          @Override
          public void connecting() {}

          @Override
          public void running() {
            reports.add("runs");
          }

          @Override
          public void degraded(String error) {}

          @Override
          public void waiting(String reason) {
            reports.add(reason);
          }
        });
    return host;
  }

  private static Part part(long batch, String attempt) {
    return new Part(new Transaction("pipeline", batch), 0, attempt);
  }

  private static Message row(long place, String value) {
    return new Message(place, value.getBytes(UTF_8));
  }

  @Test
  void aPartIsAcknowledgedOnceItIsCovered() throws Exception {
    SinkHost host = host();
    host.write(part(0, "1"), TestRows.of(row(0, "1"), row(1, "2")));
    assertEquals(List.of("begin", "start", "open a", "put 2"), CALLS);
    assertEquals(List.of(), host.end(part(0, "1"), 2));
    assertEquals("preCommit", CALLS.get(4));
    covering = false;
    host.write(part(1, "2"), TestRows.of(row(0, "3")));
    ConnectException error = assertThrows(ConnectException.class, () -> host.end(part(1, "2"), 1));
    assertTrue(error.getMessage().contains("preCommit() does not cover"), error.getMessage());
    assertTrue(CALLS.contains("put 0"), "it may do what is due");
    assertTrue(clock.nanos() >= Duration.ofSeconds(60).toNanos());
    CALLS.clear();
    covering = true;
    host.write(part(1, "3"), TestRows.of(row(0, "3")));
    assertEquals(List.of("preCommit", "close a", "open a", "put 1"), CALLS);
    assertEquals(List.of(), host.end(part(1, "3"), 1));
    host.close();
    assertEquals(List.of("preCommit", "close a", "stop", "end"), CALLS.subList(5, 9));
  }

  @Test
  void offsetsAreBatchAndPlaceAndPartitionsOfPipelinesDiffer() throws Exception {
    SinkHost host = host();
    List<String> places = new ArrayList<>();
    onPut =
        task ->
            task.records.forEach(
                record -> places.add(record.kafkaPartition() + " " + record.kafkaOffset()));
    host.write(part(7, "1"), TestRows.of(row(0, "1"), row(1, "2")));
    host.write(new Part(new Transaction("other", 7), 0, "2"), TestRows.of(row(0, "1")));
    int partition = new Places().partition(part(7, "1"));
    assertEquals(partition + " " + (7L << 32), places.get(0));
    assertEquals(partition + " " + ((7L << 32) + 1), places.get(1));
    assertFalse(places.get(2).startsWith(partition + " "));
    assertThrows(ConnectException.class, () -> Places.offset(part(1L << 31, "1"), 0));
    assertThrows(ConnectException.class, () -> Places.offset(part(1, "1"), 1L << 32));
  }

  @Test
  void aTaskThatMustWaitGetsTheSameRecordsAgain() throws Exception {
    SinkHost host = host();
    List<SinkRecord> given = new ArrayList<>();
    onPut =
        task -> {
          given.addAll(task.records);
          if (given.size() < 3) {
            task.asks().timeout(5000);
            throw new RetriableException("the system is away");
          }
        };
    host.write(part(0, "1"), TestRows.of(row(0, "1")));
    assertEquals(Duration.ofSeconds(10).toNanos(), clock.nanos());
    assertTrue(given.stream().allMatch(record -> record.equals(given.get(0))));
    assertTrue(reports.get(0).contains("the system is away"));
    assertEquals("runs", reports.get(reports.size() - 1));
    onPut =
        task -> {
          throw new RetriableException("the system is away");
        };
    ConnectException error =
        assertThrows(
            ConnectException.class, () -> host.write(part(0, "1"), TestRows.of(row(1, "2"))));
    assertTrue(error.getMessage().contains("retry_for"), error.getMessage());
    assertTrue(CALLS.contains("stop"), "it might expect the same records next");
    assertThrows(ConnectException.class, () -> host.end(part(0, "1"), 1));
  }

  @Test
  void aTaskThatFailsTakesAllPartsWithItAndStartsAgainLater() throws Exception {
    properties.put("system.password", "pa55word");
    SinkHost host = host();
    Part other = new Part(new Transaction("pipeline", 0), 1, "2");
    host.write(other, TestRows.of(row(0, "1")));
    onPut =
        task -> {
          throw new ConnectException("no table, for pa55word");
        };
    assertThrows(ConnectException.class, () -> host.write(part(0, "1"), TestRows.of(row(0, "1"))));
    assertTrue(CALLS.contains("stop"));
    assertTrue(reports.get(0).contains("starts again in 1 s"), reports.get(0));
    assertTrue(reports.get(0).contains("no table, for ****"), reports.get(0));
    onPut = task -> {};
    assertThrows(ConnectException.class, () -> host.end(other, 1));
    assertThrows(ConnectException.class, () -> host.write(other, TestRows.of(row(1, "1"))));
    host.write(new Part(other.transaction(), 1, "3"), TestRows.of(row(0, "1")));
    assertEquals(Duration.ofSeconds(1).toNanos(), clock.nanos());
    assertEquals(2, CALLS.stream().filter("start"::equals).count());
    connector.raise();
    assertThrows(ConnectException.class, () -> host.end(new Part(other.transaction(), 1, "3"), 1));
    assertEquals("runs", reports.get(1));
    assertTrue(reports.get(2).contains("the monitor fails"), reports.get(2));
  }

  @Test
  void rowsThatNobodyCanReadOrWriteAreRefused() throws Exception {
    SinkHost host = host();
    onPut =
        task ->
            task.records.forEach(
                record -> {
                  if (record.value().equals(13L)) {
                    ConnectException reason = new ConnectException("13 is no amount");
                    assertTrue(task.asks().errantRecordReporter().report(record, reason).isDone());
                  }
                });
    Message elsewhere =
        new Message(
            3, null, "1".getBytes(UTF_8), null, null, List.of(Header.text(Topics.HEADER, "b")));
    host.write(part(0, "1"), TestRows.of(row(0, "1"), row(1, "{"), row(2, "13"), elsewhere));
    List<Outcomes.Refused> refused = host.end(part(0, "1"), 4);
    assertEquals(List.of(1L, 2L, 3L), refused.stream().map(Outcomes.Refused::place).toList());
    assertTrue(refused.get(0).reason().contains("value.converter"));
    assertTrue(refused.get(1).reason().contains("13 is no amount"));
    assertTrue(refused.get(2).reason().contains("topic b"));
    properties.put("errors.tolerance", "all");
    SinkHost tolerant = host();
    tolerant.write(part(0, "1"), TestRows.of(row(0, "{"), row(1, "13")));
    assertEquals(List.of(), tolerant.end(part(0, "1"), 2));
  }

  @Test
  void aPartitionThatIsPausedGetsNothingUntilItIsResumed() throws Exception {
    SinkHost host = host();
    host.write(part(0, "1"), TestRows.of(row(0, "1")));
    onStart = task -> {};
    List<Integer> sizes = new ArrayList<>();
    onPut =
        task -> {
          sizes.add(task.records.size());
          TopicPartition[] all = task.asks().assignment().toArray(TopicPartition[]::new);
          if (sizes.size() == 1) {
            task.asks().pause(all);
          } else if (sizes.size() == 4) {
            task.asks().resume(all);
          }
        };
    host.write(part(0, "1"), TestRows.of(row(1, "1")));
    host.write(part(0, "1"), TestRows.of(row(2, "1")));
    assertEquals(List.of(1, 0, 0, 0, 1), sizes);
    assertTrue(reports.get(0).contains("has paused"), reports.toString());
  }

  @Test
  void aTaskLearnsItsTopicsAndMayNotChooseOffsets() throws Exception {
    List<String> topics = new ArrayList<>();
    onStart = task -> topics.add(task.settings.get("topics"));
    onPut = task -> task.asks().offset(new TopicPartition("a", 0), 5);
    SinkHost host = host();
    ConnectException error =
        assertThrows(
            ConnectException.class, () -> host.write(part(0, "1"), TestRows.of(row(0, "1"))));
    assertEquals(List.of("a"), topics);
    assertTrue(error.getMessage().contains("Spark's checkpoint decides"), error.getMessage());
  }

  @Test
  void aNewConfigurationIsAppliedBetweenBatches() throws Exception {
    SinkHost host = host();
    host.write(part(0, "1"), TestRows.of(row(0, "1")));
    columns = "more";
    connector.reconfigure();
    host.write(part(0, "1"), TestRows.of(row(1, "1")));
    host.end(part(0, "1"), 2);
    assertFalse(CALLS.contains("stop"));
    List<String> seen = new ArrayList<>();
    onStart = task -> seen.add(task.settings.get("columns"));
    host.write(part(1, "2"), TestRows.of(row(0, "1")));
    assertEquals(List.of("more"), seen);
    assertEquals(1, CALLS.stream().filter("begin"::equals).count());
  }

  @Test
  void anOlderAttemptNoLongerCounts() throws Exception {
    SinkHost host = host();
    host.write(part(0, "1"), TestRows.of(row(0, "1")));
    host.write(part(0, "2"), TestRows.of(row(0, "1")));
    assertThrows(ConnectException.class, () -> host.write(part(0, "1"), TestRows.of(row(1, "2"))));
    assertThrows(ConnectException.class, () -> host.end(part(0, "1"), 1));
    assertEquals(List.of(), host.end(part(0, "2"), 1));
    assertEquals(List.of(), host.end(part(1, "3"), 0), "a part without rows");
  }

  @Test
  void topicsAreNamedOrMatched() {
    properties.remove("topics");
    assertThrows(ConfigException.class, this::topics);
    properties.put("topics.regex", "shop\\..*");
    Message none = row(0, "1");
    assertThrows(IllegalArgumentException.class, () -> topics().of(none));
    Message orders =
        new Message(0, null, null, null, null, List.of(Header.text(Topics.HEADER, "shop.orders")));
    assertEquals("shop.orders", topics().of(orders));
    properties.put("topics", "a");
    assertThrows(ConfigException.class, this::topics);
  }

  private Topics topics() {
    return Topics.of(ConnectorFile.of(properties, PluginPath.of(List.of())));
  }
}
