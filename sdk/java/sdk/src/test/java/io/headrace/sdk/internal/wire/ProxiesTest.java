package io.headrace.sdk.internal.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.ProxySelector;
import java.net.SocketAddress;
import java.net.URI;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ProxiesTest {
  private static final ProxySelector ALWAYS =
      new ProxySelector() {
        @Override
        public List<Proxy> select(URI uri) {
          var address = InetSocketAddress.createUnresolved("proxy.example", 3128);
          return List.of(new Proxy(Proxy.Type.HTTP, address));
        }

        @Override
        public void connectFailed(URI uri, SocketAddress address, IOException error) {}
      };

  @ParameterizedTest
  @CsvSource({
    "localhost:7433,true",
    "127.0.0.1:7433,true",
    "[::1]:7433,true",
    "dns:///localhost:7433,true",
    "127.example.org:7433,false",
    "gateway.example:7433,false"
  })
  void thisMachineIsReachedWithoutAProxy(String gateway, boolean here) {
    assertEquals(here, Addresses.leadsHere(gateway));
    assertEquals(here, Proxies.through(gateway, ALWAYS).isEmpty());
  }

  @Test
  void errorsNameTheProxy() {
    assertEquals(
        " through the proxy proxy.example:3128 (https.proxyHost)",
        Proxies.through("gateway.example:7433", ALWAYS));
    assertEquals("", Proxies.through("gateway.example:7433", null));
  }
}
