package headrace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/headrace/headrace/sdk/go/internal/backoff"
)

const (
	// stood is how long a session lasts that shows that the gateway is well.
	stood = 2 * time.Second
	// logInterval is how often the same trouble is logged.
	logInterval = 10 * time.Second
)

// Connector is a *[Source] or a *[Sink].
type Connector interface {
	kind() string // source or sink
	connector() string
	check() error
	closer() func() error
}

// session connects for one session. It returns errEnded, errStop or errDrained, or what ended the session otherwise.
type session interface {
	connect(ctx context.Context) error
}

// Run serves a connector to a gateway, session after session. It returns nil once a source has ended and everything is
// acknowledged.
//
// When ctx is done, the connector stops: a source sends what it has read and waits for acknowledgements, a sink answers what
// has arrived, both for up to Options.DrainTimeout. Run then returns the cause of ctx. A gateway that is away is waited for
// without limit. Other errors are final: a *[ConfigError], a *[SourceError], a *[MessageError], or a *[SessionError] of a gateway
// that refuses the connector. At the end, also after an error, Run calls the connector's Close, unless it was refused with a
// *[ConfigError] before it began.
func Run(ctx context.Context, c Connector, o *Options) error {
	if err := c.check(); err != nil {
		return err
	}
	options, err := o.withDefaults(c.connector())
	if err != nil {
		return err
	}
	log := options.Logger.With("instance", options.Instance)
	if options.Token != "" && options.TLS == nil && !leadsHere(options.Gateway) {
		log.Warn("the token is sent without encryption: set Options.TLS", "gateway", options.Gateway)
	}
	options.calls = newCalls(c.kind()+" "+c.connector(), options, log)
	defer options.calls.watch()()
	end := &closing{close: c.closer(), timeout: options.CloseTimeout, log: log}
	defer end.run()
	var s session
	switch c := c.(type) {
	case *Source:
		s = newSourceConnector(c, options, log, end)
	case *Sink:
		s = newSinkConnector(c, options, log, end)
	}
	return keepConnected(ctx, s, c.connector(), options, log)
}

// keepConnected connects again and again, until a session ends permanently.
func keepConnected(ctx context.Context, s session, name string, o *Options, log *slog.Logger) error {
	retry := backoff.Backoff{First: o.FirstBackoff, Longest: o.MaxBackoff}
	var logged string
	var loggedAt time.Time
	for ctx.Err() == nil {
		began := time.Now()
		o.refreshToken()
		err := s.connect(ctx)
		if errors.Is(err, errEnded) {
			return nil
		}
		if time.Since(began) >= stood {
			retry.Reset()
			loggedAt = time.Time{}
		}
		var failed *SinkError
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errDrained):
		case isUnauthenticated(err) && o.refreshToken():
			log.Info("the gateway no longer takes the token, and its file contains another one: connecting with that")
		case errors.Is(err, ErrUnavailable), errors.As(err, &failed):
			o.Health.Survived("", err)
			if err.Error() != logged || time.Since(loggedAt) >= logInterval {
				log.Warn("session lost; trying again", "error", err)
				logged, loggedAt = err.Error(), time.Now()
			}
		default:
			return err
		}
		wait(ctx, retry.Next())
		o.Metrics.Add(CounterReconnects, name, 1)
	}
	return context.Cause(ctx)
}

// isUnauthenticated says whether the gateway does not know the token, or no longer.
func isUnauthenticated(err error) bool {
	var ended *SessionError
	return errors.As(err, &ended) && ended.Code == codes.Unauthenticated
}

// wait waits for a while, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// join waits until the goroutines of a session have returned. Whenever that takes too long, it logs the text and calls giveUp; if ctx
// is done, it leaves them then, and end waits for them.
func join(ctx context.Context, workers *sync.WaitGroup, timeout time.Duration, end *closing, stuck string, giveUp func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		workers.Wait()
	}()
	ticker := time.NewTicker(timeout)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			end.log.Warn(stuck, "for", timeout)
			giveUp()
			if ctx.Err() != nil {
				end.abandoned = append(end.abandoned, workers)
				return
			}
		}
	}
}

// sourceConnector is what a source's sessions share.
type sourceConnector struct {
	source        *Source
	options       *Options
	log           *slog.Logger
	end           *closing
	starts        *starts
	name, version string
}

func newSourceConnector(source *Source, o *Options, log *slog.Logger, end *closing) *sourceConnector {
	c := &sourceConnector{source: source, options: o, log: log, end: end, starts: newStarts(source, o.calls)}
	c.name, c.version = source.Connector, source.Version
	if c.name == "" {
		c.name = source.Name
	}
	if c.version == "" {
		c.version = "0"
	}
	return c
}

// partitions asks the source for its partitions.
func (c *sourceConnector) partitions(ctx context.Context) ([]string, error) {
	if c.source.Partitions == nil {
		return []string{"0"}, nil
	}
	var partitions []string
	err := c.options.calls.during("Partitions", "", func() (err error) {
		partitions, err = c.source.Partitions(ctx)
		return err
	})
	if err != nil {
		return nil, &SourceError{c.source.Name, "Partitions", err}
	}
	c.options.Health.connected()
	return partitions, nil
}

// Main runs a connector as a process, and ends the process: with 0 once a source has ended or the connector was stopped, with 1
// if it failed, with 2 if it is not valid. SIGTERM and SIGINT stop it properly, a second one at once. SIGHUP does not end it: TLS
// files are read again with each connection.
func Main(c Connector, o *Options) {
	configureProgram()
	log, _ := o.logger() // Run returns the error.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() { // It ends with the process.
		for range hangups {
			log.Info("SIGHUP: the connector runs on")
		}
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // A second signal ends the process.
	err := Run(ctx, c, o)
	var invalid *ConfigError
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		os.Exit(0)
	}
	log.Error("the connector has ended", "error", err)
	if lines, ok := log.Handler().(*lines); !ok || lines.format != formatJSON {
		// headrace shows this line as the reason if the program fails in a deployment; in JSON, it reads the one before.
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	if errors.As(err, &invalid) {
		os.Exit(2)
	}
	os.Exit(1)
}
