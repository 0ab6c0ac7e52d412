package io.headrace.sdk;

import io.headrace.sdk.internal.Attempt;
import io.headrace.sdk.internal.Ending;
import io.headrace.sdk.internal.Reports;
import io.headrace.sdk.internal.Signals;
import io.headrace.sdk.internal.TemporaryFailure;
import io.headrace.sdk.internal.TokenFile;
import io.headrace.sdk.internal.log.Field;
import io.headrace.sdk.internal.log.LogContext;
import io.headrace.sdk.internal.log.LogOutput;
import io.headrace.sdk.internal.sink.SinkAttempt;
import io.headrace.sdk.internal.source.SourceAttempt;
import io.headrace.sdk.internal.wire.Addresses;
import io.headrace.sdk.internal.wire.Backoff;
import io.headrace.sdk.internal.wire.Signal;
import io.headrace.sdk.internal.wire.UnusableCertificates;
import io.headrace.sdk.sink.Sink;
import io.headrace.sdk.source.Source;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * A source or sink that is connected to a gateway, session after session. A gateway that is away is
 * waited for without limit.
 *
 * <p>A program that is nothing but a connector calls {@link #run(Source)} in its {@code main}:
 *
 * <pre>{@code
 * System.exit(Connector.run(new Countdown()));
 * }</pre>
 *
 * <p>In a larger program, {@link #start(Source, Settings)} returns at once, and {@link #close()}
 * stops the connector. At the end, also after an error, it calls {@link Source#close()} or {@link
 * Sink#close()}.
 */
public final class Connector implements AutoCloseable {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");

  private static final Duration STOOD = Duration.ofSeconds(2);
  private static final Duration COMPLAIN_EVERY = Duration.ofSeconds(10);

  private final Settings settings;
  private final Optional<TokenFile> tokenFile;
  private final Signal signal;
  private final Reports reports;
  private final CompletableFuture<Void> end = new CompletableFuture<>();
  private volatile boolean stopping;

  private Connector(Settings settings) {
    this.settings = settings;
    this.tokenFile =
        settings.tokenFile().map(path -> new TokenFile(settings.tokenFileName(), path));
    this.signal = new Signal();
    this.reports = new Reports(signal::raise);
  }

  /** Makes what connects. */
  private interface AttemptFactory {
    Attempt<?, ?> make(Settings settings, Signal signal, BooleanSupplier stopping, Reports reports);
  }

  /**
   * Runs a source with the settings of the environment, as {@link #run(Source, Settings)}.
   *
   * @param source the source
   * @return the exit code of the process
   */
  public static int run(Source source) {
    return run(() -> start(source, Settings.fromEnvironment()));
  }

  /**
   * Runs a source until it has ended and everything is acknowledged. SIGTERM and SIGINT stop it: it
   * sends what was read, and waits up to {@link Settings#drain()} for acknowledgements. A second
   * signal ends the process immediately.
   *
   * @param source the source
   * @param settings how to connect and run
   * @return the exit code of the process: 0 if the source has ended or was stopped, 1 if it failed,
   *     2 if the source or a setting is invalid. Failures are logged
   */
  public static int run(Source source, Settings settings) {
    return run(() -> start(source, settings));
  }

  /**
   * Starts a source on a thread of its own.
   *
   * @param source the source
   * @param settings how to connect and run
   * @return the connector, which runs
   * @throws InvalidConnectorException if the source or a setting is invalid
   */
  public static Connector start(Source source, Settings settings) {
    return start(
        source.name(),
        Map.of(),
        settings,
        source::reportTo,
        (where, signal, stopping, reports) ->
            new SourceAttempt(source, where, signal, stopping, reports));
  }

  /**
   * Runs a sink with the settings of the environment, as {@link #run(Sink, Settings)}.
   *
   * @param sink the sink
   * @return the exit code of the process
   */
  public static int run(Sink sink) {
    return run(() -> start(sink, Settings.fromEnvironment()));
  }

  /**
   * Runs a sink until SIGTERM or SIGINT stops it: it answers what has arrived, for up to {@link
   * Settings#drain()}. A second signal ends the process immediately.
   *
   * @param sink the sink
   * @param settings how to connect and run
   * @return the exit code of the process: 0 if the sink was stopped, 1 if the gateway refused it, 2
   *     if the sink or a setting is invalid. Failures are logged
   */
  public static int run(Sink sink, Settings settings) {
    return run(() -> start(sink, settings));
  }

  /**
   * Starts a sink on a thread of its own.
   *
   * @param sink the sink
   * @param settings how to connect and run
   * @return the connector, which runs
   * @throws InvalidConnectorException if the sink or a setting is invalid
   */
  public static Connector start(Sink sink, Settings settings) {
    return start(
        sink.name(),
        Map.of("sink", sink.name()),
        settings,
        sink::reportTo,
        (where, signal, stopping, reports) ->
            new SinkAttempt(sink, where, signal, stopping, reports));
  }

  private static Connector start(
      String name,
      Map<String, String> ownFields,
      Settings settings,
      Consumer<Reporter> reporting,
      AttemptFactory factory) {
    Connector connector = new Connector(settings);
    connector.warnOfToken();
    Attempt<?, ?> attempt =
        factory.make(settings, connector.signal, () -> connector.stopping, connector.reports);
    reporting.accept(connector.reports);
    Map<String, String> fields = new HashMap<>(ownFields);
    fields.put("instance", settings.instance().orElse(name));
    Thread thread =
        settings
            .threads()
            .newThread(
                () -> {
                  LogContext.enter(fields);
                  connector.serve(attempt);
                });
    thread.setName("headrace " + name);
    thread.start();
    return connector;
  }

  /** Stops the connector, without waiting. Calling it again has no effect. */
  public void stop() {
    stopping = true;
    signal.raise();
  }

  /**
   * Waits until the connector has ended: the source has ended, or it was stopped.
   *
   * @throws HeadraceException if it has failed
   * @throws InterruptedException if this thread was interrupted
   */
  public void join() throws InterruptedException {
    try {
      end.get();
    } catch (ExecutionException error) {
      if (error.getCause() instanceof HeadraceException known) {
        throw known;
      }
      throw new ConnectorFailedException(
          "the connector failed: " + error.getCause(), error.getCause());
    }
  }

  /**
   * Stops the connector and waits until it has ended.
   *
   * @throws HeadraceException if it has failed
   */
  @Override
  public void close() {
    stop();
    try {
      join();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  private static int run(Supplier<Connector> starter) {
    try {
      LogOutput.configure(System.getenv());
      Connector connector = starter.get();
      try (Signals signals = Signals.handle(connector::stop)) {
        connector.join();
      }
      return 0;
    } catch (HeadraceException error) {
      LOG.log(Level.ERROR, "the connector has stopped: " + error.getMessage(), error.getCause());
      // `headrace` shows the last error as the reason if the program fails in a deployment.
      if (!LogOutput.writesJson()) {
        System.err.println("Error: " + error.getMessage());
      }
      return error.exitCode();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      return 1;
    }
  }

  private void serve(Attempt<?, ?> attempt) {
    try {
      try (attempt) {
        keepConnected(attempt);
      }
      end.complete(null);
    } catch (Throwable error) { // whoever waits must learn of it
      end.completeExceptionally(error);
    }
  }

  private void keepConnected(Attempt<?, ?> attempt) throws InterruptedException {
    Backoff backoff =
        new Backoff(
            settings.firstBackoff(),
            settings.maxBackoff(),
            () -> ThreadLocalRandom.current().nextDouble());
    long complained = System.nanoTime() - COMPLAIN_EVERY.toNanos();
    boolean first = true;
    while (!stopping) {
      long began = System.nanoTime();
      tokenFile.ifPresent(TokenFile::refresh);
      try {
        if (attempt.run(token()) != Ending.DRAINED) {
          return;
        }
      } catch (GatewayUnavailableException | TemporaryFailure error) {
        if (error instanceof SessionEndedException ended) {
          settings.metrics().reconnecting(ended);
        }
        reports.error("", error.getMessage());
        boolean quiet = System.nanoTime() - complained < COMPLAIN_EVERY.toNanos();
        LOG.log(
            quiet ? Level.DEBUG : Level.WARNING,
            "{0}; trying again",
            Field.error(error.getMessage()));
        complained = quiet ? complained : System.nanoTime();
      } catch (GatewayRefusedException error) {
        if (!isReplaced(error)) {
          throw error;
        }
        LOG.log(
            Level.INFO,
            "the gateway no longer takes the token, and its file contains another one: connecting"
                + " with that");
      } catch (UnusableCertificates error) {
        if (first) {
          throw error.reason();
        }
        // Files that were valid are being replaced, perhaps one after the other.
        reports.error("", error.getMessage());
        LOG.log(Level.WARNING, "{0}; trying again", Field.error(error.getMessage()));
      }
      first = false;
      if (System.nanoTime() - began >= STOOD.toNanos()) {
        backoff.reset();
        complained = System.nanoTime() - COMPLAIN_EVERY.toNanos();
      }
      pause(backoff.next());
    }
  }

  /** The token that its file contained when it was last read, or that was set. */
  private Optional<String> token() {
    return tokenFile.map(TokenFile::token).or(settings::token);
  }

  /** Whether the gateway does not know the token that it was sent, and its file has another one. */
  private boolean isReplaced(GatewayRefusedException error) {
    return error.status().equals("UNAUTHENTICATED")
        && tokenFile.map(TokenFile::refresh).orElse(false);
  }

  private void pause(Duration duration) throws InterruptedException {
    long deadline = System.nanoTime() + duration.toNanos();
    while (!stopping && System.nanoTime() - deadline < 0) {
      signal.await(deadline);
    }
  }

  private void warnOfToken() {
    if (token().isPresent()
        && settings.tls().isEmpty()
        && !Addresses.leadsHere(settings.gateway())) {
      LOG.log(Level.WARNING, "the token goes to {0} in the clear: use TLS", settings.gateway());
    }
  }
}
