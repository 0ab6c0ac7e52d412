"""Which proxy a client uses, by the environment."""

import pytest

from headrace.contract.proxies import channel_options, grpc_proxy, http_proxy, is_excepted, through

PROXY = "http://me:secret@proxy.example:3128"
ALL = dict.fromkeys(("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"), PROXY)


@pytest.mark.parametrize("target", ["localhost:1", "127.0.0.1:1", "[::1]:1", "dns:///localhost:1", "unix:/s", "127.1:1"])
def test_this_machine_is_reached_without_a_proxy(target):
    assert grpc_proxy(target, ALL) is None
    assert channel_options(target) == [("grpc.enable_http_proxy", 0)]
    if "/" not in target:
        assert http_proxy(f"http://{target}/x", ALL) is None


def test_others_are_reached_through_it_and_errors_name_it(monkeypatch):
    for name in (*ALL, "no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert channel_options("gateway.example:7433") == []
    assert through("gateway.example:7433") == ""
    monkeypatch.setenv("https_proxy", PROXY)
    assert through("gateway.example:7433") == " through the proxy http://proxy.example:3128 (https_proxy)"
    assert through("127.0.0.1:7433") == ""
    monkeypatch.setenv("no_proxy", "other,.example")
    assert through("gateway.example:7433") == ""


@pytest.mark.parametrize(
    ("url", "environ", "variable"),
    [
        ("http://a.example/", {"http_proxy": "p:1"}, "http_proxy"),
        ("http://a.example/", {"HTTP_PROXY": "p:1"}, "HTTP_PROXY"),
        ("http://a.example/", {"http_proxy": "", "HTTP_PROXY": "p:1"}, None),
        ("http://a.example/", {"https_proxy": "p:1"}, None),
        ("https://a.example/", {"HTTPS_PROXY": "p:1"}, "HTTPS_PROXY"),
        ("https://a.example/", {"ALL_PROXY": "p:1"}, "ALL_PROXY"),
        ("https://a.example/", {"ALL_PROXY": "p:1", "NO_PROXY": "a.example"}, None),
        ("https://a.example/", {"ALL_PROXY": "p:1", "NO_PROXY": "a.example:444"}, "ALL_PROXY"),
        ("https://a.example:444/", {"ALL_PROXY": "p:1", "NO_PROXY": "a.example:444"}, None),
    ],
)
def test_variables_are_read_as_curl_reads_them(url, environ, variable):
    found = http_proxy(url, environ)
    assert (found and found.variable) == variable
    assert found is None or found.url == "http://p:1"


@pytest.mark.parametrize(
    ("host", "no_proxy", "excepted"),
    [
        ("a.example", "*", True),
        ("a.example", "b,a.example", True),
        ("a.example", "example", True),
        ("a.example", ".example", True),
        ("a.example", "*.example", True),
        ("a.example", "le", False),
        ("a.example", "", False),
        ("a.example", " , ,", False),
        ("A.Example.", "a.example", True),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("2001:db8::1", "2001:db8::/32", True),
        ("2001:db8::1", "[2001:db8::1]", True),
        ("10.1.2.3", "2001:db8::/32", False),
        ("x10.1.2.3", "10.1.2.3", False),
    ],
)
def test_exceptions_are_names_domains_addresses_and_networks(host, no_proxy, excepted):
    assert is_excepted(host, 80, no_proxy) is excepted
