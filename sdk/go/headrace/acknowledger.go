package headrace

import (
	"context"
	"sync"
)

// acknowledger tells a source what was acknowledged of one partition, on a goroutine of its own, so that a slow system does
// not hold up the session.
type acknowledger struct {
	source            *Source
	calls             *calls
	stream, partition string
	wake              chan struct{}
	done              chan struct{}

	mu       sync.Mutex
	position *Position
	tokens   []any // bounded by the session's credit
	closed   bool
}

// startAcknowledger returns nil if the source does not want to know.
func startAcknowledger(
	ctx context.Context, source *Source, calls *calls, stream, partition string, run func(func()), failed func(error),
) *acknowledger {
	if source.Acknowledged == nil && source.Settle == nil {
		return nil
	}
	a := &acknowledger{
		source: source, calls: calls, stream: stream, partition: partition, wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	run(func() {
		defer close(a.done)
		if err := a.run(ctx); err != nil {
			failed(err)
		}
	})
	return a
}

// tell has the source told of a position, soon; a later one replaces it.
func (a *acknowledger) tell(position Position, tokens []any) {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.position = &position
	a.tokens = append(a.tokens, tokens...)
	a.mu.Unlock()
	a.rouse()
}

// close ends the goroutine, once the source has every acknowledgement.
func (a *acknowledger) close() {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.rouse()
}

func (a *acknowledger) rouse() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *acknowledger) run(ctx context.Context) error {
	for {
		select {
		case <-a.wake:
		case <-ctx.Done():
			return nil
		}
		a.mu.Lock()
		position, tokens, closed := a.position, a.tokens, a.closed
		a.position, a.tokens = nil, nil
		a.mu.Unlock()
		if len(tokens) > 0 && a.source.Settle != nil {
			settle := func() error { return a.source.Settle(ctx, a.partition, tokens) }
			if err := a.calls.during("Settle", a.stream, settle); err != nil {
				return &SourceError{a.stream, "Settle", err}
			}
		}
		if position != nil && a.source.Acknowledged != nil {
			acknowledged := func() error { return a.source.Acknowledged(ctx, a.partition, *position) }
			if err := a.calls.during("Acknowledged", a.stream, acknowledged); err != nil {
				return &SourceError{a.stream, "Acknowledged", err}
			}
		}
		if closed {
			return nil
		}
	}
}
