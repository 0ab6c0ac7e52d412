package headrace

// Counter is something that Metrics counts.
type Counter string

// Counts, by stream or sink.
const (
	// CounterFrames is frames that a source has sent, or a sink has received.
	CounterFrames Counter = "frames"
	// CounterMessages is the messages in them.
	CounterMessages Counter = "messages"
	// CounterBytes is the bytes of these frames.
	CounterBytes Counter = "bytes"
	// CounterAcknowledgements is acknowledgements that a source has received, or parts that a sink has staged.
	CounterAcknowledgements Counter = "acknowledgements"
	// CounterReconnects is attempts to connect after a session was lost, by connector.
	CounterReconnects Counter = "reconnects"
	// CounterRefused is messages that a source left out since they cannot be sent, or that a sink refused permanently.
	CounterRefused Counter = "refused"
)

// Metrics receives counts, for instance to pass them on to OpenTelemetry or Prometheus. Frames are counted, never single
// messages, so that it costs little. Its method is called from several goroutines, and must not block.
type Metrics interface {
	// Add adds to a counter of a stream, a sink or a connector.
	Add(counter Counter, name string, n uint64)
}

type noMetrics struct{}

func (noMetrics) Add(Counter, string, uint64) {}
