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
	// heartbeatAfter is when a report is sent although there is no news: at the second look, 2 s after the one before.
	heartbeatAfter = 3 * reportInterval / 2
)

// Health is how a connector is, for operators: headrace status shows it. It changes nothing else. The zero value is ready; put
// it into [Options] if the connector knows more of its state than the SDK:
//
//	if err := connect(ctx); err != nil {
//		health.Waiting(err) // until the system is back
//	}
//
// Without a word from the connector, it is connecting until the source has answered for the first time, and running after that;
// it is degraded as long as a stream or the sink suffers from an error. The SDK lists errors that it survives by itself.
//
// The methods may be called from any goroutine, at any time, as often as you like. They never wait: at most once a second, the
// SDK reports what is new. Each connector needs a Health of its own.
type Health struct {
	mu       sync.Mutex
	answered bool              // the connector has answered for the first time
	said     pb.ConnectorState // what the connector says; unspecified if it leaves it to the SDK
	why      string
	problems []problem // unresolved, at most one for each stream or sink
	state    pb.ConnectorState
	since    time.Time // of the state
	errors   []survived
	news     bool
	told     time.Time // when the last report was made
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

// Connecting tells that the connector starts: it connects to its system.
func (h *Health) Connecting() {
	h.say(pb.ConnectorState_CONNECTOR_STATE_CONNECTING, nil)
}

// Running tells that the connector works. Errors that the SDK knows of still count.
func (h *Health) Running() {
	h.say(pb.ConnectorState_CONNECTOR_STATE_UNSPECIFIED, nil)
}

// Degraded tells that the connector works, but not as it should, and why. For one partition of a source, see
// [Partition.Degraded].
func (h *Health) Degraded(err error) {
	h.say(pb.ConnectorState_CONNECTOR_STATE_DEGRADED, err)
}

// Waiting tells that the connector can do nothing until its system is back, and why.
func (h *Health) Waiting(err error) {
	h.say(pb.ConnectorState_CONNECTOR_STATE_WAITING, err)
}

// say takes what the connector says of itself.
func (h *Health) say(state pb.ConnectorState, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered, h.said, h.why = true, state, ""
	if err != nil {
		h.why = err.Error()
		h.append("", err)
	}
	h.decide()
}

// Survived lists an error that did not end the connector, and changes no state. It may concern one stream; otherwise, stream is
// empty.
func (h *Health) Survived(stream string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.append(stream, err)
}

// degraded records an error, from which its stream or sink suffers until it has recovered.
func (h *Health) degraded(name, stream string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.append(stream, err)
	found := problem{name, err.Error()}
	if at := h.find(name); at >= 0 {
		h.problems[at] = found
	} else {
		h.problems = append(h.problems, found)
	}
	h.decide()
}

// recovered notes that a stream or sink works again.
func (h *Health) recovered(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.find(name); at >= 0 {
		h.problems = slices.Delete(h.problems, at, at+1)
		h.decide()
	}
}

// connected notes that the connector has answered.
func (h *Health) connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.answered {
		h.answered = true
		h.decide()
	}
}

// again has the next report say everything: a new session knows nothing yet.
func (h *Health) again() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decide()
}

// decide finds out the state; the mutex is held.
func (h *Health) decide() {
	state := h.said
	switch {
	case state != pb.ConnectorState_CONNECTOR_STATE_UNSPECIFIED:
	case !h.answered:
		state = pb.ConnectorState_CONNECTOR_STATE_CONNECTING
	case len(h.problems) > 0:
		state = pb.ConnectorState_CONNECTOR_STATE_DEGRADED
	default:
		state = pb.ConnectorState_CONNECTOR_STATE_RUNNING
	}
	if state != h.state {
		h.state, h.since = state, time.Now()
	}
	h.news = true
}

// report returns what is new, and how the connector is if a heartbeat is due; nil if there is nothing to say.
func (h *Health) report(now time.Time) *pb.Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.news && now.Sub(h.told) < heartbeatAfter {
		return nil
	}
	report := &pb.Report{State: h.state, StateAgeMs: milliseconds(now.Sub(h.since)), Reason: truncated(h.why, maxReportedBytes)}
	if h.state == pb.ConnectorState_CONNECTOR_STATE_DEGRADED && h.said != h.state {
		report.Reason = truncated(h.problems[0].name+": "+h.problems[0].reason, maxReportedBytes)
	}
	for _, e := range h.errors {
		report.Errors = append(report.Errors, &pb.ConnectorError{
			Message: truncated(e.message, maxReportedBytes), AgeMs: milliseconds(now.Sub(e.at)), Stream: e.stream,
		})
	}
	h.errors, h.news, h.told = nil, false, now
	return report
}

func (h *Health) append(stream string, err error) {
	if len(h.errors) == maxReportedErrors {
		h.errors = h.errors[1:]
	}
	h.errors = append(h.errors, survived{err.Error(), truncated(stream, maxNameBytes), time.Now()})
	h.news = true
}

func (h *Health) find(name string) int {
	return slices.IndexFunc(h.problems, func(p problem) bool { return p.name == name })
}

func milliseconds(d time.Duration) uint64 {
	return uint64(max(0, d.Milliseconds()))
}
