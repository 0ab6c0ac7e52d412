package headrace

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/sdk/go/internal/frame"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// credit is bytes and messages that may be sent.
type credit struct {
	bytes, messages uint64
}

func (c *credit) add(more credit) {
	c.bytes += more.bytes
	c.messages += more.messages
}

// take takes all of it.
func (c *credit) take() credit {
	all := *c
	*c = credit{}
	return all
}

// token is what a source needs to acknowledge a message that was sent.
type token struct {
	sequence uint64
	token    any
}

// stream is a partition as it was opened under one id. Only its session's goroutine uses it.
type stream struct {
	id        uint32
	partition string
	name      string
	gather    *gather
	acks      *acknowledger

	reading    context.CancelFunc // nil before StreamOpened
	readerDone chan struct{}      // closed once the reader has returned

	muted     bool // sends nothing more
	due       bool // waits for its turn
	closeSent bool
	asked     bool   // a CreditRequest stands
	lent      credit // which only the next frame of this stream may spend
	packet    *packet
	timer     *time.Timer
	lastFrame time.Time
	told      *pb.Backlog

	epoch    uint64
	resume   *uint64
	lastSent *uint64
	acked    *uint64
	moves    uint64  // of the cursor, at what was acknowledged
	tokens   []token // bounded by the session's credit
}

// reached says whether a is at or after b; nil is before everything.
func reached(a, b *uint64) bool {
	return b == nil || a != nil && *a >= *b
}

// unacknowledged says whether something was sent and is not acknowledged.
func (st *stream) unacknowledged() bool {
	return !reached(st.acked, st.lastSent)
}

// unsent says whether something was read and is not sent.
func (st *stream) unsent() bool {
	if st.muted {
		return false
	}
	state := st.gather.state()
	return st.packet != nil || state.some || state.enough
}

// finished says whether the stream was closed and everything before is acknowledged.
func (st *stream) finished() bool {
	return st.closeSent && !st.muted && reached(st.acked, st.lastSent) && reached(st.acked, st.resume)
}

// load takes what was gathered, unless something is left. It returns false if there is nothing to send.
func (st *stream) load() bool {
	if st.packet == nil {
		st.packet = st.gather.take()
	}
	return st.packet != nil
}

// sent notes that a frame goes out.
func (st *stream) sent(f *pb.Frame, now time.Time) {
	last := frame.LastSequence(f)
	if tokens := st.packet.takeTokens(int(f.GetCount())); tokens != nil {
		index := 0
		for sequence := range frame.Sequences(f) {
			if tokens[index] != nil {
				st.tokens = append(st.tokens, token{sequence, tokens[index]})
			}
			index++
		}
	}
	if st.packet.Rows() == 0 {
		st.packet = nil
	}
	st.lastSent, st.lastFrame, st.asked = &last, now, false
	st.gather.sent(int(f.GetCount()))
}

// acknowledge takes an acknowledged position, and has the source told. One of an older epoch counts for nothing.
func (st *stream) acknowledge(position *pb.Position) bool {
	sequence := position.GetSequence()
	moved := st.acked != nil && *st.acked == sequence && position.GetMoves() > st.moves
	if position.GetEpoch() != st.epoch || reached(st.acked, &sequence) && !moved {
		return false
	}
	st.acked, st.moves = &sequence, position.GetMoves()
	var tokens []any
	for len(st.tokens) > 0 && st.tokens[0].sequence <= sequence {
		tokens = append(tokens, st.tokens[0].token)
		st.tokens = st.tokens[1:]
	}
	st.acks.tell(*toPosition(position), tokens)
	return true
}

// cursorFrame returns a frame without messages, if the cursor has moved since the last message was sent.
func (st *stream) cursorFrame() *pb.Frame {
	cursor := st.gather.takeCursor()
	if cursor == nil {
		return nil
	}
	at := uint64(0)
	if st.lastSent != nil {
		at = *st.lastSent
	} else if st.resume != nil {
		at = *st.resume
	}
	return &pb.Frame{StreamId: st.id, FirstSequence: at, Cursor: cursor}
}

// backlog returns the report of the messages that are left, if it is news.
func (st *stream) backlog() *pb.Backlog {
	left := st.gather.tellBacklog()
	if left == nil {
		return nil
	}
	told := &pb.Backlog{StreamId: st.id, Messages: left.messages, Bytes: left.bytes, LatestSequence: left.latest}
	if left.caughtUp {
		told.LatestSequence = new(uint64)
		for _, sequence := range []*uint64{st.resume, st.lastSent} {
			if sequence != nil {
				*told.LatestSequence = max(*told.LatestSequence, *sequence)
			}
		}
	}
	if proto.Equal(told, st.told) {
		return nil
	}
	st.told = told
	return told
}

// pause has the source yield nothing more.
func (st *stream) pause() {
	if st.reading != nil {
		st.reading()
	}
}

// mute sends nothing more; what was sent may still be acknowledged.
func (st *stream) mute() {
	st.pause()
	st.muted = true
	st.packet = nil
	st.gather.clear()
	if st.timer != nil {
		st.timer.Stop()
	}
}

// toPosition returns a position as sources see it; nil for none.
func toPosition(position *pb.Position) *Position {
	if position == nil {
		return nil
	}
	return &Position{Sequence: position.GetSequence(), Cursor: position.Cursor, Epoch: position.GetEpoch()}
}

func fromPosition(position Position) *pb.Position {
	return &pb.Position{Sequence: position.Sequence, Cursor: position.Cursor}
}
