//! The proxy through which the gateway is reached, by the environment: the rules of gRPC.

use std::fmt;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use crate::address::leads_here;

const VARIABLES: [&str; 3] = ["grpc_proxy", "https_proxy", "http_proxy"];
const EXCEPTIONS: [&str; 2] = ["no_grpc_proxy", "no_proxy"];

/// A proxy that the environment names.
pub(crate) struct Proxy {
    intercept: Intercept,
    variable: &'static str,
}

impl Proxy {
    /// Returns the proxy through which a gateway is reached; `None` if it is reached directly.
    pub(crate) fn of(gateway: &str, environment: impl Fn(&str) -> Option<String>) -> Option<Self> {
        if leads_here(gateway) {
            return None;
        }
        let (variable, url) = VARIABLES.into_iter().find_map(|name| Some((name, environment(name)?)))?;
        let url = match url.trim() {
            "" => return None,
            url if url.contains("://") => url.to_owned(),
            address => format!("http://{address}"),
        };
        if !url.starts_with("http://") {
            return None;
        }
        let exceptions = EXCEPTIONS.into_iter().find_map(&environment).unwrap_or_default();
        let matcher = Matcher::builder().all(url).no(without_wildcards(&exceptions)).build();
        let intercept = matcher.intercept(&format!("https://{gateway}").parse().ok()?)?;
        Some(Self { intercept, variable })
    }

    /// Returns a connector that has the proxy connect to the gateway (HTTP CONNECT).
    pub(crate) fn connector(&self) -> Tunnel<HttpConnector> {
        let tunnel = Tunnel::new(self.intercept.uri().clone(), HttpConnector::new());
        match self.intercept.basic_auth() {
            Some(login) => tunnel.with_auth(login.clone()),
            None => tunnel,
        }
    }
}

impl fmt::Display for Proxy {
    /// Writes its address without user and password, and the variable that names it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = self.intercept.uri();
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
        write!(formatter, "the proxy http://{address} ({})", self.variable)
    }
}

/// Returns exceptions separated by commas, with `*.example` as `.example`, and addresses without brackets.
fn without_wildcards(exceptions: &str) -> String {
    let entries = exceptions.split([',', ' ']).map(|entry| match entry.strip_prefix("*.") {
        Some(domain) => format!(".{domain}"),
        None => entry.trim_matches(['[', ']']).to_owned(),
    });
    entries.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    const PROXY: &str = "http://me:secret@proxy.example:3128";

    fn found(gateway: &str, environment: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| environment.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        Proxy::of(gateway, value).map(|proxy| proxy.to_string())
    }

    #[test]
    fn this_machine_is_reached_without_a_proxy() {
        for gateway in
            ["localhost:7433", "LOCALHOST:7433", "127.0.0.1:7433", "127.1:7433", "[::1]:7433", "a.localhost:1", "unix:/socket"]
        {
            assert_eq!(
                found(gateway, &[("https_proxy", PROXY), ("http_proxy", PROXY), ("grpc_proxy", PROXY)]),
                None,
                "{gateway}"
            );
        }
    }

    #[test]
    fn others_are_reached_through_it() {
        let named = |variable: &str| Some(format!("the proxy http://proxy.example:3128 ({variable})"));
        for variable in VARIABLES {
            assert_eq!(found("gateway.example:7433", &[(variable, PROXY)]), named(variable));
            assert_eq!(found("gateway.example:7433", &[(variable, "proxy.example:3128")]), named(variable));
        }
        assert_eq!(found("gateway.example:7433", &[("http_proxy", "other:1"), ("https_proxy", PROXY)]), named("https_proxy"));
        for none in ["", " ", "https://proxy.example:3128", "socks5://proxy.example:1080"] {
            assert_eq!(found("gateway.example:7433", &[("https_proxy", none), ("http_proxy", PROXY)]), None, "{none}");
        }
        assert_eq!(found("gateway.example:7433", &[]), None);
    }

    #[tokio::test]
    async fn it_connects_to_the_gateway() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://me:secret@{}", listener.local_addr().unwrap());
        let heard = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read_to(&mut stream, b"\r\n\r\n");
            stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
            (request, read_to(&mut stream, b"SM\r\n\r\n"))
        });
        let proxy = Proxy::of("gateway.example:7433", |name| (name == "grpc_proxy").then(|| url.clone())).unwrap();
        let endpoint = tonic::transport::Endpoint::from_static("http://gateway.example:7433");
        // The connection ends after its first bytes.
        let _ = endpoint.connect_with_connector(proxy.connector()).await;
        let (request, inside) = heard.join().unwrap();
        assert!(request.starts_with("CONNECT gateway.example:7433 HTTP/1.1\r\n"), "{request}");
        assert!(request.to_lowercase().contains("proxy-authorization: basic bwu6c2vjcmv0\r\n"), "{request}");
        assert!(inside.starts_with("PRI * HTTP/2.0"), "{inside}");
    }

    fn read_to(stream: &mut impl Read, end: &[u8]) -> String {
        let mut read = Vec::new();
        let mut byte = [0];
        while !read.ends_with(end) {
            stream.read_exact(&mut byte).unwrap();
            read.push(byte[0]);
        }
        String::from_utf8(read).unwrap()
    }

    #[test]
    fn exceptions_are_names_domains_addresses_and_networks() {
        for (gateway, exceptions, direct) in [
            ("a.example:7433", "*", true),
            ("a.example:7433", "b,a.example", true),
            ("a.example:7433", "b a.example", true),
            ("a.example:7433", "example", true),
            ("a.example:7433", ".example", true),
            ("a.example:7433", "*.example", true),
            ("a.example:7433", "le", false),
            ("a.example:7433", " , ,", false),
            ("A.Example:7433", "a.example", true),
            ("10.1.2.3:7433", "10.0.0.0/8", true),
            ("10.1.2.3:7433", "10.1.2.3", true),
            ("11.1.2.3:7433", "10.0.0.0/8", false),
            ("[2001:db8::1]:7433", "2001:db8::/32", true),
            ("[2001:db8::1]:7433", "[2001:db8::1]", true),
        ] {
            let proxy = found(gateway, &[("https_proxy", PROXY), ("no_proxy", exceptions)]);
            assert_eq!(proxy.is_none(), direct, "{gateway} {exceptions}");
        }
        let environment = [("https_proxy", PROXY), ("no_proxy", "a.example"), ("no_grpc_proxy", "b.example")];
        assert!(found("a.example:7433", &environment).is_some());
    }
}
