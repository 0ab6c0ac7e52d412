package headrace

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Options are settings of [Run] and [Main]. The zero value of each field is its default, which for some of them is a variable
// of the environment: headrace connector run sets them.
type Options struct {
	// Gateway is the gateway's address, "host:port". Default: HEADRACE_GATEWAY, else "127.0.0.1:7433".
	Gateway string
	// Token authenticates the connector. Default: HEADRACE_TOKEN, else none.
	Token string
	// TokenFile is a file that contains the token, and nothing else but white space around it, such as /dev/fd/3. It is read
	// again before each session, so that a token can be replaced. Excludes Token. Default: HEADRACE_TOKEN_FILE, which precedes
	// HEADRACE_TOKEN.
	TokenFile string
	// TLS secures the connection; see [LoadTLS]. Default: the files that HEADRACE_TLS_CA, HEADRACE_TLS_CERT and
	// HEADRACE_TLS_KEY name; without them, certificates of the system are trusted if HEADRACE_TLS is 1, else there is no
	// encryption.
	TLS *tls.Config
	// Instance says which deployment of the connector this is, the same after each restart: a newer session of an instance
	// takes over from the older one. Default: HEADRACE_INSTANCE, else the connector's name.
	Instance string
	// Health tells operators how the connector is. Default: one that only the SDK uses.
	Health *Health
	// Logger gets structured logs. Default: where HEADRACE_LOG_FORMAT is json or console, lines on standard error in the schema of
	// all parts of Headrace, with information only where HEADRACE_VERBOSE is 1; else slog.Default, without information where
	// HEADRACE_VERBOSE is 0.
	Logger *slog.Logger
	// Metrics counts what happens. Default: nothing is counted.
	Metrics Metrics

	// Linger is how long to gather messages for a frame, until the gateway sets another pace. Default: 5 ms.
	Linger time.Duration
	// FrameBytes is the size at which a frame is sent without waiting for more. Default: 256 KiB.
	FrameBytes int
	// FrameMessages is the same in messages. Default: 8192.
	FrameMessages int
	// DrainTimeout is how long a connector that is stopped waits for acknowledgements, or for a sink to finish. Default: 10 s.
	DrainTimeout time.Duration
	// StuckTimeout is after how long a function that does not return is logged, with the line where it stands, and again after
	// twice the time, and so on. Read may wait for its next message without limit, until its context is done. A connector that is
	// being stopped abandons a function then. Default: 10 s.
	StuckTimeout time.Duration
	// CloseTimeout is how long to wait, at the end, for functions that still run and then for Close, together. Default: 10 s.
	CloseTimeout time.Duration
	// WelcomeTimeout is how long to wait for a gateway's first answer. Default: 10 s.
	WelcomeTimeout time.Duration
	// PartitionInterval is how often a source is asked for its partitions. Default: 3 s.
	PartitionInterval time.Duration
	// FirstBackoff is the longest wait before the first reconnect; it doubles with each further one. Default: 50 ms.
	FirstBackoff time.Duration
	// MaxBackoff is the longest wait before any reconnect. Default: 2 s.
	MaxBackoff time.Duration
	// QueueBytes is how much may be queued for each part of a two-phase sink before the SDK reads no more from the gateway. If
	// another part needs rows meanwhile, the excess goes to a temporary file. Default: 8 MiB.
	QueueBytes int
	// HoldBytes is how much of unfinished transactions to keep in memory for an idempotent sink; the rest goes to a temporary
	// file. Default: 64 MiB.
	HoldBytes int

	// followsFiles is whether TLS comes from the files that the environment names.
	followsFiles bool
	// calls are the functions of the connector that have not returned.
	calls *calls
	// tokens is the file of Token, nil for none.
	tokens *tokenFile
}

const defaultGateway = "127.0.0.1:7433"

// withDefaults returns the options with every default filled in, for a connector of a name, or what is not allowed.
func (o *Options) withDefaults(name string) (*Options, error) {
	var filled Options
	if o != nil {
		filled = *o
	}
	var err error
	filled.Gateway = cmp.Or(filled.Gateway, os.Getenv("HEADRACE_GATEWAY"), defaultGateway)
	filled.Instance = cmp.Or(filled.Instance, os.Getenv("HEADRACE_INSTANCE"), name)
	if filled.TLS == nil {
		if filled.TLS, err = tlsOfEnvironment(); err != nil {
			return nil, err
		}
		filled.followsFiles = true
	}
	if filled.Health == nil {
		filled.Health = &Health{}
	}
	if filled.Logger, err = o.logger(); err != nil {
		return nil, err
	}
	if err := filled.findToken(); err != nil {
		return nil, err
	}
	if filled.Metrics == nil {
		filled.Metrics = noMetrics{}
	}
	filled.Linger = cmp.Or(filled.Linger, 5*time.Millisecond)
	filled.FrameBytes = cmp.Or(filled.FrameBytes, 256<<10)
	filled.FrameMessages = cmp.Or(filled.FrameMessages, 8192)
	filled.DrainTimeout = cmp.Or(filled.DrainTimeout, 10*time.Second)
	filled.StuckTimeout = cmp.Or(filled.StuckTimeout, 10*time.Second)
	filled.CloseTimeout = cmp.Or(filled.CloseTimeout, 10*time.Second)
	filled.WelcomeTimeout = cmp.Or(filled.WelcomeTimeout, 10*time.Second)
	filled.PartitionInterval = cmp.Or(filled.PartitionInterval, 3*time.Second)
	filled.FirstBackoff = cmp.Or(filled.FirstBackoff, 50*time.Millisecond)
	filled.MaxBackoff = cmp.Or(filled.MaxBackoff, 2*time.Second)
	filled.QueueBytes = cmp.Or(filled.QueueBytes, 8<<20)
	filled.HoldBytes = cmp.Or(filled.HoldBytes, 64<<20)
	return &filled, filled.check()
}

// findToken takes the token from the options, or else from the environment.
func (o *Options) findToken() error {
	field, path := tokenFileOption, o.TokenFile
	switch {
	case o.Token != "" && path != "":
		return &ConfigError{tokenFileOption, "it excludes Options.Token: give the token, or the file that contains it"}
	case o.Token != "":
		return nil
	case path == "":
		field, path = tokenFileVariable, os.Getenv(tokenFileVariable)
	}
	if path == "" {
		o.Token = os.Getenv("HEADRACE_TOKEN")
		return nil
	}
	var err error
	if o.tokens, err = openTokenFile(field, path, o.Logger); err != nil {
		return err
	}
	o.Token = o.tokens.token
	return nil
}

// refreshToken takes the token that its file contains now, and says whether it is another one.
func (o *Options) refreshToken() bool {
	if o.tokens == nil {
		return false
	}
	before := o.Token
	o.Token = o.tokens.refresh(o.Logger)
	return o.Token != before
}

// logger returns the logger, or its default. If the environment asks for a format that does not exist, it returns both a logger
// and the error.
func (o *Options) logger() (*slog.Logger, error) {
	if o != nil && o.Logger != nil {
		return o.Logger, nil
	}
	handler, err := linesOfEnvironment(os.Stderr, sdkLogger)
	if handler != nil {
		return slog.New(handler), nil
	}
	if os.Getenv(verboseVariable) == "0" {
		return slog.New(problems{slog.Default().Handler()}), err
	}
	return slog.Default(), err
}

// problems is a handler that drops what is only information.
type problems struct{ slog.Handler }

func (p problems) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && p.Handler.Enabled(ctx, level)
}

func (p problems) WithAttrs(attrs []slog.Attr) slog.Handler {
	return problems{p.Handler.WithAttrs(attrs)}
}

func (p problems) WithGroup(name string) slog.Handler {
	return problems{p.Handler.WithGroup(name)}
}

// check says what is not allowed.
func (o *Options) check() error {
	if len(o.Instance) > maxNameBytes {
		return &ConfigError{"Options.Instance", fmt.Sprintf("it has %d bytes, %d are allowed", len(o.Instance), maxNameBytes)}
	}
	for _, option := range []struct {
		name  string
		value int64
	}{
		{"Linger", int64(o.Linger)}, {"FrameBytes", int64(o.FrameBytes)}, {"FrameMessages", int64(o.FrameMessages)},
		{"DrainTimeout", int64(o.DrainTimeout)}, {"StuckTimeout", int64(o.StuckTimeout)},
		{"CloseTimeout", int64(o.CloseTimeout)}, {"WelcomeTimeout", int64(o.WelcomeTimeout)}, {"PartitionInterval", int64(o.PartitionInterval)},
		{"FirstBackoff", int64(o.FirstBackoff)}, {"MaxBackoff", int64(o.MaxBackoff)},
		{"QueueBytes", int64(o.QueueBytes)}, {"HoldBytes", int64(o.HoldBytes)},
	} {
		if option.value < 0 {
			return &ConfigError{"Options." + option.name, fmt.Sprintf("%d is negative", option.value)}
		}
	}
	return nil
}

// currentTLS returns what secures a new connection. Files may have been replaced since the last one; if they cannot be used, for
// instance because they are being replaced, what was read before stays in force.
func (o *Options) currentTLS() *tls.Config {
	if o.followsFiles {
		if fresh, err := tlsOfEnvironment(); err == nil {
			o.TLS = fresh
		} else {
			o.Logger.Warn("the TLS files cannot be used; the old ones stay in force", "error", err)
		}
	}
	return o.TLS
}
