"""The proxy of the HTTP sink."""

from urllib.parse import urlsplit

from headrace.connectors.http._parameters import NO_PROXY, HttpSinkParameters
from headrace.contract.proxies import Proxy, http_proxy
from headrace.sdk import InvalidSink

_SCHEMES = ("http", "https")


def proxy_of(parameters: HttpSinkParameters) -> Proxy | None:
    """Returns the proxy that the parameters name, or else the environment; None for none.

    Raises:
        InvalidSink: It is of a kind that the sink cannot use, or not a URL.
    """
    named = parameters.proxy.get_secret_value() if parameters.proxy is not None else None
    if named == NO_PROXY:
        return None
    proxy = http_proxy(parameters.url) if named is None else Proxy(named, "proxy")
    if proxy is None:
        return None
    try:
        parts = urlsplit(proxy.url)
        usable = parts.scheme in _SCHEMES and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InvalidSink(
            f"{proxy.variable} names a proxy that http-sink cannot use: want http://HOST:PORT or https://HOST:PORT; set proxy "
            f"to one, or to {NO_PROXY}"
        )
    return proxy
