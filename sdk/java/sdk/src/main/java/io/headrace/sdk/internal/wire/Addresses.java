package io.headrace.sdk.internal.wire;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Which gateways are on this machine, by their addresses alone. */
public final class Addresses {
  private static final Pattern TARGET = Pattern.compile("(?:dns|ipv4|ipv6):(?:.*/)?([^/]*)");
  private static final Pattern LOCALHOST = Pattern.compile("(?:.*\\.)?localhost\\.?");
  private static final Pattern SHORT_LOOPBACK = Pattern.compile("127(?:\\.\\d{1,10}){1,3}");
  private static final Pattern IPV6 = Pattern.compile("[0-9a-f:.]*:[0-9a-f:.]*");

  private Addresses() {}

  /**
   * Whether a client that connects to an address stays on this machine. Names other than localhost
   * are not resolved.
   */
  public static boolean leadsHere(String gateway) {
    if (gateway.startsWith("unix:") || gateway.startsWith("unix-abstract:")) {
      return true;
    }
    String host = host(gateway).toLowerCase(Locale.ROOT);
    return LOCALHOST.matcher(host).matches()
        || host.equals("0.0.0.0")
        || isShortLoopback(host)
        || isLocalIpv6(host);
  }

  /** The host of {@code host:port}, or of a target of gRPC, such as {@code dns:///host:port}. */
  private static String host(String gateway) {
    Matcher target = TARGET.matcher(gateway);
    String address =
        target.matches() ? target.group(1).replace("%5B", "[").replace("%5D", "]") : gateway;
    if (address.startsWith("[")) {
      return address.substring(1).split("]", 2)[0];
    }
    int colon = address.indexOf(':');
    return colon < 0 || address.indexOf(':', colon + 1) >= 0
        ? address
        : address.substring(0, colon);
  }

  /**
   * Whether a host is a loopback address, also in a form that resolvers know, such as 127.1: its
   * last number fills the bytes that are left.
   */
  private static boolean isShortLoopback(String host) {
    if (!SHORT_LOOPBACK.matcher(host).matches()) {
      return false;
    }
    String[] numbers = host.split("\\.", -1);
    for (int at = 0; at < numbers.length; at++) {
      int bytes = at == numbers.length - 1 ? 5 - numbers.length : 1;
      if (Long.parseLong(numbers[at]) >= 1L << (8 * bytes)) {
        return false;
      }
    }
    return true;
  }

  private static boolean isLocalIpv6(String host) {
    if (!IPV6.matcher(host).matches()) {
      return false;
    }
    try {
      // Brackets: anything but a literal is an error, and nothing is resolved.
      InetAddress address = InetAddress.getByName("[" + host + "]");
      return address.isLoopbackAddress() || address.isAnyLocalAddress();
    } catch (UnknownHostException error) {
      return false;
    }
  }
}
