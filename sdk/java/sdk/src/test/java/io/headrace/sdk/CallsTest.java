package io.headrace.sdk;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.headrace.protocol.v1.OpenStream;
import io.headrace.sdk.source.Batch;
import io.headrace.sdk.source.PartitionReader;
import io.headrace.sdk.source.Progress;
import io.headrace.sdk.source.ReplayableSource;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A method that does not return is named while the connector runs. It returns once it is named. */
@Timeout(120)
class CallsTest {
  private static final Logger LOG = Logger.getLogger("io.headrace.sdk");
  private final CountDownLatch named = new CountDownLatch(1);
  private volatile String line = "";
  private FakeGateway gateway;

  private final Handler handler =
      new Handler() {
        private final SimpleFormatter formatter = new SimpleFormatter();

        @Override
        public void publish(LogRecord record) {
          String message = formatter.formatMessage(record);
          if (named.getCount() > 0 && message.contains("has not returned for")) {
            line = message;
            named.countDown();
          }
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

  /** A source in which one method waits until it is named. */
  private final class Slow implements ReplayableSource {
    private final String slow;

    Slow(String slow) {
      this.slow = slow;
    }

    @Override
    public String name() {
      return "slow";
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
          called("read");
          if (done) {
            return Progress.IDLE;
          }
          batch.add(1, "a".getBytes(UTF_8));
          done = true;
          return Progress.MORE;
        }

        @Override
        public void acknowledged(Position position) {
          called("acknowledged");
        }
      };
    }

    private void called(String method) {
      boolean waits = method.equals(slow);
      while (waits) {
        try {
          waits = !named.await(1, TimeUnit.MINUTES);
        } catch (InterruptedException error) {
          // As a method that takes an interruption for an error of its own.
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"partitions", "open", "read", "acknowledged"})
  void aMethodThatDoesNotReturnIsNamedWithWhereItStands(String method) throws Exception {
    Settings settings = gateway.settings().toBuilder().stuck(Duration.ofMillis(50)).build();
    try (Connector connector = Connector.start(new Slow(method), settings)) {
      SourceGateway session = SourceGateway.welcome(gateway);
      OpenStream open = session.open();
      session.sequences(1);
      session.acknowledge(open.getStreamId(), 1);
      named.await();
      assertTrue(line.contains("." + method + "() has not returned for PT"), line);
      assertTrue(line.contains("it stands at CallsTest.java:"), line);
      String place = method.equals("partitions") ? "source slow: " : "stream slow/0: ";
      assertTrue(line.startsWith(place), line);
      connector.stop();
    }
  }
}
