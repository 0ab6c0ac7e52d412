package io.headrace.sdk.internal;

import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.headrace.sdk.GatewayRefusedException;
import io.headrace.sdk.Settings;
import io.headrace.sdk.internal.log.LogContext;
import io.headrace.sdk.internal.wire.Call;
import io.headrace.sdk.internal.wire.Channels;
import io.headrace.sdk.internal.wire.Signal;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.Optional;
import java.util.function.BooleanSupplier;

/**
 * Connects to a gateway and serves one session.
 *
 * @param <Q> what the connector sends
 * @param <R> what the gateway sends
 */
public abstract class Attempt<Q, R> implements AutoCloseable {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");

  /** The settings of the connector. */
  protected final Settings settings;

  /** Raised when something happens that the session must look at. */
  protected final Signal signal;

  /** Whether the connector is to stop. */
  protected final BooleanSupplier stopping;

  /** The connector, as its Hello names it. */
  protected final Reports reports;

  private final MethodDescriptor<Q, R> method;

  /**
   * The gateway and the session, as Welcome names them.
   *
   * @param gatewayVersion its version
   * @param session the id of the session
   */
  public record Welcomed(String gatewayVersion, String session) {}

  /**
   * Creates an attempt that has not begun.
   *
   * @param method the call to make
   * @param settings the settings of the connector
   * @param signal raised when something happens that the session must look at
   * @param stopping whether the connector is to stop
   * @param reports what the connector tells the gateway of itself
   */
  protected Attempt(
      MethodDescriptor<Q, R> method,
      Settings settings,
      Signal signal,
      BooleanSupplier stopping,
      Reports reports) {
    this.method = method;
    this.settings = settings;
    this.signal = signal;
    this.stopping = stopping;
    this.reports = reports;
  }

  /**
   * Runs one session.
   *
   * @param token the token by which the connector authenticates
   * @return how it ended
   * @throws io.headrace.sdk.GatewayUnavailableException if it is worth another attempt
   * @throws io.headrace.sdk.HeadraceException if it is not
   * @throws InterruptedException if the connector's thread was interrupted
   */
  public final Ending run(Optional<String> token) throws InterruptedException {
    Q hello = hello();
    ManagedChannel channel = Channels.open(settings);
    try {
      Call<Q, R> call = new Call<>(channel, method, Channels.headers(token), signal);
      call.send(hello);
      R answer = call.awaitFirst(settings, stopping);
      if (answer == null) {
        return Ending.STOPPED;
      }
      Welcomed welcomed = welcomed(answer).orElseThrow(() -> refused(answer));
      LogContext.session(welcomed.session());
      LOG.log(
          Level.INFO,
          "connected to gateway {0} {1} as session {2}",
          settings.gateway(),
          welcomed.gatewayVersion(),
          welcomed.session());
      settings.metrics().connected(welcomed.session());
      reports.begin();
      return serve(answer, call);
    } finally {
      LogContext.session("");
      channel.shutdownNow();
    }
  }

  /** The first message of the connector. */
  protected abstract Q hello();

  /** The content of the gateway's first message; empty if it is no Welcome. */
  protected abstract Optional<Welcomed> welcomed(R answer);

  /** The kind of a message of the gateway. */
  protected abstract Enum<?> kindOf(R answer);

  /**
   * Serves the session from its Welcome to its end.
   *
   * @param welcome the message with the Welcome
   * @param call the call
   * @return how the session ended
   * @throws InterruptedException if the connector's thread was interrupted
   */
  protected abstract Ending serve(R welcome, Call<Q, R> call) throws InterruptedException;

  /** Releases what outlives a session. */
  @Override
  public abstract void close();

  private GatewayRefusedException refused(R answer) {
    return new GatewayRefusedException(
        "gateway %s answered Hello with %s".formatted(settings.gateway(), kindOf(answer)),
        "FAILED_PRECONDITION",
        "");
  }
}
