package headrace

import (
	"slices"
	"sync"
	"time"

	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

const (
	maxReportedErrors = 100
	maxReportedBytes  = 4096
	reportInterval    = time.Second
)

// health is what a connector reports of itself. It outlives sessions.
type health struct {
	mu       sync.Mutex
	problems []problem // unresolved, at most one for each stream or sink
	since    time.Time // of the state
	errors   []survived
	news     bool
}

// problem is what a stream or a sink suffers from.
type problem struct {
	name, reason string
}

// survived is an error that did not end the connector.
type survived struct {
	message, stream string
	at              time.Time
}

func newHealth() *health {
	return &health{since: time.Now(), news: true}
}

// note records an error.
func (h *health) note(stream string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.append(stream, err)
}

// degraded records an error, from which its stream or sink suffers until it has recovered.
func (h *health) degraded(name, stream string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.append(stream, err)
	found := problem{name, err.Error()}
	if at := h.find(name); at >= 0 {
		h.problems[at] = found
		return
	}
	if len(h.problems) == 0 {
		h.since = time.Now()
	}
	h.problems = append(h.problems, found)
}

// recovered notes that a stream or sink works again.
func (h *health) recovered(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.find(name); at >= 0 {
		h.problems = slices.Delete(h.problems, at, at+1)
		h.news = true
		if len(h.problems) == 0 {
			h.since = time.Now()
		}
	}
}

// again has the next report say everything: a new session knows nothing yet.
func (h *health) again() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.news = true
}

// report returns what is new; nil if nothing is.
func (h *health) report(now time.Time) *pb.Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.news {
		return nil
	}
	report := &pb.Report{
		State:      pb.ConnectorState_CONNECTOR_STATE_RUNNING,
		StateAgeMs: milliseconds(now.Sub(h.since)),
	}
	if len(h.problems) > 0 {
		report.State = pb.ConnectorState_CONNECTOR_STATE_DEGRADED
		report.Reason = truncated(h.problems[0].name+": "+h.problems[0].reason, maxReportedBytes)
	}
	for _, e := range h.errors {
		report.Errors = append(report.Errors, &pb.ConnectorError{
			Message: truncated(e.message, maxReportedBytes), AgeMs: milliseconds(now.Sub(e.at)), Stream: e.stream,
		})
	}
	h.errors, h.news = nil, false
	return report
}

func (h *health) append(stream string, err error) {
	if len(h.errors) == maxReportedErrors {
		h.errors = h.errors[1:]
	}
	h.errors = append(h.errors, survived{err.Error(), stream, time.Now()})
	h.news = true
}

func (h *health) find(name string) int {
	return slices.IndexFunc(h.problems, func(p problem) bool { return p.name == name })
}

func milliseconds(d time.Duration) uint64 {
	return uint64(max(0, d.Milliseconds()))
}
