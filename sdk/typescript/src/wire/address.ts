import { BlockList, isIP } from "node:net";

const HERE = new BlockList();
HERE.addSubnet("127.0.0.0", 8, "ipv4");
HERE.addAddress("0.0.0.0", "ipv4");
HERE.addAddress("::1", "ipv6");
HERE.addAddress("::", "ipv6");

/** Whether a client that connects to an address stays on this machine. Names other than localhost are not resolved. */
export function leadsHere(gateway: string): boolean {
  if (/^unix(-abstract)?:/.test(gateway)) return true;
  const host = hostOf(gateway).toLowerCase();
  if (/^(.*\.)?localhost\.?$/.test(host)) return true;
  const version = isIP(host);
  return version === 0 ? isShortLoopback(host) : HERE.check(host, version === 4 ? "ipv4" : "ipv6");
}

/** The host of `host:port`, or of a target of gRPC, such as `dns:///host:port`. */
function hostOf(gateway: string): string {
  const rest = /^(?:dns|ipv4|ipv6):(?:.*\/)?([^/]*)$/.exec(gateway)?.[1];
  const address = rest?.replace("%5B", "[").replace("%5D", "]") ?? gateway;
  if (address.startsWith("[")) return address.slice(1).split("]", 1)[0];
  return address.split(":").length > 2 ? address : address.split(":", 1)[0];
}

/** Whether a host is a loopback address in a short form, such as 127.1: its last number fills the bytes that are left. */
function isShortLoopback(host: string): boolean {
  if (!/^127(\.\d+){1,3}$/.test(host)) return false;
  const numbers = host.split(".").map(Number);
  return numbers.every((number, at) => number < 256 ** (at === numbers.length - 1 ? 5 - numbers.length : 1));
}
