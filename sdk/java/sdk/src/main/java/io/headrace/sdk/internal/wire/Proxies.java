package io.headrace.sdk.internal.wire;

import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.ProxySelector;
import java.net.URI;
import java.util.List;

/** The proxy through which gateways on other machines are reached. */
final class Proxies {
  private Proxies() {}

  /** Names the proxy through which gRPC reaches a gateway, for errors; empty for none. */
  static String through(String gateway, ProxySelector selector) {
    if (selector == null || Addresses.leadsHere(gateway)) {
      return "";
    }
    List<Proxy> found;
    try {
      found = selector.select(URI.create("https://" + gateway));
    } catch (IllegalArgumentException error) {
      return "";
    }
    return found.stream()
        .filter(proxy -> proxy.type() == Proxy.Type.HTTP)
        .map(Proxy::address)
        .filter(InetSocketAddress.class::isInstance)
        .map(InetSocketAddress.class::cast)
        .findFirst()
        .map(
            proxy ->
                " through the proxy %s:%d (https.proxyHost)"
                    .formatted(proxy.getHostString(), proxy.getPort()))
        .orElse("");
  }
}
