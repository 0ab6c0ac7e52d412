package headrace

import (
	"net/netip"
	"strconv"
	"strings"
)

var brackets = strings.NewReplacer("%5B", "[", "%5D", "]")

// leadsHere says whether a client that connects to an address stays on this machine. Names other than localhost are not
// resolved.
func leadsHere(gateway string) bool {
	if strings.HasPrefix(gateway, "unix:") || strings.HasPrefix(gateway, "unix-abstract:") {
		return true
	}
	host := strings.ToLower(hostOf(gateway))
	if name := strings.TrimSuffix(host, "."); name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	return isShortLoopback(host)
}

// hostOf returns the host of "host:port", or of a target of gRPC, such as "dns:///host:port".
func hostOf(gateway string) string {
	for _, scheme := range []string{"dns:", "ipv4:", "ipv6:", "passthrough:"} {
		rest, found := strings.CutPrefix(gateway, scheme)
		if !found {
			continue
		}
		gateway = brackets.Replace(rest[strings.LastIndex(rest, "/")+1:])
		break
	}
	if inner, found := strings.CutPrefix(gateway, "["); found {
		host, _, _ := strings.Cut(inner, "]")
		return host
	}
	if strings.Count(gateway, ":") > 1 {
		return gateway
	}
	host, _, _ := strings.Cut(gateway, ":")
	return host
}

// isShortLoopback says whether a host is a loopback address in a form that resolvers know, such as 127.1: its last number
// fills the bytes that are left.
func isShortLoopback(host string) bool {
	numbers := strings.Split(host, ".")
	if len(numbers) < 2 || len(numbers) > 4 || numbers[0] != "127" {
		return false
	}
	for at, number := range numbers {
		bits := 8
		if at == len(numbers)-1 {
			bits = 8 * (5 - len(numbers))
		}
		if _, err := strconv.ParseUint(number, 10, bits); err != nil {
			return false
		}
	}
	return true
}
