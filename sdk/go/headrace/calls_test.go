package headrace_test

import (
	"context"
	"iter"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/sdk/go/headrace"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// named waits for a report of an error that names a function, and returns it.
func named(t *testing.T, next func() *pb.Report, function string) *pb.ConnectorError {
	t.Helper()
	for {
		for _, e := range next().GetErrors() {
			if strings.HasPrefix(e.GetMessage(), function+" (") {
				return e
			}
		}
	}
}

func TestAFunctionThatDoesNotReturnIsNamedWithTheLineWhereItStands(t *testing.T) {
	for _, slow := range []string{"Partitions", "Acknowledged"} {
		t.Run(slow, func(t *testing.T) {
			g, log, release := startGateway(t), &lines{}, make(chan struct{})
			hang := func(function string) {
				if function == slow {
					<-release
				}
			}
			source := &headrace.Source{
				Name: "numbers",
				Read: func(ctx context.Context, _ *headrace.Partition) iter.Seq2[headrace.Message, error] {
					return func(yield func(headrace.Message, error) bool) {
						if yield(headrace.Message{Sequence: 1}, nil) {
							<-ctx.Done() // It waits for its next message, which is no fault.
						}
					}
				},
				Partitions: func(context.Context) ([]string, error) {
					hang("Partitions")
					return []string{"0"}, nil
				},
				Acknowledged: func(context.Context, string, headrace.Position) error {
					hang("Acknowledged")
					return nil
				},
			}
			g.start(source, func(o *headrace.Options) {
				o.Logger, o.StuckTimeout = slog.New(slog.NewJSONHandler(log, nil)), 20*time.Millisecond
			})
			s, _ := g.connected()
			stream := ""
			if slow == "Acknowledged" {
				stream = "numbers/0"
				opened(s, &pb.Position{Sequence: 1})
			}
			e := named(t, func() *pb.Report { return wait(s, (*pb.IngestRequest).GetReport) }, slow)
			_, file, _, _ := runtime.Caller(0)
			if e.GetStream() != stream || !strings.Contains(e.GetMessage(), " has not returned for ") ||
				!strings.Contains(e.GetMessage(), "it stands at "+file+":") {
				t.Errorf("reported %v", e)
			}
			close(release)
		})
	}
}
