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
import java.security.GeneralSecurityException;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** Channels to a gateway. */
public final class Channels {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private Channels() {}

  /**
   * A channel, which connects with its first call.
   *
   * @throws InvalidConnectorException if the address is not one
   * @throws UnusableCertificates if files of certificates cannot be used
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
      if (error.getCause() instanceof GeneralSecurityException
          || error.getCause() instanceof IOException) {
        throw unusable(error.getCause());
      }
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
  public static Metadata headers(Optional<String> token) {
    Metadata headers = new Metadata();
    token.ifPresent(text -> headers.put(AUTHORIZATION, "Bearer " + text));
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
      throw unusable(error);
    }
  }

  private static UnusableCertificates unusable(Throwable error) {
    return new UnusableCertificates(
        new InvalidConnectorException(
            "cannot use a certificate file: " + error.getMessage(), error));
  }
}
