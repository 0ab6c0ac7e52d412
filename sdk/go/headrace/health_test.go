package headrace_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/headrace/headrace/sdk/go/headrace"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

const (
	connecting = pb.ConnectorState_CONNECTOR_STATE_CONNECTING
	works      = pb.ConnectorState_CONNECTOR_STATE_RUNNING
	degraded   = pb.ConnectorState_CONNECTOR_STATE_DEGRADED
	waiting    = pb.ConnectorState_CONNECTOR_STATE_WAITING
)

// reported waits for a report of a state, and for errors, in this one or before it. Heartbeats repeat the state before.
func reported(s *sourceSession, state pb.ConnectorState, reason string, errors ...string) {
	s.t.Helper()
	var found []string
	for {
		report := wait(s, (*pb.IngestRequest).GetReport)
		for _, e := range report.GetErrors() {
			found = append(found, e.GetMessage())
		}
		if report.GetState() == state && strings.Contains(report.GetReason(), reason) && (reason != "" || report.GetReason() == "") &&
			fmt.Sprint(found) == fmt.Sprint(errors) {
			return
		}
		s.t.Logf("reported %v", report)
	}
}

func TestReportsAreHeartbeatsWhenThereIsNoNews(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.start(&headrace.Source{Name: "orders", Read: func(ctx context.Context, _ *headrace.Partition) messages {
		return func(func(headrace.Message, error) bool) { <-ctx.Done() }
	}})
	s, _ := g.connected()
	for range 3 {
		reported(s, works, "")
	}
}

func TestASourceThatSuffersIsDegradedUntilItHasRecovered(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	recovered := make(chan struct{})
	g.start(&headrace.Source{Name: "orders", Read: func(ctx context.Context, p *headrace.Partition) messages {
		return func(func(headrace.Message, error) bool) {
			p.Degraded(errors.New("the disk is slow"))
			<-recovered
			p.Degraded(nil)
			<-ctx.Done()
		}
	}})
	s, _ := g.connected()
	reported(s, works, "")
	opened(s, nil)
	reported(s, degraded, "orders/0: the disk is slow", "the disk is slow")
	close(recovered)
	reported(s, works, "")
}

func TestAConnectorSaysHowItIs(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	health := &headrace.Health{}
	health.Waiting(errors.New("the broker restarts"))
	g.start(&headrace.Source{Name: "orders", Read: endless(nil)}, func(o *headrace.Options) { o.Health = health })
	s, _ := g.connected()
	reported(s, waiting, "the broker restarts", "the broker restarts")
	health.Connecting()
	reported(s, connecting, "")
	health.Degraded(errors.New("one of two brokers"))
	reported(s, degraded, "one of two brokers", "one of two brokers")
	s.close(codes.Unavailable, "")
	s, _ = g.connected() // A new session gets the report again, with the lost one.
	reported(s, degraded, "one of two brokers", "gateway "+g.address+": as the test says (Unavailable)")
	health.Running()
	health.Survived("orders/0", errors.New("a line was left out"))
	reported(s, works, "", "a line was left out")
}

func TestASourceIsConnectingUntilItHasAnswered(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	up := make(chan struct{})
	g.start(&headrace.Source{Name: "orders", Read: endless(nil), Partitions: func(context.Context) ([]string, error) {
		<-up
		return []string{"a"}, nil
	}})
	s, _ := g.connected()
	reported(s, connecting, "")
	close(up)
	reported(s, works, "")
}

func TestReportsAreWithinTheLimits(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	health := &headrace.Health{}
	for n := range 150 {
		health.Degraded(errors.New(fmt.Sprint(n) + strings.Repeat("é", 5000)))
	}
	g.start(&headrace.Source{Name: "orders", Read: endless(nil)}, func(o *headrace.Options) { o.Health = health })
	s, _ := g.connected()
	report := wait(s, (*pb.IngestRequest).GetReport)
	if len(report.GetErrors()) != 100 || !strings.HasPrefix(report.GetErrors()[0].GetMessage(), "50é") {
		t.Errorf("%d errors", len(report.GetErrors()))
	}
	for _, text := range []string{report.GetReason(), report.GetErrors()[99].GetMessage()} {
		if len(text) > 4096 || len(text) < 4000 {
			t.Errorf("a text of %d bytes", len(text))
		}
	}
}

func TestASinkReportsAPartThatFails(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	g.start(&headrace.Sink{Name: "notes", AtLeastOnce: &writer{write: func(*headrace.Rows) ([]headrace.Refused, error) {
		return nil, errors.New("disk full")
	}}})
	s, _ := g.attached(0)
	startPart(s, 1, part(7, 0))
	partFrame(s, 1, 0, "a")
	for {
		if report := s.next().GetReport(); report.GetState() == degraded {
			if !strings.Contains(report.GetReason(), "notes: disk full") || len(report.GetErrors()) != 1 {
				t.Errorf("reported %v", report)
			}
			return
		}
	}
}
