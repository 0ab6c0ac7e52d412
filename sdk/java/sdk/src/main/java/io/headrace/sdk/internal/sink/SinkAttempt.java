package io.headrace.sdk.internal.sink;

import io.headrace.protocol.v1.SinkServiceAttachRequest;
import io.headrace.protocol.v1.SinkServiceAttachResponse;
import io.headrace.protocol.v1.SinkWelcome;
import io.headrace.sdk.Settings;
import io.headrace.sdk.internal.Attempt;
import io.headrace.sdk.internal.Calls;
import io.headrace.sdk.internal.Ending;
import io.headrace.sdk.internal.Reports;
import io.headrace.sdk.internal.wire.Call;
import io.headrace.sdk.internal.wire.Methods;
import io.headrace.sdk.internal.wire.Signal;
import io.headrace.sdk.sink.Sink;
import java.util.Optional;
import java.util.function.BooleanSupplier;

/** Connects a sink to a gateway. */
public final class SinkAttempt
    extends Attempt<SinkServiceAttachRequest, SinkServiceAttachResponse> {
  private final SinkDriver driver;

  /**
   * Checks the sink.
   *
   * @throws io.headrace.sdk.InvalidConnectorException if its name is not allowed
   */
  public SinkAttempt(
      Sink sink, Settings settings, Signal signal, BooleanSupplier stopping, Reports reports) {
    super(Methods.ATTACH, settings, signal, stopping, reports);
    this.driver =
        new SinkDriver(sink, settings, new Calls("sink " + sink.name(), reports, settings));
  }

  @Override
  protected SinkServiceAttachRequest hello() {
    return SinkServiceAttachRequest.newBuilder()
        .setHello(driver.hello(settings.instance().orElse(driver.name())))
        .build();
  }

  @Override
  protected Optional<Welcomed> welcomed(SinkServiceAttachResponse answer) {
    if (!answer.hasWelcome()) {
      return Optional.empty();
    }
    SinkWelcome welcome = answer.getWelcome();
    return Optional.of(new Welcomed(welcome.getGatewayVersion(), welcome.getSession()));
  }

  @Override
  protected Enum<?> kindOf(SinkServiceAttachResponse answer) {
    return answer.getMessageCase();
  }

  @Override
  protected Ending serve(
      SinkServiceAttachResponse welcome,
      Call<SinkServiceAttachRequest, SinkServiceAttachResponse> call)
      throws InterruptedException {
    return new SinkSession(driver, settings, welcome.getWelcome(), call, signal, stopping, reports)
        .run();
  }

  @Override
  public void close() {
    driver.close();
  }
}
