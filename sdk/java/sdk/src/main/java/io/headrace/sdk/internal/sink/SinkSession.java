package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.PartFrame;
import io.headrace.protocol.v1.Report;
import io.headrace.protocol.v1.SinkBusy;
import io.headrace.protocol.v1.SinkGoodbye;
import io.headrace.protocol.v1.SinkServiceAttachRequest;
import io.headrace.protocol.v1.SinkServiceAttachResponse;
import io.headrace.protocol.v1.SinkWelcome;
import io.headrace.sdk.Settings;
import io.headrace.sdk.internal.Ending;
import io.headrace.sdk.internal.Reports;
import io.headrace.sdk.internal.wire.Call;
import io.headrace.sdk.internal.wire.Endings;
import io.headrace.sdk.internal.wire.Signal;
import io.headrace.sdk.sink.AtLeastOnceSink;
import io.headrace.sdk.sink.IdempotentSink;
import io.headrace.sdk.sink.TwoPhaseSink;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.function.BooleanSupplier;

/** One session of a sink, from Welcome to its end, on one thread. */
final class SinkSession {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");
  private static final Duration GOODBYE = Duration.ofSeconds(1);
  private static final long FAR = Duration.ofHours(1).toNanos();

  private final SinkDriver driver;
  private final Settings settings;
  private final Call<SinkServiceAttachRequest, SinkServiceAttachResponse> call;
  private final Signal signal;
  private final BooleanSupplier stopping;
  private final Reports reports;
  private final Answers answers;
  private final SinkHandler handler;
  private final long busyNanos;
  private long saidAt = System.nanoTime();
  private Ending leaving;
  private long leaveBy;

  SinkSession(
      SinkDriver driver,
      Settings settings,
      SinkWelcome welcome,
      Call<SinkServiceAttachRequest, SinkServiceAttachResponse> call,
      Signal signal,
      BooleanSupplier stopping,
      Reports reports) {
    this.driver = driver;
    this.settings = settings;
    this.call = call;
    this.signal = signal;
    this.stopping = stopping;
    this.reports = reports;
    this.answers = new Answers(driver.name(), settings.metrics(), reports, signal);
    this.handler = handler();
    this.busyNanos = Duration.ofMillis(welcome.getReadTimeoutMs()).toNanos() / 4;
  }

  /**
   * Serves the session until it ends; no method of the sink runs for it afterwards.
   *
   * @return how it ended
   */
  Ending run() throws InterruptedException {
    try {
      while (!isOver()) {
        receive();
        if (stopping.getAsBoolean()) {
          leave(Ending.STOPPED, settings.drain().toNanos());
        }
        send();
        if (!isOver()) {
          signal.await(nextLook());
        }
      }
      sayGoodbye();
      return leaving;
    } finally {
      close();
    }
  }

  private SinkHandler handler() {
    if (driver.sink() instanceof TwoPhaseSink twoPhase) {
      TwoPhaseHandler handles = new TwoPhaseHandler(twoPhase, driver, settings, answers);
      handles.start();
      return handles;
    }
    InOrderHandler handles =
        driver.sink() instanceof IdempotentSink idempotent
            ? new IdempotentHandler(idempotent, driver, settings, answers)
            : new AtLeastOnceHandler((AtLeastOnceSink) driver.sink(), driver, settings, answers);
    handles.start(settings);
    return handles;
  }

  private void receive() {
    // What arrives while the session is ending is ignored.
    SinkServiceAttachResponse message;
    while ((leaving != null || handler.hasRoom()) && (message = call.poll()) != null) {
      if (message.hasDrain()) {
        LOG.log(Level.INFO, "the gateway asks to reconnect: {0}", message.getDrain().getReason());
        long deadline = Duration.ofMillis(message.getDrain().getDeadlineMs()).toNanos();
        // A share of it, so that the last answers and Goodbye arrive in time.
        leave(Ending.DRAINED, deadline / 10 * 9);
      } else if (leaving == null) {
        count(message);
        handler.take(message);
      }
    }
    if (call.hasEnded()) {
      throw Endings.of(settings.gateway(), call.status(), call.trailers());
    }
  }

  private void count(SinkServiceAttachResponse message) {
    if (message.hasFrame()) {
      PartFrame frame = message.getFrame();
      settings
          .metrics()
          .frameReceived(
              driver.name(), frame.getFrame().getCount(), frame.getFrame().getSerializedSize());
    }
  }

  private void send() {
    while (call.isReady()) {
      Report report = reports.next();
      if (report != null) {
        say(SinkServiceAttachRequest.newBuilder().setReport(report).build());
      }
      SinkServiceAttachRequest answer = answers.poll();
      if (answer == null) {
        break;
      }
      say(answer);
    }
    if (isBusy() && System.nanoTime() - saidAt >= busyNanos) {
      say(SinkServiceAttachRequest.newBuilder().setBusy(SinkBusy.getDefaultInstance()).build());
    }
  }

  /** Whether the gateway has to be told, from time to time, that nothing is read. */
  private boolean isBusy() {
    return busyNanos > 0 && leaving == null && !handler.hasRoom();
  }

  private void say(SinkServiceAttachRequest request) {
    call.send(request);
    saidAt = System.nanoTime();
  }

  private long nextLook() {
    long next = System.nanoTime() + FAR;
    if (leaving != null) {
      next = earlier(next, leaveBy);
    }
    if (isBusy()) {
      next = earlier(next, saidAt + busyNanos);
    }
    return reports.nextLook(next);
  }

  private static long earlier(long first, long second) {
    return first - second < 0 ? first : second;
  }

  /**
   * Takes no more messages; ends the session once what has arrived is answered, or after a while.
   */
  private void leave(Ending why, long nanos) {
    if (leaving == null) {
      leaving = why;
      leaveBy = System.nanoTime() + nanos;
      handler.finish();
    }
  }

  private boolean isOver() {
    if (leaving == null) {
      return false;
    }
    return System.nanoTime() - leaveBy >= 0 || (handler.isFinished() && answers.isEmpty());
  }

  private void sayGoodbye() throws InterruptedException {
    SinkGoodbye goodbye = SinkGoodbye.newBuilder().setReason(leaving.goodbye()).build();
    say(SinkServiceAttachRequest.newBuilder().setGoodbye(goodbye).build());
    call.halfClose();
    // The gateway ends the call; cancelling it could overtake what was just sent.
    long deadline = System.nanoTime() + GOODBYE.toNanos();
    while (!call.hasEnded() && System.nanoTime() - deadline < 0) {
      if (call.poll() == null) {
        signal.await(deadline);
      }
    }
  }

  /** Waits until no method of the sink runs; only for a while if the connector is to stop. */
  private void close() throws InterruptedException {
    call.cancel();
    handler.drop();
    while (!handler.awaitClosed(settings.stuck().toNanos())) {
      LOG.log(
          Level.WARNING,
          "sink {0}: still busy with what is no longer needed, for {1}",
          driver.name(),
          settings.stuck());
      if (stopping.getAsBoolean()) {
        driver.abandon(handler);
        return;
      }
    }
  }
}
