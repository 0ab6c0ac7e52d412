package io.headrace.sdk.internal.source;

import io.grpc.ManagedChannel;
import io.headrace.protocol.v1.Capability;
import io.headrace.protocol.v1.Hello;
import io.headrace.protocol.v1.IngestRequest;
import io.headrace.protocol.v1.IngestResponse;
import io.headrace.protocol.v1.Welcome;
import io.headrace.sdk.GatewayRefusedException;
import io.headrace.sdk.Settings;
import io.headrace.sdk.internal.Attempt;
import io.headrace.sdk.internal.Ending;
import io.headrace.sdk.internal.Reports;
import io.headrace.sdk.internal.Sdk;
import io.headrace.sdk.internal.wire.Call;
import io.headrace.sdk.internal.wire.Channels;
import io.headrace.sdk.internal.wire.Methods;
import io.headrace.sdk.internal.wire.Signal;
import io.headrace.sdk.source.Source;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.Optional;
import java.util.function.BooleanSupplier;

/** Connects a source to a gateway. */
public final class SourceAttempt implements Attempt {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");

  private final SourceDriver driver;
  private final Settings settings;
  private final Signal signal;
  private final BooleanSupplier stopping;
  private final Reports reports;

  /**
   * Checks the source.
   *
   * @throws io.headrace.sdk.InvalidConnectorException if its name is not allowed
   */
  public SourceAttempt(
      Source source, Settings settings, Signal signal, BooleanSupplier stopping, Reports reports) {
    this.driver = new SourceDriver(source, settings.threads());
    this.settings = settings;
    this.signal = signal;
    this.stopping = stopping;
    this.reports = reports;
  }

  @Override
  public Ending run(Optional<String> token) throws InterruptedException {
    ManagedChannel channel = Channels.open(settings);
    try {
      Call<IngestRequest, IngestResponse> call =
          new Call<>(channel, Methods.INGEST, Channels.headers(token), signal);
      call.send(IngestRequest.newBuilder().setHello(hello()).build());
      IngestResponse answer = call.awaitFirst(settings, stopping);
      if (answer == null) {
        return Ending.STOPPED;
      }
      if (!answer.hasWelcome()) {
        throw new GatewayRefusedException(
            "gateway %s answered Hello with %s"
                .formatted(settings.gateway(), answer.getMessageCase()),
            "FAILED_PRECONDITION",
            "");
      }
      Welcome welcome = answer.getWelcome();
      LOG.log(
          Level.INFO,
          "connected to gateway {0} {1} as session {2}",
          settings.gateway(),
          welcome.getGatewayVersion(),
          welcome.getSession());
      settings.metrics().connected(welcome.getSession());
      reports.begin(welcome.getCapabilitiesList());
      return new SourceSession(driver, settings, welcome, call, signal, stopping, reports).run();
    } finally {
      channel.shutdownNow();
    }
  }

  @Override
  public void close() {
    driver.close();
  }

  private Hello hello() {
    Source source = driver.source();
    return Hello.newBuilder()
        .setProtocolVersion(Sdk.PROTOCOL_VERSION)
        .setConnector(source.connector())
        .setConnectorVersion(source.version())
        .setInstance(settings.instance().orElse(source.name()))
        .addCapabilities(Capability.CAPABILITY_PACE)
        .addCapabilities(Capability.CAPABILITY_REPORT)
        .addCapabilities(Capability.CAPABILITY_HEARTBEAT)
        .setSdk(Sdk.SELF)
        .build();
  }
}
