package headrace

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/sdk/go/internal/frame"
)

// Header is a named value that goes with a message. A name may repeat. A nil value is null.
type Header struct {
	Name  string
	Value []byte
}

// TextHeader returns a header whose value is text, in UTF-8.
func TextHeader(name, value string) Header {
	return Header{Name: name, Value: []byte(value)}
}

// Message is one message of a stream. The SDK copies what it needs while it is yielded, so that its slices may be reused.
type Message struct {
	// Value is the payload; nil is null, a tombstone.
	Value []byte
	// Key is the key; nil is null.
	Key []byte
	// EventTime is when it happened, to the microsecond; the zero time is unknown. A source yields times of the years 1 to 9999.
	EventTime time.Time
	// Sequence orders the messages of a partition: strictly increasing, gaps allowed, at most 2^63 - 1. Ignored if the SDK
	// counts, as [Source.Counted] or [Source.Redelivering] say.
	Sequence uint64
	// ID is the message's id in the source, in UTF-8; empty is none.
	ID string
	// Headers are in order; their names are UTF-8.
	Headers []Header
	// Cursor says where the source can seek for what follows this message: up to 64 KiB, or what the gateway allows, that only the
	// source reads. Optional;
	// it comes back as Position.Cursor. Not every message needs one: once the first message that is sent has one, every
	// position has one.
	Cursor []byte
	// Token is whatever the source needs to acknowledge this message, such as a delivery tag. It is passed to
	// [Source.Settle], and never sent.
	Token any
}

// Position is a place in a stream: everything up to and including Sequence has been read, and nothing after it.
type Position struct {
	// Epoch is the generation of the stream's sequences; always 0 for a replayable source.
	Epoch uint64
	// Sequence is the sequence of the last message at or before the position.
	Sequence uint64
	// Cursor is the last cursor that the source gave at or before the position; nil if it gave none. It may be before
	// Sequence: what the source then yields again is dropped.
	Cursor []byte
}

// Backlog is what a source still has after the messages that it has yielded. Each field is optional.
type Backlog struct {
	// Messages is the number of messages left.
	Messages *uint64
	// Bytes is their size.
	Bytes *uint64
	// LatestSequence is the largest sequence of any message that exists now.
	LatestSequence *uint64
}

// secondsOfMicros is the largest number of seconds whose microseconds fit into 64 bits.
const secondsOfMicros = math.MaxInt64 / 1_000_000

// micros returns the event time in microseconds, and false if they do not fit into 64 bits.
func (m *Message) micros() (int64, bool) {
	if m.EventTime.IsZero() {
		return frame.NullTime, true
	}
	if seconds := m.EventTime.Unix(); seconds >= secondsOfMicros || seconds <= -secondsOfMicros {
		return 0, false
	}
	return m.EventTime.UnixMicro(), true
}

// check says what is wrong with the message by itself, other than its size.
func (m *Message) check(maxCursorBytes int) (field string, err error) {
	if !utf8.ValidString(m.ID) {
		return "ID", fmt.Errorf("it is not UTF-8: %q", m.ID)
	}
	for i := range m.Headers {
		if !utf8.ValidString(m.Headers[i].Name) {
			return "Headers", fmt.Errorf("the name of header %d is not UTF-8: %q", i, m.Headers[i].Name)
		}
	}
	if err := checkCursor(m.Cursor, maxCursorBytes); err != nil {
		return "Cursor", err
	}
	return "", nil
}

func checkCursor(cursor []byte, most int) error {
	if len(cursor) > most {
		return fmt.Errorf("it has %d bytes, the gateway allows %d", len(cursor), most)
	}
	return nil
}

// size is at most a few bytes less than what the message adds to a frame.
func (m *Message) size() int {
	size := 4 + len(m.Value) + len(m.Key) + len(m.ID) + len(m.Cursor)
	for i := range m.Headers {
		size += 8 + len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	return size
}
