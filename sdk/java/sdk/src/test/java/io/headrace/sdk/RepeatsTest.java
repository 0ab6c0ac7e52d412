package io.headrace.sdk;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.headrace.sdk.source.Batch;
import io.headrace.sdk.source.PartitionReader;
import io.headrace.sdk.source.Progress;
import io.headrace.sdk.source.ReplayableSource;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A source that ignores its position is named, and what it sends again is counted. */
@Timeout(120)
class RepeatsTest {
  private static final Logger LOG = Logger.getLogger("io.headrace.sdk");
  private final List<String> lines = new CopyOnWriteArrayList<>();
  private FakeGateway gateway;

  private final Handler handler =
      new Handler() {
        private final SimpleFormatter formatter = new SimpleFormatter();

        @Override
        public void publish(LogRecord record) {
          lines.add(formatter.formatMessage(record));
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
      };

  @BeforeEach
  void start() throws Exception {
    gateway = new FakeGateway();
    LOG.addHandler(handler);
  }

  @AfterEach
  void stop() throws Exception {
    LOG.removeHandler(handler);
    gateway.close();
  }

  /** A source that always begins with its first message. */
  private static final class Forgetful implements ReplayableSource {
    @Override
    public String name() {
      return "log";
    }

    @Override
    public PartitionReader open(String partition, Optional<Position> position) {
      return new PartitionReader() {
        private int at;

        @Override
        public Progress read(Batch batch) {
          if (at == 10) {
            return Progress.END;
          }
          at++;
          batch.add(at, "a".getBytes(UTF_8));
          return Progress.MORE;
        }
      };
    }
  }

  private long linesWith(String text) {
    return lines.stream().filter(line -> line.startsWith("stream log/0: " + text)).count();
  }

  @Test
  void aSourceThatIgnoresItsPositionIsNamedAndWhatItSendsAgainIsCounted() throws Exception {
    Connector connector = Connector.start(new Forgetful(), gateway.settings());
    SourceGateway session = SourceGateway.welcome(gateway);
    int stream = session.openAfter(7).getStreamId();
    session.sequences(10);
    session.acknowledge(stream, 10);
    session.goodbye();
    connector.join();
    assertEquals(1, linesWith("its reader ignores its position"), lines::toString);
    assertEquals(1, linesWith("messages sent again: 7"), lines::toString);
  }

  @Test
  void aSourceWithoutPositionIsNotNamed() throws Exception {
    Connector connector = Connector.start(new Forgetful(), gateway.settings());
    SourceGateway session = SourceGateway.welcome(gateway);
    int stream = session.open().getStreamId();
    session.sequences(10);
    session.acknowledge(stream, 10);
    session.goodbye();
    connector.join();
    assertEquals(0, linesWith("its reader ignores its position"), lines::toString);
  }
}
