package headrace

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestErrorsNameTheProxyUnlessTheGatewayIsOnThisMachine(t *testing.T) {
	proxy := &url.URL{Scheme: "http", Host: "proxy.example:3128", User: url.UserPassword("me", "secret")}
	choose := func(*http.Request) (*url.URL, error) { return proxy, nil }
	for _, gateway := range []string{"127.0.0.1:7433", "localhost:7433", "[::1]:7433", "dns:///localhost:7433", "unix:/tmp/socket"} {
		if found := through(gateway, choose); found != "" || !leadsHere(gateway) {
			t.Errorf("%s is reached%s", gateway, found)
		}
	}
	found := through("gateway.example:7433", choose)
	if !strings.Contains(found, "through the proxy http://proxy.example:3128 (HTTPS_PROXY)") || strings.Contains(found, "secret") {
		t.Error(found)
	}
	none := func(*http.Request) (*url.URL, error) { return nil, nil }
	if found := through("gateway.example:7433", none); found != "" {
		t.Error(found)
	}
}
