package io.headrace.sdk;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.protocol.v1.OpenStream;
import io.headrace.sdk.sink.AtLeastOnceSink;
import io.headrace.sdk.sink.Outcomes;
import io.headrace.sdk.sink.Part;
import io.headrace.sdk.sink.Rows;
import io.headrace.sdk.source.Batch;
import io.headrace.sdk.source.PartitionReader;
import io.headrace.sdk.source.Progress;
import io.headrace.sdk.source.ReplayableSource;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(60)
class CloseTest {
  private FakeGateway gateway;

  @BeforeEach
  void startGateway() throws Exception {
    gateway = new FakeGateway();
  }

  @AfterEach
  void stopGateway() throws Exception {
    gateway.close();
  }

  /** A source that notes its calls. */
  private static final class Noted implements ReplayableSource {
    final List<String> calls = new CopyOnWriteArrayList<>();
    final CountDownLatch reading = new CountDownLatch(1);
    final CountDownLatch release = new CountDownLatch(1);
    Progress end = Progress.END;
    String fails = "";
    String hangs = "";

    @Override
    public String name() {
      return "noted";
    }

    @Override
    public List<String> partitions() {
      called("partitions");
      return List.of("0");
    }

    @Override
    public PartitionReader open(String partition, Optional<Position> position) {
      called("open");
      return new PartitionReader() {
        private boolean done;

        @Override
        public Progress read(Batch batch) {
          reading.countDown();
          called("read");
          if (done) {
            return end;
          }
          batch.add(1, "a".getBytes(UTF_8));
          done = true;
          return Progress.MORE;
        }

        @Override
        public void close() {
          calls.add("close of the reader");
        }
      };
    }

    @Override
    public void close() {
      called("close");
    }

    private void called(String call) {
      if (!call.equals("read")) {
        calls.add(call);
      }
      if (call.equals(fails)) {
        throw new IllegalStateException(call + " fails");
      }
      while (call.equals(hangs) && release.getCount() > 0) {
        try {
          release.await();
        } catch (InterruptedException error) {
          // As a method that takes an interruption for an error of its own.
        }
      }
    }

    boolean isClosedLast() {
      return calls.indexOf("close") == calls.size() - 1;
    }
  }

  @Test
  void aSourceIsClosedOnceItHasEnded() throws Exception {
    Noted source = new Noted();
    Connector connector = Connector.start(source, gateway.settings());
    SourceGateway session = SourceGateway.welcome(gateway);
    OpenStream open = session.open();
    session.sequences(1);
    session.acknowledge(open.getStreamId(), 1);
    session.goodbye();
    connector.join();
    assertTrue(source.isClosedLast(), source.calls::toString);
    assertTrue(source.calls.contains("close of the reader"));
  }

  @Test
  void aSourceIsClosedOnceItIsStopped() throws Exception {
    Noted source = new Noted();
    source.end = Progress.IDLE;
    Connector connector = Connector.start(source, gateway.settings());
    SourceGateway session = SourceGateway.welcome(gateway);
    OpenStream open = session.open();
    session.sequences(1);
    connector.stop();
    session.acknowledge(open.getStreamId(), 1);
    session.goodbye();
    connector.join();
    assertTrue(source.isClosedLast(), source.calls::toString);
  }

  @ParameterizedTest
  @ValueSource(strings = {"partitions", "open", "read"})
  void aSourceIsClosedAfterAnError(String fails) throws Exception {
    Noted source = new Noted();
    source.fails = fails;
    Connector connector = Connector.start(source, gateway.settings());
    SourceGateway session = SourceGateway.welcome(gateway);
    if (!fails.equals("partitions")) {
      session.open();
    }
    assertThrows(ConnectorFailedException.class, connector::join);
    assertTrue(source.isClosedLast(), source.calls::toString);
  }

  @Test
  void aSourceIsClosedThoughNoGatewayWasEverThere() throws Exception {
    Noted source = new Noted();
    Settings settings = gateway.settings().toBuilder().gateway("localhost:1").build();
    Connector.start(source, settings).close();
    assertEquals(List.of("close"), source.calls);
  }

  @Test
  void aSourceWhoseSettingsAreInvalidIsNotCalledAtAll() {
    Noted source = new Noted();
    Settings settings = gateway.settings().toBuilder().tokenFile(Path.of("/no/token")).build();
    InvalidConnectorException error =
        assertThrows(InvalidConnectorException.class, () -> Connector.start(source, settings));
    assertTrue(error.getMessage().startsWith("tokenFile: /no/token"), error::getMessage);
    assertEquals(List.of(), source.calls);
  }

  @Test
  void aCloseThatThrowsChangesNothingElse() throws Exception {
    Noted source = new Noted();
    source.fails = "close";
    Connector.start(source, gateway.settings()).close();
    assertEquals("close", source.calls.get(source.calls.size() - 1));
  }

  @Test
  void aCloseThatDoesNotReturnIsLeft() throws Exception {
    Noted source = new Noted();
    source.hangs = "close";
    Connector.start(source, hasty()).close();
    source.release.countDown();
  }

  @Test
  void aSourceIsNotClosedBesideAMethodThatHasNotReturned() throws Exception {
    Noted source = new Noted();
    source.hangs = "read";
    Connector connector = Connector.start(source, hasty());
    SourceGateway.welcome(gateway).open();
    source.reading.await();
    connector.close();
    assertFalse(source.calls.contains("close"), source.calls::toString);
    source.release.countDown();
  }

  @Test
  void aSinkIsClosedOnceItIsStopped() throws Exception {
    List<String> calls = new CopyOnWriteArrayList<>();
    AtLeastOnceSink sink =
        new AtLeastOnceSink() {
          @Override
          public String name() {
            return "noted";
          }

          @Override
          public Outcomes write(Part part, Rows rows) {
            calls.add("write");
            return Outcomes.ALL_WRITTEN;
          }

          @Override
          public void flush() {
            calls.add("flush");
          }

          @Override
          public void close() {
            calls.add("close");
          }
        };
    Connector connector = Connector.start(sink, gateway.settings());
    SinkGateway session = SinkGateway.welcome(gateway);
    session.deliver(1, SinkGateway.part(0, 0), "a");
    assertEquals(1, session.answer().getStaged().getId());
    connector.close();
    assertEquals(List.of("write", "flush", "close"), calls);
  }

  /** Settings with which methods that never return are soon abandoned. */
  private Settings hasty() {
    return gateway.settings().toBuilder()
        .stuck(Duration.ofMillis(20))
        .closeTimeout(Duration.ofMillis(200))
        .build();
  }
}
