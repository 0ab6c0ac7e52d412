package io.headrace.sdk.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.headrace.protocol.v1.CloseStream;
import io.headrace.protocol.v1.IngestRequest.MessageCase;
import io.headrace.protocol.v1.OpenStream;
import io.headrace.protocol.v1.RejectReason;
import io.headrace.protocol.v1.SourceKind;
import io.headrace.protocol.v1.StreamOpened;
import io.headrace.sdk.Connector;
import io.headrace.sdk.FakeGateway;
import io.headrace.sdk.GatewayRefusedException;
import io.headrace.sdk.Position;
import io.headrace.sdk.SourceGateway;
import java.util.List;
import java.util.Optional;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class SourceSessionTest {
  private FakeGateway gateway;

  @BeforeEach
  void startGateway() throws Exception {
    gateway = new FakeGateway();
  }

  @AfterEach
  void stopGateway() throws Exception {
    gateway.close();
  }

  @Test
  void aSourceThatEndsIsSentAcknowledgedAndLeft() throws Exception {
    Numbers numbers = new Numbers(1000, Progress.END, "0");
    try (Connector connector = Connector.start(numbers, gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      assertEquals("numbers", session.hello.getInstance());
      assertEquals("headrace-java", session.hello.getSdk().getName());
      OpenStream open = session.open();
      assertEquals("numbers/0", open.getStream());
      assertEquals(SourceKind.SOURCE_KIND_REPLAYABLE, open.getKind());
      assertEquals(upTo(1, 1000), session.sequences(1000));
      CloseStream close = session.next(MessageCase.CLOSE_STREAM).getCloseStream();
      assertTrue(close.getEndOfStream());
      assertFalse(close.getGone());
      session.acknowledge(open.getStreamId(), 400);
      assertEquals(400, numbers.acknowledged.take());
      session.acknowledge(open.getStreamId(), 1000);
      assertEquals("the source has ended and everything is acknowledged", session.goodbye());
      connector.join();
    }
    assertEquals(1000, numbers.acknowledged.take());
    assertEquals(0, numbers.open.get());
  }

  @Test
  void anEndedStreamWithoutMessagesNeedsNoAcknowledgement() throws Exception {
    try (Connector connector =
        Connector.start(new Numbers(0, Progress.END, "0"), gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      session.open();
      session.goodbye();
      connector.join();
    }
  }

  @Test
  void aStreamResumesAfterThePosition() throws Exception {
    Numbers numbers = new Numbers(100, Progress.IDLE, "0");
    try (Connector connector = Connector.start(numbers, gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      session.openAfter(97);
      assertEquals(List.of(98L, 99L, 100L), session.sequences(3));
      assertEquals(Optional.of(Position.of(97)), numbers.opened.take());
      assertEquals(97L, numbers.acknowledged.take());
      connector.stop();
      session.acknowledge(1, 100);
      assertEquals("stopped", session.goodbye());
    }
  }

  @Test
  void nothingIsSentBeforeTheStreamIsOpened() throws Exception {
    try (Connector connector =
        Connector.start(new Numbers(1, Progress.IDLE, "a", "b"), gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      assertEquals("numbers/a", session.next().getOpenStream().getStream());
      assertEquals("numbers/b", session.next().getOpenStream().getStream());
      session.opened(StreamOpened.newBuilder().setStreamId(2));
      assertEquals(2, session.frame().getStreamId());
      connector.stop();
      session.acknowledge(2, 1);
      session.goodbye();
    }
  }

  @Test
  void aLostSessionContinuesInTheNext() throws Exception {
    Numbers numbers = new Numbers(10, Progress.IDLE, "0");
    try (Connector connector = Connector.start(numbers, gateway.settings())) {
      SourceGateway first = SourceGateway.welcome(gateway);
      first.open();
      first.sequences(10);
      first.end(Status.UNAVAILABLE.withDescription("restarting"));
      SourceGateway second = SourceGateway.welcome(gateway);
      second.openAfter(7);
      assertEquals(List.of(8L, 9L, 10L), second.sequences(3));
      assertEquals(1, numbers.open.get());
      connector.stop();
      second.acknowledge(1, 10);
      second.goodbye();
    }
  }

  @Test
  void aRefusedSessionEndsTheConnector() throws Exception {
    for (Status status :
        List.of(
            Status.UNAUTHENTICATED,
            Status.FAILED_PRECONDITION,
            Status.INVALID_ARGUMENT,
            Status.ABORTED,
            Status.RESOURCE_EXHAUSTED)) {
      Connector connector = Connector.start(new Numbers(1, Progress.IDLE, "0"), gateway.settings());
      SourceGateway.accept(gateway).end(status.withDescription("as the test says"));
      GatewayRefusedException error = assertThrows(GatewayRefusedException.class, connector::join);
      assertEquals(status.getCode().name(), error.status());
      assertTrue(error.getMessage().contains("as the test says"), error.getMessage());
    }
  }

  @Test
  void aRejectedStreamIsOpenedAgainUnderANewId() throws Exception {
    Numbers numbers = new Numbers(10, Progress.IDLE, "0");
    try (Connector connector = Connector.start(numbers, gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      OpenStream first = session.open();
      session.sequences(10);
      session.reject(first.getStreamId(), RejectReason.REJECT_REASON_REOPEN);
      OpenStream second = session.openAfter(5);
      assertEquals(first.getStreamId() + 1, second.getStreamId());
      assertEquals(List.of(6L, 7L, 8L, 9L, 10L), session.sequences(5));
      connector.stop();
      session.acknowledge(second.getStreamId(), 10);
      session.goodbye();
    }
  }

  @Test
  void aStreamOfAnotherInstanceIsAskedForAgain() throws Exception {
    try (Connector connector =
        Connector.start(new Numbers(1, Progress.IDLE, "0"), gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      session.reject(session.awaitOpen().getStreamId(), RejectReason.REJECT_REASON_OWNED);
      session.open();
      session.sequences(1);
      connector.stop();
      session.acknowledge(2, 1);
      session.goodbye();
    }
  }

  @Test
  void aStreamThatIsNotPermittedEndsTheConnector() throws Exception {
    Connector connector = Connector.start(new Numbers(1, Progress.IDLE, "0"), gateway.settings());
    SourceGateway session = SourceGateway.welcome(gateway);
    session.reject(session.awaitOpen().getStreamId(), RejectReason.REJECT_REASON_NOT_PERMITTED);
    GatewayRefusedException error = assertThrows(GatewayRefusedException.class, connector::join);
    assertTrue(error.getMessage().contains("numbers/0"), error.getMessage());
  }

  @Test
  void aDrainingGatewayIsLeftOnceEverythingIsAcknowledged() throws Exception {
    Numbers numbers = new Numbers(3, Progress.IDLE, "0");
    try (Connector connector = Connector.start(numbers, gateway.settings())) {
      SourceGateway first = SourceGateway.welcome(gateway);
      first.open();
      first.sequences(3);
      first.drain(60_000);
      first.acknowledge(1, 3);
      assertEquals("drained", first.goodbye());
      SourceGateway second = SourceGateway.welcome(gateway);
      second.openAfter(3);
      connector.stop();
      assertEquals("stopped", second.goodbye());
    }
  }

  @Test
  void aDrainingGatewayIsLeftWhenItsDeadlinePasses() throws Exception {
    try (Connector connector =
        Connector.start(new Numbers(3, Progress.IDLE, "0"), gateway.settings())) {
      SourceGateway first = SourceGateway.welcome(gateway);
      first.open();
      first.sequences(3);
      first.drain(50);
      assertEquals("drained", first.goodbye());
      SourceGateway second = SourceGateway.accept(gateway);
      connector.stop();
      second.session().awaitEnd();
    }
  }

  @Test
  void aPartitionThatIsGoneSaysSo() throws Exception {
    try (Connector connector =
        Connector.start(new Numbers(1, Progress.GONE, "0"), gateway.settings())) {
      SourceGateway session = SourceGateway.welcome(gateway);
      session.open();
      CloseStream close = session.next(MessageCase.CLOSE_STREAM).getCloseStream();
      assertTrue(close.getEndOfStream() && close.getGone());
      session.acknowledge(1, 1);
      connector.stop();
      session.goodbye();
    }
  }

  static List<Long> upTo(long first, long last) {
    return LongStream.rangeClosed(first, last).boxed().toList();
  }
}
