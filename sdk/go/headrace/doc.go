// Package headrace is for writing sources and sinks of Headrace in Go. A source streams messages to a gateway, and from there
// into Spark; a sink receives what Spark writes.
//
// A [Source] yields messages after a position. The SDK gathers them into frames, respects the gateway's credit, reconnects,
// resumes, drains and ends streams. A message is acknowledged once it is in the checkpoint of every Spark query that reads it:
//
//	source := &headrace.Source{
//		Name: "countdown",
//		Read: func(ctx context.Context, p *headrace.Partition) iter.Seq2[headrace.Message, error] {
//			return func(yield func(headrace.Message, error) bool) {
//				for n := p.Next(1); n <= 10; n++ {
//					if !yield(headrace.Message{Value: fmt.Append(nil, 11-n), Sequence: n}, nil) {
//						return
//					}
//				}
//			}
//		},
//	}
//	headrace.Main(source, nil)
//
// A [Sink] writes in one of three modes: [TwoPhase] and [Idempotent] exactly once, [AtLeastOnce] at least once.
//
// [Main] runs a connector as a process, [Run] within one. Every function of a connector gets a context, which ends when its
// work is no longer needed; it should then return soon. Errors can be told apart with [errors.Is] and [errors.As].
package headrace

const (
	// Version is the version of this SDK.
	Version = "0.1.0"

	sdkName         = "headrace-go"
	sdkLanguage     = "go"
	protocolVersion = 1
)
