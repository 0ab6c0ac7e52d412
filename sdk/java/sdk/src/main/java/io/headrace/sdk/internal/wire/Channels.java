package io.headrace.sdk.internal.wire;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.TlsChannelCredentials;
import io.headrace.sdk.InvalidConnectorException;
import io.headrace.sdk.Settings;
import io.headrace.sdk.Tls;
import java.io.IOException;
import java.util.concurrent.TimeUnit;

/** Channels to a gateway. */
public final class Channels {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private Channels() {}

  /**
   * A channel, which connects with its first call.
   *
   * @throws InvalidConnectorException if a file of certificates cannot be read, or the address is
   *     not one
   */
  public static ManagedChannel open(Settings settings) {
    ManagedChannelBuilder<?> builder;
    try {
      builder =
          Grpc.newChannelBuilder(
              settings.gateway(),
              settings
                  .tls()
                  .map(Channels::credentials)
                  .orElseGet(InsecureChannelCredentials::create));
    } catch (IllegalArgumentException error) {
      throw new InvalidConnectorException(
          "gateway " + settings.gateway() + ": want host:port: " + error.getMessage(), error);
    }
    settings.tls().flatMap(Tls::serverName).ifPresent(builder::overrideAuthority);
    if (Addresses.leadsHere(settings.gateway())) {
      builder.proxyDetector(address -> null);
    }
    return builder
        // The listeners of calls do not block.
        .directExecutor()
        // Frames are limited by the gateway's Welcome, not here.
        .maxInboundMessageSize(Integer.MAX_VALUE)
        // Detects within 15 s that the gateway has disappeared without closing the connection.
        .keepAliveTime(10, TimeUnit.SECONDS)
        .keepAliveTimeout(5, TimeUnit.SECONDS)
        .keepAliveWithoutCalls(true)
        // Retries inside gRPC would keep copies of what was sent.
        .disableRetry()
        .build();
  }

  /** The metadata to send with every call. */
  public static Metadata headers(Settings settings) {
    Metadata headers = new Metadata();
    settings.token().ifPresent(token -> headers.put(AUTHORIZATION, "Bearer " + token));
    return headers;
  }

  private static ChannelCredentials credentials(Tls tls) {
    try {
      TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
      if (tls.ca().isPresent()) {
        builder.trustManager(tls.ca().get().toFile());
      }
      if (tls.certificate().isPresent() && tls.key().isPresent()) {
        builder.keyManager(tls.certificate().get().toFile(), tls.key().get().toFile());
      }
      return builder.build();
    } catch (IOException error) {
      throw new InvalidConnectorException(
          "cannot read a certificate file: " + error.getMessage(), error);
    }
  }
}
