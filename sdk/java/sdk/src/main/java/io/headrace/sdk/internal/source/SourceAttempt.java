package io.headrace.sdk.internal.source;

import io.headrace.protocol.v1.Capability;
import io.headrace.protocol.v1.Hello;
import io.headrace.protocol.v1.IngestRequest;
import io.headrace.protocol.v1.IngestResponse;
import io.headrace.protocol.v1.Welcome;
import io.headrace.sdk.Settings;
import io.headrace.sdk.internal.Attempt;
import io.headrace.sdk.internal.Calls;
import io.headrace.sdk.internal.Ending;
import io.headrace.sdk.internal.Reports;
import io.headrace.sdk.internal.Sdk;
import io.headrace.sdk.internal.wire.Call;
import io.headrace.sdk.internal.wire.Methods;
import io.headrace.sdk.internal.wire.Signal;
import io.headrace.sdk.source.Source;
import java.util.Optional;
import java.util.function.BooleanSupplier;

/** Connects a source to a gateway. */
public final class SourceAttempt extends Attempt<IngestRequest, IngestResponse> {
  private final SourceDriver driver;

  /**
   * Checks the source.
   *
   * @throws io.headrace.sdk.InvalidConnectorException if its name is not allowed
   */
  public SourceAttempt(
      Source source, Settings settings, Signal signal, BooleanSupplier stopping, Reports reports) {
    super(Methods.INGEST, settings, signal, stopping, reports);
    this.driver =
        new SourceDriver(source, settings, new Calls("source " + source.name(), reports, settings));
  }

  @Override
  protected IngestRequest hello() {
    Source source = driver.source();
    Hello hello =
        Hello.newBuilder()
            .setProtocolVersion(Sdk.PROTOCOL_VERSION)
            .setConnector(source.connector())
            .setConnectorVersion(source.version())
            .setInstance(settings.instance().orElse(source.name()))
            .addCapabilities(Capability.CAPABILITY_PACE)
            .addCapabilities(Capability.CAPABILITY_HEARTBEAT)
            .addCapabilities(Capability.CAPABILITY_FRAMES)
            .addCapabilities(Capability.CAPABILITY_CURSORS)
            .setSdk(Sdk.SELF)
            .build();
    return IngestRequest.newBuilder().setHello(hello).build();
  }

  @Override
  protected Optional<Welcomed> welcomed(IngestResponse answer) {
    if (!answer.hasWelcome()) {
      return Optional.empty();
    }
    Welcome welcome = answer.getWelcome();
    return Optional.of(new Welcomed(welcome.getGatewayVersion(), welcome.getSession()));
  }

  @Override
  protected Enum<?> kindOf(IngestResponse answer) {
    return answer.getMessageCase();
  }

  @Override
  protected Ending serve(IngestResponse welcome, Call<IngestRequest, IngestResponse> call)
      throws InterruptedException {
    return new SourceSession(
            driver, settings, welcome.getWelcome(), call, signal, stopping, reports)
        .run();
  }

  @Override
  public void close() {
    driver.close();
  }
}
