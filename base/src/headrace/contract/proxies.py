"""Proxies that the environment names. A client that stays on this machine uses none of them."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from headrace.contract.addresses import host_of, leads_here

_OF_GRPC = ("grpc_proxy", "https_proxy", "http_proxy")
_NOT_OF_GRPC = ("no_grpc_proxy", "no_proxy")
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy.

    Attributes:
        url: Where it is; it may contain a password.
        variable: The variable of the environment, or the parameter, that names it.
    """

    url: str
    variable: str

    def __str__(self) -> str:
        """Returns its address without user and password, and what names it."""
        parts = urlsplit(self.url)
        return f"the proxy {parts.scheme}://{parts.netloc.rpartition('@')[2]} ({self.variable})"


def http_proxy(url: str, environ: Mapping[str, str] = os.environ) -> Proxy | None:
    """Returns the proxy that the environment names for a URL, as curl does; None if there is none, or NO_PROXY excepts the host.

    Args:
        url: A URL with the scheme http or https.
        environ: The environment.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    if leads_here(host):
        return None
    found = _first(environ, (f"{parts.scheme}_proxy", f"{parts.scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"))
    excepted = _first(environ, ("no_proxy", "NO_PROXY"))
    return None if found is None or (excepted is not None and is_excepted(host, port, excepted.url)) else _complete(found)


def grpc_proxy(target: str, environ: Mapping[str, str] = os.environ) -> Proxy | None:
    """Returns the proxy through which gRPC connects to a target; None if it connects directly."""
    if leads_here(target):
        return None
    found = _first(environ, _OF_GRPC)
    if found is None:
        return None
    excepted = _first(environ, _NOT_OF_GRPC)
    if excepted is not None and is_excepted(host_of(target), 0, excepted.url):
        return None
    complete = _complete(found)
    return complete if complete.url.startswith("http://") else None


def channel_options(target: str) -> list[tuple[str, int]]:
    """Returns the options of gRPC with which a channel to this machine uses no proxy."""
    return [("grpc.enable_http_proxy", 0)] if leads_here(target) else []


def through(target: str) -> str:
    """Returns words for an error of a channel: through which proxy it connects; empty without one."""
    proxy = grpc_proxy(target)
    return f" through {proxy}" if proxy is not None else ""


def is_excepted(host: str, port: int, no_proxy: str) -> bool:
    """Returns whether NO_PROXY excepts a host: by its name, a domain of it, its address, a network, or with `*`."""
    entries = no_proxy.replace(",", " ").split()
    return any(_matches(host.lower().removesuffix("."), port, entry.lower()) for entry in entries)


def _matches(host: str, port: int, entry: str) -> bool:
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except (ValueError, TypeError):
        pass
    name, colon, only = entry.rpartition(":")
    if colon and only.isdecimal() and not name.endswith(":"):
        return int(only) == port and _matches(host, port, name.strip("[]"))
    domain = entry.removeprefix("*").removeprefix(".").removesuffix(".")
    return bool(domain) and (host == domain or host.endswith(f".{domain}"))


def _first(environ: Mapping[str, str], variables: tuple[str, ...]) -> Proxy | None:
    """Returns the value of the first variable that is set; None if it is empty."""
    name = next((name for name in variables if name in environ), None)
    return None if name is None or not environ[name].strip() else Proxy(environ[name].strip(), name)


def _complete(proxy: Proxy) -> Proxy:
    """Returns a proxy whose URL has a scheme."""
    return proxy if "://" in proxy.url else Proxy(f"http://{proxy.url}", proxy.variable)
