// Command go-source streams numbered messages into a Headrace gateway and ends once Spark's checkpoint holds all of them. It
// shows what a connector in any language does; README.md tells the story.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "example.com/go-source/internal/protocol/v1"
)

const (
	version = "0.1.0"

	firstBackoff   = 100 * time.Millisecond
	longestBackoff = 5 * time.Second
)

// config is what the flags say.
type config struct {
	gateway    string
	token      string
	tlsCA      string
	instance   string
	source     string
	count      uint64
	partitions uint64
	rate       float64
}

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
	go func() {
		number := (<-signals).(syscall.Signal)
		signal.Stop(signals) // A second signal ends the process at once.
		stop(stopSignal{number})
	}()

	err := run(ctx, parseFlags())
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
func parseFlags() *config {
	host, _ := os.Hostname()
	c := &config{}
	flag.StringVar(&c.gateway, "gateway", fromEnvironment("HEADRACE_GATEWAY", "127.0.0.1:7433"), "`address` of the gateway")
	flag.StringVar(&c.token, "token", "", "bearer `token` (default $HEADRACE_TOKEN)")
	flag.StringVar(&c.tlsCA, "tls-ca", "", "`file` with the certificates to trust, in PEM; turns TLS on")
	flag.StringVar(&c.instance, "instance", "go-source-"+host, "`name` of this deployment, the same after a restart")
	flag.StringVar(&c.source, "source", "numbers", "`name` of the source; its streams are NAME/0, NAME/1, ...")
	flag.Uint64Var(&c.count, "count", 1000, "how many messages to send, over all partitions")
	flag.Uint64Var(&c.partitions, "partitions", 1, "over how many partitions to spread them")
	flag.Float64Var(&c.rate, "rate", 0, "messages a second, over all partitions; 0 is as fast as the gateway takes them")
	flag.Parse()
	if c.token == "" {
		c.token = os.Getenv("HEADRACE_TOKEN")
	}
	if flag.NArg() > 0 || c.partitions == 0 || c.rate < 0 {
		fmt.Fprintln(flag.CommandLine.Output(), "go-source: want flags only, --partitions of at least 1 and --rate of at least 0")
		flag.Usage()
		os.Exit(2)
	}
	return c
}

func fromEnvironment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// run opens one session after the other until one ends with everything acknowledged, or with an error that lasts.
func run(ctx context.Context, c *config) error {
	security := insecure.NewCredentials()
	if c.tlsCA != "" {
		var err error
		if security, err = credentials.NewClientTLSFromFile(c.tlsCA, ""); err != nil {
			return fmt.Errorf("--tls-ca %s: %w", c.tlsCA, err)
		}
	}
	callCtx := ctx
	if c.token != "" {
		callCtx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
	}
	backoff := firstBackoff
	for {
		began := time.Now()
		err := connect(callCtx, c, security)
		if !transient(err) {
			return err
		}
		if time.Since(began) > longestBackoff {
			backoff = firstBackoff
		}
		wait := backoff/2 + rand.N(backoff/2) // Jitter keeps many connectors from coming back at once.
		backoff = min(2*backoff, longestBackoff)
		slog.Warn("session lost", "gateway", c.gateway, "error", err, "retry_in", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// connect opens a connection of its own for one session, so that each attempt is made at once.
func connect(ctx context.Context, c *config, security credentials.TransportCredentials) error {
	connection, err := grpc.NewClient(
		c.gateway,
		grpc.WithTransportCredentials(security),
		// Notice a gateway that is gone without a word.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
	)
	if err != nil {
		return err
	}
	defer connection.Close()
	return runSession(ctx, pb.NewSourceServiceClient(connection), c)
}

// transient says whether another session may do better.
func transient(err error) bool {
	if errors.Is(err, errDrained) || errors.Is(err, io.EOF) {
		return true
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	case codes.Canceled, codes.Internal: // What gRPC makes of a connection that breaks.
		return true
	case codes.ResourceExhausted: // A limit of the gateway, unless somebody on the way found the pings of keepalive too many.
		return strings.Contains(err.Error(), "too_many_pings") || strings.Contains(err.Error(), "ENHANCE_YOUR_CALM")
	}
	return false
}
