//! Which gateways are on this machine, by their addresses alone.

use std::net::IpAddr;

/// Returns whether a client that connects to an address stays on this machine. Names other than `localhost` are not resolved.
pub(crate) fn leads_here(gateway: &str) -> bool {
    if gateway.starts_with("unix:") || gateway.starts_with("unix-abstract:") {
        return true;
    }
    let host = host_of(gateway).to_ascii_lowercase();
    let name = host.strip_suffix('.').unwrap_or(&host);
    if name == "localhost" || name.ends_with(".localhost") {
        return true;
    }
    match host.split('%').next().unwrap_or(&host).parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => is_short_loopback(&host),
    }
}

/// Returns the host of `host:port`, or of a target of gRPC, such as `dns:///host:port`.
fn host_of(gateway: &str) -> String {
    let scheme = ["dns:", "ipv4:", "ipv6:"].into_iter().find_map(|scheme| gateway.strip_prefix(scheme));
    let address = match scheme {
        Some(rest) => rest.rsplit('/').next().unwrap_or(rest).replace("%5B", "[").replace("%5D", "]"),
        None => gateway.to_owned(),
    };
    if let Some(inner) = address.strip_prefix('[') {
        return inner.split(']').next().unwrap_or(inner).to_owned();
    }
    match address.split_once(':') {
        Some((host, port)) if !port.contains(':') => host.to_owned(),
        _ => address,
    }
}

/// Returns whether a host is a loopback address in a form that resolvers know, such as 127.1: its last number fills the bytes
/// that are left.
fn is_short_loopback(host: &str) -> bool {
    let numbers: Vec<&str> = host.split('.').collect();
    let Some((last, first)) = numbers.split_last() else { return false };
    let digits = numbers.iter().all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    (1..=3).contains(&first.len())
        && first[0] == "127"
        && digits
        && first.iter().all(|number| number.parse::<u8>().is_ok())
        && last.parse::<u32>().is_ok_and(|number| u64::from(number) < 1 << (8 * (4 - first.len())))
}
