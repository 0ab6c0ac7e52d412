package headrace_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/sdk/go/headrace"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// calls notes what a connector was asked for.
type calls struct {
	mu    sync.Mutex
	names []string
}

func (c *calls) note(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = append(c.names, name)
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.names)
}

// closed fails unless Close was called once, and last.
func (c *calls) closed(t *testing.T) {
	t.Helper()
	all := c.all()
	if first := slices.Index(all, "Close"); first < 0 || first != len(all)-1 {
		t.Errorf("calls are %v", all)
	}
}

func (c *calls) close() error {
	c.note("Close")
	return nil
}

// noted is a source that notes its calls.
func (c *calls) noted(read func(context.Context, *headrace.Partition) messages) *headrace.Source {
	return &headrace.Source{
		Name: "orders",
		Read: func(ctx context.Context, p *headrace.Partition) messages {
			return func(yield func(headrace.Message, error) bool) {
				defer c.note("the end of Read")
				read(ctx, p)(yield)
			}
		},
		Partitions: func(context.Context) ([]string, error) {
			c.note("Partitions")
			return []string{"0"}, nil
		},
		Acknowledged: func(context.Context, string, headrace.Position) error {
			c.note("Acknowledged")
			return nil
		},
		Close: c.close,
	}
}

func TestASourceIsClosedOnceItHasEnded(t *testing.T) {
	g, c := startGateway(t), &calls{}
	r := g.start(c.noted(numbers(5)), patiently)
	s, _ := g.connected()
	open := opened(s, nil)
	sequences(s, 5)
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 5})
	wait(s, (*pb.IngestRequest).GetGoodbye)
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	c.closed(t)
}

func TestASourceIsClosedOnceItIsStopped(t *testing.T) {
	g, c := startGateway(t), &calls{}
	r := g.start(c.noted(endless(nil)), patiently)
	s, _ := g.connected()
	opened(s, nil)
	r.stop(nil)
	wait(s, (*pb.IngestRequest).GetGoodbye)
	_ = r.wait()
	c.closed(t)
}

func TestASourceIsClosedAfterAnError(t *testing.T) {
	for _, function := range []string{"Partitions", "Read"} {
		t.Run(function, func(t *testing.T) {
			g, c := startGateway(t), &calls{}
			failure := errors.New("no")
			source := c.noted(func(context.Context, *headrace.Partition) messages {
				return func(yield func(headrace.Message, error) bool) { yield(headrace.Message{}, failure) }
			})
			if function == "Partitions" {
				source.Partitions = func(context.Context) ([]string, error) { return nil, failure }
			}
			r := g.start(source, patiently)
			s, _ := g.connected()
			if function == "Read" {
				opened(s, nil)
			}
			if err := r.wait(); !errors.Is(err, failure) {
				t.Errorf("it has ended with %v", err)
			}
			c.closed(t)
		})
	}
}

func TestASourceIsClosedThoughNoGatewayWasEverThere(t *testing.T) {
	c := &calls{}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	_ = headrace.Run(ctx, c.noted(numbers(1)), &headrace.Options{Gateway: "127.0.0.1:1"})
	if all := c.all(); !slices.Equal(all, []string{"Close"}) {
		t.Errorf("calls are %v", all)
	}
}

func TestAConnectorWhoseOptionsAreNotValidIsNotCalledAtAll(t *testing.T) {
	c := &calls{}
	err := headrace.Run(context.Background(), c.noted(numbers(1)), &headrace.Options{TokenFile: filepath.Join(t.TempDir(), "none")})
	var invalid *headrace.ConfigError
	if !errors.As(err, &invalid) || len(c.all()) > 0 {
		t.Errorf("%v, and calls are %v", err, c.all())
	}
}

// logging sets a logger, and short timeouts for functions that never return.
func logging(log *lines) func(*headrace.Options) {
	return func(o *headrace.Options) {
		o.Logger = slog.New(slog.NewJSONHandler(log, nil))
		o.StuckTimeout, o.CloseTimeout = 10*time.Millisecond, 100*time.Millisecond
	}
}

func TestACloseThatFailsIsLogged(t *testing.T) {
	g, log := startGateway(t), &lines{}
	source := (&calls{}).noted(numbers(0))
	source.Close = func() error { return errors.New("no") }
	r := g.start(source, logging(log))
	s, _ := g.connected()
	opened(s, nil)
	wait(s, (*pb.IngestRequest).GetGoodbye)
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	if !log.have(t, map[string]any{"msg": "Close has failed", "error": "no"}) {
		t.Errorf("the log is %s", log.text)
	}
}

func TestACloseThatDoesNotReturnIsLoggedAndLeft(t *testing.T) {
	g, log, release := startGateway(t), &lines{}, make(chan struct{})
	defer close(release)
	source := (&calls{}).noted(numbers(0))
	source.Close = func() error {
		<-release
		return nil
	}
	r := g.start(source, logging(log))
	s, _ := g.connected()
	opened(s, nil)
	wait(s, (*pb.IngestRequest).GetGoodbye)
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	if !log.have(t, map[string]any{"msg": "Close has not returned; the connector ends without it"}) {
		t.Errorf("the log is %s", log.text)
	}
}

func TestCloseNeverRunsBesideAFunctionThatHasNotReturned(t *testing.T) {
	g, c, log := startGateway(t), &calls{}, &lines{}
	reading, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	r := g.start(c.noted(func(context.Context, *headrace.Partition) messages {
		return func(func(headrace.Message, error) bool) {
			close(reading)
			<-release
		}
	}), logging(log))
	s, _ := g.connected()
	opened(s, nil)
	<-reading
	r.stop(nil)
	wait(s, (*pb.IngestRequest).GetGoodbye)
	_ = r.wait()
	if slices.Contains(c.all(), "Close") {
		t.Errorf("calls are %v", c.all())
	}
	if !log.have(t, map[string]any{"msg": "Close is not called, because another function has not returned"}) {
		t.Errorf("the log is %s", log.text)
	}
}

func TestASinkIsClosedOnceItIsStopped(t *testing.T) {
	g, c := startGateway(t), &calls{}
	l := newLedger()
	l.stage = func(headrace.Part) { c.note("Stage") }
	r := g.start(&headrace.Sink{Name: "ledger", TwoPhase: l, Close: c.close}, patiently)
	s, _ := g.attached(0)
	startPart(s, 1, part(7, 0))
	partFrame(s, 1, 0, "a")
	endPart(s, 1, 1)
	said(s, (*pb.SinkServiceAttachRequest).GetStaged)
	r.stop(nil)
	_ = r.wait()
	c.closed(t)
}
