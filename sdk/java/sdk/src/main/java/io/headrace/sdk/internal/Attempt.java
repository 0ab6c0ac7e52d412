package io.headrace.sdk.internal;

import java.util.Optional;

/** Connects to a gateway and serves one session. */
public interface Attempt extends AutoCloseable {
  /**
   * Runs one session.
   *
   * @param token the token by which the connector authenticates
   * @return how it ended
   * @throws io.headrace.sdk.GatewayUnavailableException if it is worth another attempt
   * @throws io.headrace.sdk.HeadraceException if it is not
   * @throws InterruptedException if the connector's thread was interrupted
   */
  Ending run(Optional<String> token) throws InterruptedException;

  @Override
  void close();
}
