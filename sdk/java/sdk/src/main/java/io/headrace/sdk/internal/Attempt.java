package io.headrace.sdk.internal;

/** Connects to a gateway and serves one session. */
public interface Attempt extends AutoCloseable {
  /**
   * Runs one session.
   *
   * @return how it ended
   * @throws io.headrace.sdk.GatewayUnavailableException if it is worth another attempt
   * @throws io.headrace.sdk.HeadraceException if it is not
   * @throws InterruptedException if the connector's thread was interrupted
   */
  Ending run() throws InterruptedException;

  @Override
  void close();
}
