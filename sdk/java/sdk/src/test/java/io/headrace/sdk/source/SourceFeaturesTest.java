package io.headrace.sdk.source;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.protocol.v1.Capability;
import io.headrace.protocol.v1.ConnectorError;
import io.headrace.protocol.v1.ConnectorState;
import io.headrace.protocol.v1.Credit;
import io.headrace.protocol.v1.CreditRequest;
import io.headrace.protocol.v1.Frame;
import io.headrace.protocol.v1.IngestRequest;
import io.headrace.protocol.v1.IngestRequest.MessageCase;
import io.headrace.protocol.v1.IngestResponse;
import io.headrace.protocol.v1.OpenStream;
import io.headrace.protocol.v1.PositionLost;
import io.headrace.protocol.v1.RejectReason;
import io.headrace.protocol.v1.Report;
import io.headrace.protocol.v1.SourceKind;
import io.headrace.protocol.v1.Starts;
import io.headrace.protocol.v1.StartsWanted;
import io.headrace.protocol.v1.StreamOpened;
import io.headrace.protocol.v1.Welcome;
import io.headrace.sdk.Connector;
import io.headrace.sdk.ConnectorFailedException;
import io.headrace.sdk.FakeGateway;
import io.headrace.sdk.InvalidConnectorException;
import io.headrace.sdk.InvalidMessageException;
import io.headrace.sdk.Message;
import io.headrace.sdk.Position;
import io.headrace.sdk.Reporter;
import io.headrace.sdk.Settings;
import io.headrace.sdk.SourceGateway;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(60)
class SourceFeaturesTest {
  private FakeGateway gateway;

  @BeforeEach
  void startGateway() throws Exception {
    gateway = new FakeGateway();
  }

  @AfterEach
  void stopGateway() throws Exception {
    gateway.close();
  }

  /** Opens readers as a test says. */
  private interface Opener {
    PartitionReader open(Optional<Position> position) throws Exception;
  }

  private static ReplayableSource source(Opener opener) {
    return new ReplayableSource() {
      @Override
      public String name() {
        return "test";
      }

      @Override
      public PartitionReader open(String partition, Optional<Position> position) throws Exception {
        return opener.open(position);
      }
    };
  }

  @Test
  void everythingThatAMessageHasIsSent() throws Exception {
    ReplayableSource source =
        source(
            position ->
                batch -> {
                  if (batch.isEmpty()) {
                    batch.add(1, "plain".getBytes(UTF_8));
                    batch
                        .add(5, "key".getBytes(UTF_8), null)
                        .eventTime(Instant.ofEpochSecond(1, 2000))
                        .id("ä")
                        .header("h", new byte[] {1})
                        .header("h", null);
                    batch.cursor(new byte[] {9});
                  }
                  return Progress.END;
                });
    try (Connector connector = Connector.start(source, gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      session.open();
      Frame frame = session.frame();
      assertEquals(List.of(1L, 5L), SourceGateway.sequencesOf(frame));
      assertEquals("plain", frame.getValues().toStringUtf8());
      assertEquals("key", frame.getKeys().toStringUtf8());
      assertEquals("ä", frame.getMessageIds().toStringUtf8());
      assertEquals("hh", frame.getHeaderNames().toStringUtf8());
      assertEquals(16, frame.getEventTimes().size());
      assertEquals(1, frame.getCursor().size());
      session.acknowledge(1, 5);
      session.goodbye();
      connector.join();
    }
  }

  @Test
  void aCursorMovesWithoutAMessageAndIsAcknowledgedAtTheSameSequence() throws Exception {
    BlockingQueue<Position> acknowledged = new java.util.concurrent.LinkedBlockingQueue<>();
    ReplayableSource source =
        source(
            position ->
                new PartitionReader() {
                  private boolean moved;

                  @Override
                  public Progress read(Batch batch) {
                    if (!moved) {
                      batch.cursor("idle".getBytes(UTF_8));
                      moved = true;
                    }
                    return Progress.IDLE;
                  }

                  @Override
                  public void acknowledged(Position position) {
                    acknowledged.add(position);
                  }
                });
    try (Connector connector = Connector.start(source, gateway.settings())) {
      SourceGateway session =
          SourceGateway.accept(gateway)
              .welcome(SourceGateway.limits().addCapabilities(Capability.CAPABILITY_CURSORS));
      OpenStream open = session.openAfter(41);
      assertEquals(41, acknowledged.take().sequence());
      Frame frame = session.frame();
      assertEquals(0, frame.getCount());
      assertEquals(41, frame.getFirstSequence());
      assertEquals("idle", frame.getCursor().toStringUtf8());
      session.acknowledge(
          open.getStreamId(),
          io.headrace.protocol.v1.Position.newBuilder()
              .setSequence(41)
              .setCursor(frame.getCursor())
              .setMoves(1)
              .build());
      Position moved = acknowledged.take();
      assertEquals(41, moved.sequence());
      assertEquals("idle", new String(moved.cursor().orElseThrow(), UTF_8));
      connector.stop();
      session.goodbye();
    }
  }

  @Test
  void aCursorAboveTheLimitOfTheGatewayEndsTheConnector() throws Exception {
    ReplayableSource source =
        source(
            position ->
                batch -> {
                  batch.cursor(new byte[101]);
                  return Progress.IDLE;
                });
    InvalidMessageException error =
        assertThrows(
            InvalidMessageException.class,
            () -> {
              try (Connector connector = Connector.start(source, gateway.settings())) {
                SourceGateway session =
                    SourceGateway.accept(gateway)
                        .welcome(SourceGateway.limits().setMaxCursorBytes(100));
                session.open();
                session.goodbye();
              }
            });
    assertTrue(error.getMessage().startsWith("stream test/0: the cursor after message 0 has 101"));
  }

  @Test
  void anEventTimeIsWithinTheYears1To9999() throws Exception {
    List<String> refused = new ArrayList<>();
    ReplayableSource source =
        source(
            position ->
                batch -> {
                  Attributes attributes = batch.add(1, "v".getBytes(UTF_8));
                  for (String time :
                      List.of(
                          "-999999999-01-01T00:00:00Z",
                          "0000-12-31T23:59:59Z",
                          "+10000-01-01T00:00:00Z")) {
                    try {
                      attributes.eventTime(Instant.parse(time));
                    } catch (InvalidMessageException error) {
                      refused.add(error.getMessage());
                    }
                  }
                  attributes.eventTime(Instant.parse("9999-12-31T23:59:59.999999Z"));
                  return Progress.END;
                });
    try (Connector connector = Connector.start(source, gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      session.open();
      assertEquals(8, session.frame().getEventTimes().size());
      session.acknowledge(1, 1);
      session.goodbye();
      connector.join();
    }
    assertEquals(3, refused.size());
    assertTrue(refused.get(0).contains("is not within the years 1 to 9999"), refused.get(0));
  }

  @Test
  void creditIsNotOverrunAndIsAskedFor() throws Exception {
    ReplayableSource atOnce =
        source(
            position ->
                batch -> {
                  for (int number = 1; number <= 100; number++) {
                    batch.add(number, new byte[1]);
                  }
                  return Progress.END;
                });
    try (Connector connector = Connector.start(atOnce, gateway.settings())) {
      SourceGateway session =
          SourceGateway.accept(gateway)
              .welcome(
                  SourceGateway.limits()
                      .setCredit(Credit.newBuilder().setBytes(100_000).setMessages(10)));
      session.open();
      int messages = 0;
      while (messages < 10) {
        messages += session.frame().getCount();
      }
      assertEquals(10, messages);
      CreditRequest request = session.next(MessageCase.CREDIT_REQUEST).getCreditRequest();
      assertEquals(1, request.getMessages());
      assertEquals(90, request.getReadyMessages());
      session.grant(Credit.newBuilder().setBytes(100_000).setMessages(90));
      assertEquals(90, session.sequences(90).size());
      session.acknowledge(1, 100);
      session.goodbye();
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void smallFramesThatWaitForCreditShareAMessageIfTheGatewayTakesThem(boolean takes)
      throws Exception {
    Numbers numbers = new Numbers(3, Progress.END, "a", "b", "c");
    Settings settings = gateway.settings().toBuilder().drain(Duration.ofMillis(100)).build();
    try (Connector connector = Connector.start(numbers, settings)) {
      Welcome.Builder welcome = SourceGateway.limits().setCredit(Credit.getDefaultInstance());
      if (takes) {
        welcome.addCapabilities(Capability.CAPABILITY_FRAMES);
      }
      SourceGateway session = SourceGateway.accept(gateway).welcome(welcome);
      for (int stream = 0; stream < 3; stream++) {
        session.open();
      }
      for (int asked = 0; asked < 3; asked++) {
        session.next(MessageCase.CREDIT_REQUEST);
      }
      session.grant(Credit.newBuilder().setBytes(1 << 20).setMessages(100));
      Map<Integer, Integer> counts = new TreeMap<>();
      int shared = 0;
      while (counts.values().stream().mapToInt(Integer::intValue).sum() < 9) {
        IngestRequest request = session.session().next(r -> r.hasFrame() || r.hasFrames());
        List<Frame> frames = new ArrayList<>(request.getFrames().getFramesList());
        if (request.hasFrame()) {
          frames.add(request.getFrame());
        } else {
          shared++;
        }
        frames.forEach(frame -> counts.merge(frame.getStreamId(), frame.getCount(), Integer::sum));
      }
      assertEquals(Map.of(1, 3, 2, 3, 3, 3), counts);
      assertEquals(takes, shared > 0);
      connector.stop();
      session.session().awaitEnd();
    }
  }

  @Test
  void creditForOneStreamIsSpentByThatStream() throws Exception {
    Numbers numbers = new Numbers(50, Progress.IDLE, "a", "b");
    Settings settings = gateway.settings().toBuilder().drain(Duration.ofMillis(100)).build();
    try (Connector connector = Connector.start(numbers, settings)) {
      SourceGateway session =
          SourceGateway.accept(gateway)
              .welcome(
                  SourceGateway.limits()
                      .setCredit(Credit.newBuilder().setBytes(600).setMessages(1000)));
      session.open();
      session.open();
      Set<Integer> asked = new java.util.HashSet<>();
      while (asked.size() < 2) {
        asked.add(session.next(MessageCase.CREDIT_REQUEST).getCreditRequest().getStreamId());
      }
      session.grant(Credit.newBuilder().setBytes(900).setMessages(50).setStreamId(2));
      assertEquals(2, session.frame().getStreamId());
      session.grant(Credit.newBuilder().setBytes(1 << 20).setMessages(0));
      connector.stop();
      session.session().awaitEnd();
    }
  }

  @Test
  void aMessageAboveTheLimitIsSkippedWhereTheReaderSaysSo() throws Exception {
    BlockingQueue<String> skipped = new LinkedBlockingQueue<>();
    try (Connector connector = Connector.start(large(skipped), gateway.settings())) {
      SourceGateway session =
          SourceGateway.accept(gateway).welcome(SourceGateway.limits().setMaxFrameBytes(1000));
      session.open();
      assertEquals(List.of(1L, 3L), session.sequences(2));
      session.acknowledge(1, 3);
      session.goodbye();
      connector.join();
    }
    String error = skipped.take();
    assertTrue(error.contains("test/0") && error.contains("message 2"), error);
    assertTrue(error.contains("at most 1000"), error);
  }

  private static ReplayableSource large(BlockingQueue<String> skipped) {
    return source(
        position ->
            new PartitionReader() {
              @Override
              public Progress read(Batch batch) {
                batch.add(1, new byte[1]);
                batch.add(2, new byte[990]);
                batch.add(3, new byte[1]);
                return Progress.END;
              }

              @Override
              public Unsendable unsendable(Message message, InvalidMessageException error) {
                skipped.add(error.getMessage());
                return Unsendable.SKIP;
              }
            });
  }

  @Test
  void aMessageAboveTheLimitEndsTheConnectorAfterWhatCameBefore() throws Exception {
    ReplayableSource source =
        source(
            position ->
                batch -> {
                  batch.add(1, new byte[1]);
                  batch.add(2, new byte[2000]);
                  return Progress.END;
                });
    Connector connector = Connector.start(source, gateway.settings());
    SourceGateway session =
        SourceGateway.accept(gateway).welcome(SourceGateway.limits().setMaxFrameBytes(1000));
    session.open();
    assertEquals(List.of(1L), session.sequences(1));
    session.acknowledge(1, 1);
    InvalidMessageException error = assertThrows(InvalidMessageException.class, connector::join);
    assertTrue(error.getMessage().contains("message 2"), error.getMessage());
  }

  @Test
  void aSequenceThatDoesNotIncreaseEndsTheConnector() throws Exception {
    ReplayableSource source =
        source(
            position ->
                batch -> {
                  batch.add(7, new byte[1]);
                  batch.add(7, new byte[1]);
                  return Progress.MORE;
                });
    Connector connector = Connector.start(source, gateway.settings());
    SourceGateway session = SourceGateway.welcome(gateway);
    session.open();
    session.frame();
    session.acknowledge(1, 7);
    InvalidMessageException error = assertThrows(InvalidMessageException.class, connector::join);
    assertEquals(
        "stream test/0: message 7 follows message 7: sequences must increase", error.getMessage());
  }

  @Test
  void anExceptionOfTheSourceEndsTheConnectorAndNamesTheStream() throws Exception {
    ReplayableSource source =
        source(
            position -> {
              throw new IllegalStateException("no such file");
            });
    Connector connector = Connector.start(source, gateway.settings());
    SourceGateway session = SourceGateway.welcome(gateway);
    session.open();
    ConnectorFailedException error = assertThrows(ConnectorFailedException.class, connector::join);
    assertTrue(error.getMessage().contains("test/0"), error.getMessage());
    assertTrue(error.getMessage().contains("no such file"), error.getMessage());
  }

  @Test
  void aLostPositionIsReportedAndTheStreamOpenedAgain() throws Exception {
    ReplayableSource source =
        source(
            position -> {
              if (position.isPresent()) {
                throw new PositionLostException("pruned", 10);
              }
              return batch -> {
                batch.add(10, new byte[1]);
                return Progress.END;
              };
            });
    try (Connector connector = Connector.start(source, gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      session.openAfter(5);
      PositionLost lost = session.next(MessageCase.POSITION_LOST).getPositionLost();
      assertEquals(10, lost.getEarliestSequence());
      assertEquals("pruned", lost.getReason());
      OpenStream again = session.awaitOpen();
      session.opened(
          StreamOpened.newBuilder()
              .setStreamId(again.getStreamId())
              .setResume(SourceGateway.position(5))
              .setSkipLost(true));
      assertEquals(List.of(10L), session.sequences(1));
      session.acknowledge(again.getStreamId(), 10);
      session.goodbye();
    }
  }

  @Test
  void aQueueIsCountedAndItsTokensComeBackOnce() throws Exception {
    BlockingQueue<List<String>> acknowledged = new LinkedBlockingQueue<>();
    AtomicInteger readers = new AtomicInteger();
    BlockingQueue<Optional<Position>> positions = new LinkedBlockingQueue<>();
    RedeliveringSource<String> jobs = jobs(acknowledged, readers, positions);
    try (Connector connector = Connector.start(jobs, gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      OpenStream open = session.awaitOpen();
      assertEquals(SourceKind.SOURCE_KIND_REDELIVERING, open.getKind());
      session.opened(StreamOpened.newBuilder().setStreamId(1).setEpoch(3));
      assertEquals(List.of(1L, 2L, 3L), session.sequences(3));
      io.headrace.protocol.v1.Position.Builder position =
          io.headrace.protocol.v1.Position.newBuilder().setSequence(2);
      session.acknowledge(1, position.setEpoch(2).build());
      session.acknowledge(1, position.setEpoch(3).build());
      assertEquals(List.of("t1", "t2"), acknowledged.take());
      session.reject(1, RejectReason.REJECT_REASON_REOPEN);
      OpenStream again = session.awaitOpen();
      position.setCursor(com.google.protobuf.ByteString.copyFromUtf8("this queue"));
      session.opened(
          StreamOpened.newBuilder()
              .setStreamId(again.getStreamId())
              .setEpoch(4)
              .setEarlier(position.build()));
      position.clearCursor();
      assertEquals(List.of(1L, 2L, 3L), session.sequences(3));
      assertEquals(2, readers.get());
      assertEquals(Optional.empty(), positions.take());
      Position earlier = positions.take().orElseThrow();
      assertEquals(3, earlier.epoch());
      assertEquals("this queue", new String(earlier.cursor().orElseThrow(), UTF_8));
      connector.stop();
      session.acknowledge(again.getStreamId(), position.setEpoch(4).setSequence(3).build());
      session.goodbye();
    }
    assertEquals(List.of("t1", "t2", "t3"), acknowledged.take());
  }

  private static RedeliveringSource<String> jobs(
      BlockingQueue<List<String>> acknowledged,
      AtomicInteger readers,
      BlockingQueue<Optional<Position>> positions) {
    return new RedeliveringSource<>() {
      @Override
      public String name() {
        return "jobs";
      }

      @Override
      public QueueReader<String> open(String partition, Optional<Position> earlier) {
        positions.add(earlier);
        return open(partition);
      }

      @Override
      public QueueReader<String> open(String partition) {
        readers.incrementAndGet();
        return new QueueReader<>() {
          private int count;

          @Override
          public Progress read(Deliveries<String> deliveries) {
            if (count == 3) {
              return Progress.IDLE;
            }
            count++;
            deliveries.add("t" + count, new byte[1]).id("m" + count);
            deliveries.cursor("this queue".getBytes(UTF_8));
            return Progress.MORE;
          }

          @Override
          public void acknowledged(List<String> tokens) {
            acknowledged.add(List.copyOf(tokens));
          }
        };
      }
    };
  }

  @Test
  void theStartIsAskedOfTheSourceOnceAndKept() throws Exception {
    AtomicInteger asked = new AtomicInteger();
    ReplayableSource source =
        new ReplayableSource() {
          @Override
          public String name() {
            return "tail";
          }

          @Override
          public boolean choosesStart() {
            return true;
          }

          @Override
          public Map<String, Position> starts(Set<String> partitions) {
            return Map.of("0", Position.of(41 + asked.incrementAndGet()));
          }

          @Override
          public PartitionReader open(String partition, Optional<Position> position) {
            return batch -> Progress.IDLE;
          }
        };
    try (Connector connector = Connector.start(source, gateway.settings())) {
      for (int round = 0; round < 2; round++) {
        SourceGateway session = SourceGateway.welcome(gateway);
        OpenStream open = session.awaitOpen();
        assertTrue(open.getChoosesStart());
        session.send(
            IngestResponse.newBuilder()
                .setStartsWanted(StartsWanted.newBuilder().setStreamId(open.getStreamId())));
        Starts starts = session.next(MessageCase.STARTS).getStarts();
        assertEquals(42, starts.getStreams(0).getPosition().getSequence());
        session.end(io.grpc.Status.UNAVAILABLE);
      }
      SourceGateway.accept(gateway);
      connector.stop();
    }
    assertEquals(1, asked.get());
  }

  @Test
  void whatIsLeftIsReported() throws Exception {
    try (Connector connector =
        Connector.start(new Numbers(3, Progress.IDLE, "0"), gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      session.open();
      session.sequences(3);
      assertEquals(3, session.next(MessageCase.BACKLOG).getBacklog().getLatestSequence());
      connector.stop();
      session.acknowledge(1, 3);
      session.goodbye();
    }
  }

  @Test
  void reportsAreHeartbeatsWhenNothingChanges() throws Exception {
    try (Connector connector =
        Connector.start(new Numbers(3, Progress.IDLE, "0"), gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      for (int reports = 0; reports < 3; reports++) {
        Report report = session.next(MessageCase.REPORT).getReport();
        assertEquals(ConnectorState.CONNECTOR_STATE_RUNNING, report.getState());
      }
      connector.stop();
      session.goodbye();
    }
  }

  @Test
  void operatorsAreToldOfErrorsAndOfWhatDoesNotWork() throws Exception {
    try (Connector connector =
        Connector.start(new Numbers(1, Progress.IDLE, "0"), gateway.settings())) {
      SourceGateway.accept(gateway).end(io.grpc.Status.UNAVAILABLE.withDescription("restarting"));
      SourceGateway session = SourceGateway.welcome(gateway);
      Report report = session.report(ConnectorState.CONNECTOR_STATE_RUNNING);
      assertTrue(report.getErrors(0).getMessage().contains("restarting"));
      session.reject(session.awaitOpen().getStreamId(), RejectReason.REJECT_REASON_OWNED);
      report = session.report(ConnectorState.CONNECTOR_STATE_DEGRADED);
      assertEquals("as the test says", report.getReason());
      session.open();
      session.report(ConnectorState.CONNECTOR_STATE_RUNNING);
      session.sequences(1);
      connector.stop();
      session.acknowledge(2, 1);
      session.session().awaitEnd();
    }
  }

  /** Says of itself what a test says. */
  private static final class Reporting implements ReplayableSource {
    private Reporter reporter;

    @Override
    public String name() {
      return "reporting";
    }

    @Override
    public void reportTo(Reporter reporter) {
      this.reporter = reporter;
      reporter.connecting();
    }

    @Override
    public PartitionReader open(String partition, Optional<Position> position) {
      return batch -> Progress.IDLE;
    }
  }

  @Test
  void aSourceReportsItsOwnState() throws Exception {
    Reporting source = new Reporting();
    try (Connector connector = Connector.start(source, gateway.settings())) {
      SourceGateway first = SourceGateway.welcome(gateway);
      first.report(ConnectorState.CONNECTOR_STATE_CONNECTING);
      source.reporter.degraded("one of two servers is away");
      Report report = first.report(ConnectorState.CONNECTOR_STATE_DEGRADED);
      assertEquals("one of two servers is away", report.getReason());
      assertEquals(
          List.of("one of two servers is away"),
          report.getErrorsList().stream().map(ConnectorError::getMessage).toList());
      for (int time = 0; time < 100; time++) {
        source.reporter.running();
        source.reporter.waiting("both servers are away, " + "ä".repeat(5000));
      }
      report = first.report(ConnectorState.CONNECTOR_STATE_WAITING);
      assertTrue(report.getReason().startsWith("both servers are away, ä"), report.getReason());
      assertTrue(report.getReason().getBytes(UTF_8).length <= 4096);
      first.end(io.grpc.Status.UNAVAILABLE);
      SourceGateway second = SourceGateway.welcome(gateway);
      second.report(ConnectorState.CONNECTOR_STATE_WAITING);
      second.reject(second.awaitOpen().getStreamId(), RejectReason.REJECT_REASON_OWNED);
      second.report(ConnectorState.CONNECTOR_STATE_WAITING);
      source.reporter.running();
      report = second.report(ConnectorState.CONNECTOR_STATE_DEGRADED);
      assertEquals("as the test says", report.getReason());
      connector.stop();
      second.session().awaitEnd();
    }
  }

  @Test
  void moreStreamsThanAllowedTakeTurnsOrEndTheConnector() throws Exception {
    Connector connector =
        Connector.start(new Numbers(1, Progress.END, "a", "b"), gateway.settings());
    SourceGateway.accept(gateway).welcome(SourceGateway.limits().setMaxStreams(1));
    InvalidConnectorException error =
        assertThrows(InvalidConnectorException.class, connector::join);
    assertEquals(2, error.exitCode());
    assertTrue(error.getMessage().contains("2 partitions"), error.getMessage());
  }

  @Test
  void aNameThatIsNotAllowedIsRefusedAtOnce() {
    ReplayableSource source =
        new ReplayableSource() {
          @Override
          public String name() {
            return "a/b";
          }

          @Override
          public PartitionReader open(String partition, Optional<Position> position) {
            return batch -> Progress.END;
          }
        };
    assertThrows(
        InvalidConnectorException.class, () -> Connector.start(source, gateway.settings()));
    assertFalse(Thread.currentThread().isInterrupted());
  }
}
