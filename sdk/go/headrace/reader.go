package headrace

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/headrace/headrace/sdk/go/internal/frame"
)

// reader reads one partition of a source, on one goroutine.
type reader struct {
	source        *Source
	calls         *calls
	stream        string
	partition     *Partition
	gather        *gather
	maxFrameBytes uint64
	maxCursor     int     // the largest cursor, in bytes
	resume        *uint64 // what is at or before it was received already
	again         uint64  // how many such messages the source has yielded, although its position has no cursor
	repeated      func(count uint64, passed bool)
	next          uint64  // the sequence of the next message, if the SDK counts
	last          *uint64 // the sequence of the last message that was yielded
	leftOut       func(*MessageError)
}

// errStopped ends a reader whose session needs it no more.
var errStopped = errors.New("the reader was stopped")

// run reads until the partition ends, and returns how; it returns errStopped once ctx is done.
func (r *reader) run(ctx context.Context) (ending, error) {
	for m, err := range r.source.Read(ctx, r.partition) {
		switch {
		case ctx.Err() != nil:
			return stillOpen, errStopped
		case errors.Is(err, ErrPaused):
			return endedForNow, nil
		case errors.Is(err, ErrGone):
			return endedGone, nil
		case err != nil:
			return stillOpen, r.failed("Read", err)
		}
		if err := r.take(ctx, &m); err != nil {
			return stillOpen, err
		}
	}
	if ctx.Err() != nil {
		return stillOpen, errStopped
	}
	return endedForever, nil
}

// take adds a message to what was gathered, unless it was received already, or cannot be sent.
func (r *reader) take(ctx context.Context, m *Message) error {
	row := frame.Row{Sequence: m.Sequence, Key: m.Key, Value: m.Value, ID: m.ID, HasID: m.ID != ""}
	if err := r.number(&row); err != nil {
		return err
	}
	if r.resume != nil && row.Sequence <= *r.resume {
		r.repeat()
		return nil
	}
	if r.again > 0 {
		r.repeated(r.again, true)
		r.again = 0
	}
	micros, ok := m.micros()
	row.Time = micros
	timed := ok && (micros == frame.NullTime || frame.MinTime <= micros && micros <= frame.MaxTime)
	if wrong := r.check(m, &row, timed); wrong != nil {
		if r.source.Unsendable == nil {
			return wrong
		}
		unsendable := func() error { return r.source.Unsendable(ctx, r.partition.Name, *m, wrong) }
		if err := r.calls.during("Unsendable", r.stream, unsendable); err != nil {
			return r.failed("Unsendable", err)
		}
		r.leftOut(wrong)
		return nil
	}
	if !r.gather.add(ctx, m, &row) {
		return errStopped
	}
	return nil
}

// repeat notes a message that was received already. After a position with a cursor, the source may yield what follows the cursor.
func (r *reader) repeat() {
	position := r.partition.Position
	if position == nil || position.Cursor != nil {
		return
	}
	r.again++
	if r.again == 1 {
		r.repeated(r.again, false)
	}
}

// number gives the message its sequence, and checks that sequences increase.
func (r *reader) number(row *frame.Row) error {
	if r.source.counts() {
		row.Sequence = r.next
		r.next++
	}
	wrong := ""
	switch {
	case row.Sequence > frame.MaxSequence:
		wrong = "it is above 2^63 - 1, which is the largest"
	case r.last != nil && row.Sequence <= *r.last:
		wrong = fmt.Sprintf("it does not increase: the message before has %d; set it, or set Source.Counted", *r.last)
	}
	if wrong != "" {
		return &MessageError{r.stream, row.Sequence, "Sequence", errors.New(wrong)}
	}
	if r.last == nil {
		r.last = new(uint64)
	}
	*r.last = row.Sequence
	return nil
}

// check says whether the gateway can take the message.
func (r *reader) check(m *Message, row *frame.Row, timed bool) *MessageError {
	if !timed {
		return &MessageError{r.stream, row.Sequence, "EventTime",
			fmt.Errorf("%v is not within the years 1 to 9999", m.EventTime)}
	}
	if len(m.ID) > 0 || len(m.Headers) > 0 || len(m.Cursor) > 0 {
		if field, err := m.check(r.maxCursor); err != nil {
			return &MessageError{r.stream, row.Sequence, field, err}
		}
	}
	const overhead = 256 // more than a frame needs besides the message itself
	if size := uint64(m.size()) + overhead; size <= r.maxFrameBytes && size <= math.MaxUint32 {
		return nil
	}
	alone := frame.New(r.gather.id, len(m.Value))
	alone.Add(row)
	for i := range m.Headers {
		alone.AddHeader(m.Headers[i].Name, m.Headers[i].Value)
	}
	if m.Cursor != nil {
		alone.SetCursor(m.Cursor)
	}
	if size := alone.NextSize(); size > r.maxFrameBytes {
		return &MessageError{r.stream, row.Sequence, "", fmt.Errorf(
			"%w: it makes a frame of %d bytes, and the gateway takes at most %d; raise the gateway's limits.max_frame_bytes, "+
				"or leave the message out in Source.Unsendable", ErrTooLarge, size, r.maxFrameBytes)}
	}
	return nil
}

// failed wraps what a function of the source returned, unless it is for the SDK.
func (r *reader) failed(function string, err error) error {
	var lost *PositionLostError
	if errors.As(err, &lost) && function == "Read" {
		return lost
	}
	return &SourceError{r.stream, function, err}
}
