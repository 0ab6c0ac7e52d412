package io.headrace.sdk.internal.sink;

import io.grpc.ManagedChannel;
import io.headrace.protocol.v1.SinkHello;
import io.headrace.protocol.v1.SinkServiceAttachRequest;
import io.headrace.protocol.v1.SinkServiceAttachResponse;
import io.headrace.protocol.v1.SinkWelcome;
import io.headrace.sdk.GatewayRefusedException;
import io.headrace.sdk.Settings;
import io.headrace.sdk.internal.Attempt;
import io.headrace.sdk.internal.Ending;
import io.headrace.sdk.internal.Reports;
import io.headrace.sdk.internal.wire.Call;
import io.headrace.sdk.internal.wire.Channels;
import io.headrace.sdk.internal.wire.Methods;
import io.headrace.sdk.internal.wire.Signal;
import io.headrace.sdk.sink.Sink;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.Optional;
import java.util.function.BooleanSupplier;

/** Connects a sink to a gateway. */
public final class SinkAttempt implements Attempt {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");

  private final SinkDriver driver;
  private final Settings settings;
  private final Signal signal;
  private final BooleanSupplier stopping;
  private final Reports reports;

  /**
   * Checks the sink.
   *
   * @throws io.headrace.sdk.InvalidConnectorException if its name is not allowed
   */
  public SinkAttempt(
      Sink sink, Settings settings, Signal signal, BooleanSupplier stopping, Reports reports) {
    this.driver = new SinkDriver(sink);
    this.settings = settings;
    this.signal = signal;
    this.stopping = stopping;
    this.reports = reports;
  }

  @Override
  public Ending run(Optional<String> token) throws InterruptedException {
    SinkHello hello = driver.hello(settings.instance().orElse(driver.name()));
    ManagedChannel channel = Channels.open(settings);
    try {
      Call<SinkServiceAttachRequest, SinkServiceAttachResponse> call =
          new Call<>(channel, Methods.ATTACH, Channels.headers(token), signal);
      call.send(SinkServiceAttachRequest.newBuilder().setHello(hello).build());
      SinkServiceAttachResponse answer = call.awaitFirst(settings, stopping);
      if (answer == null) {
        return Ending.STOPPED;
      }
      if (!answer.hasWelcome()) {
        throw new GatewayRefusedException(
            "gateway %s answered SinkHello with %s"
                .formatted(settings.gateway(), answer.getMessageCase()),
            "FAILED_PRECONDITION",
            "");
      }
      SinkWelcome welcome = answer.getWelcome();
      LOG.log(
          Level.INFO,
          "connected to gateway {0} {1} as session {2}",
          settings.gateway(),
          welcome.getGatewayVersion(),
          welcome.getSession());
      settings.metrics().connected(welcome.getSession());
      reports.begin(welcome.getCapabilitiesList());
      return new SinkSession(driver, settings, welcome, call, signal, stopping, reports).run();
    } finally {
      channel.shutdownNow();
    }
  }

  @Override
  public void close() {
    // Nothing outlives a session.
  }
}
