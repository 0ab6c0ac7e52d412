// Command go-source streams numbered messages into a Headrace gateway and ends once Spark's checkpoint holds all of them. It
// shows a source on the Go SDK, with flags and exit codes of its own; README.md tells the story.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/headrace/headrace/sdk/go/headrace"
)

// stopSignal ends the program early.
type stopSignal struct {
	syscall.Signal
}

func (s stopSignal) Error() string {
	return "stopped by " + s.String() + " before everything was acknowledged"
}

func main() {
	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	signal.Ignore(syscall.SIGHUP) // It ends no connector.
	go func() {
		number := (<-signals).(syscall.Signal)
		signal.Stop(signals) // A second signal ends the process at once.
		stop(stopSignal{number})
	}()

	source, options := parseFlags()
	err := headrace.Run(ctx, source, options)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "go-source:", err)
	var stopped stopSignal
	if errors.As(err, &stopped) {
		os.Exit(128 + int(stopped.Signal))
	}
	os.Exit(1)
}

// parseFlags reads the command line, and ends the program with exit code 2 where it is wrong.
func parseFlags() (*headrace.Source, *headrace.Options) {
	host, _ := os.Hostname()
	o := &headrace.Options{}
	n := &numbers{}
	var name, ca string
	flag.StringVar(&o.Gateway, "gateway", cmp.Or(os.Getenv("HEADRACE_GATEWAY"), "127.0.0.1:7433"), "`address` of the gateway")
	flag.StringVar(&o.Token, "token", "", "bearer `token` (default $HEADRACE_TOKEN)")
	flag.StringVar(&o.TokenFile, "token-file", "", "`file` that contains the token, read again before each session (default $HEADRACE_TOKEN_FILE)")
	flag.StringVar(&ca, "tls-ca", "", "`file` with the certificates to trust, in PEM; turns TLS on")
	flag.StringVar(&o.Instance, "instance", cmp.Or(os.Getenv("HEADRACE_INSTANCE"), "go-source-"+host), "`name` of this deployment, the same after a restart")
	flag.StringVar(&name, "source", "numbers", "`name` of the source; its streams are NAME/0, NAME/1, ...")
	flag.Uint64Var(&n.count, "count", 1000, "how many messages to send, over all partitions")
	flag.Uint64Var(&n.partitions, "partitions", 1, "over how many partitions to spread them")
	flag.Float64Var(&n.rate, "rate", 0, "messages a second, over all partitions; 0 is as fast as the gateway takes them")
	flag.Parse()
	if flag.NArg() > 0 || n.partitions == 0 || n.rate < 0 {
		fmt.Fprintln(flag.CommandLine.Output(), "go-source: want flags only, --partitions of at least 1 and --rate of at least 0")
		flag.Usage()
		os.Exit(2)
	}
	if ca != "" {
		var err error
		if o.TLS, err = headrace.LoadTLS(ca, "", ""); err != nil {
			fmt.Fprintln(os.Stderr, "go-source: --tls-ca:", err)
			os.Exit(2)
		}
	}
	return &headrace.Source{
		Name: name, Connector: "go-source", Version: headrace.Version, Partitions: n.list, Read: n.read,
		TakesTurns: true, // They end.
	}, o
}
