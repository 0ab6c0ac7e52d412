package io.headrace.sdk.internal.wire;

import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.ProxySelector;
import java.net.URI;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;

/** Which gateways are on this machine, and the proxy through which the others are reached. */
public final class Proxies {
  private static final Pattern PORT = Pattern.compile(":\\d+$");
  private static final Pattern LOOPBACK =
      Pattern.compile("localhost|\\[?::1]?|127(\\.\\d{1,3}){3}");

  private Proxies() {}

  /** Whether an address is on this machine. Names are not resolved. */
  public static boolean isLoopback(String gateway) {
    return LOOPBACK.matcher(host(gateway)).matches();
  }

  /** Names the proxy through which gRPC reaches a gateway, for errors; empty for none. */
  static String through(String gateway, ProxySelector selector) {
    if (selector == null || isLoopback(gateway)) {
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

  private static String host(String gateway) {
    String address = gateway.toLowerCase(Locale.ROOT).replaceFirst("^[a-z0-9]+://[^/]*/", "");
    return PORT.matcher(address).replaceFirst("");
  }
}
