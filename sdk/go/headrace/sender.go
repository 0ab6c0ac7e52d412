package headrace

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// sender decides what a session sends next: control messages first, then frames by turns, within credit and pace. Only the
// session's goroutine uses it.
type sender struct {
	credit      credit
	overhead    uint64 // what each frame takes besides its own bytes
	maxBytes    uint64 // the largest frame
	maxMessages int
	linger      time.Duration
	metrics     Metrics
	outstanding func() bool         // says whether anything that was sent is not acknowledged
	expire      func(*stream)       // has a stream get its turn, from any goroutine
	control     []*pb.IngestRequest // at most a few for each stream
	turns       []*stream           // the due ones
	quiet       bool                // no more frames
	flushing    bool                // without waiting for more messages
	frameSent   func(*stream)       // told after a frame, or the end of a stream
	joins       bool                // the gateway takes several frames in one message
	moves       bool                // the gateway takes frames without messages
	following   *pb.IngestRequest   // comes after frames that share a message
}

const (
	// maxJoinedFrames is how many frames may share a message (FRM-17).
	maxJoinedFrames = 256
	// maxJoinedBytes is how large the frames are that share a message: a larger frame gains nothing.
	maxJoinedBytes = 64 << 10
)

// say sends a control message, before any further frame.
func (s *sender) say(request *pb.IngestRequest) {
	s.control = append(s.control, request)
}

// look sees whether a stream has something to send, now or after it has gathered for a while.
func (s *sender) look(st *stream, now time.Time) {
	if st.muted || st.due || s.quiet {
		return
	}
	state := st.gather.state()
	at := now
	switch {
	case s.flushing || state.enough || state.ended != stillOpen || st.packet != nil:
	case state.caughtUp:
		// Nothing comes for now: no need to wait, as long as that does not make more frames than the pace allows.
		at = st.lastFrame.Add(s.linger)
	case state.some:
		at = now.Add(s.linger)
	case !state.news:
		return
	}
	switch {
	case !at.After(now):
		s.makeDue(st)
	case st.timer == nil:
		st.timer = time.AfterFunc(at.Sub(now), func() { s.expire(st) })
	}
}

// makeDue gives a stream its turn, after the streams that are due already.
func (s *sender) makeDue(st *stream) {
	if st.timer != nil {
		st.timer.Stop()
		st.timer = nil
	}
	if !st.due && !st.muted {
		st.due = true
		s.turns = append(s.turns, st)
	}
}

// grant takes credit for the session.
func (s *sender) grant(c *pb.Credit) {
	s.credit.add(credit{c.GetBytes(), c.GetMessages()})
}

// grantTo takes credit for one stream, whose frame goes next: a batch waits for it.
func (s *sender) grantTo(st *stream, c *pb.Credit) {
	st.lent.add(credit{c.GetBytes(), c.GetMessages()})
	if st.muted || s.quiet || !st.load() {
		s.credit.add(st.lent.take())
		return
	}
	s.makeDue(st)
	s.turns = slices.DeleteFunc(s.turns, func(other *stream) bool { return other == st })
	s.turns = slices.Insert(s.turns, 0, st)
}

// joined returns the next message to send, with as many small frames as are due; nil if there is none, or no credit for it.
func (s *sender) joined(now time.Time) *pb.IngestRequest {
	request := s.following
	s.following = nil
	if request == nil {
		request = s.next(now)
	}
	size, most := uint64(proto.Size(request)), min(uint64(maxJoinedBytes), s.maxBytes)
	if !s.joins || request.GetFrame() == nil || size > most {
		return request
	}
	frames := []*pb.Frame{request.GetFrame()}
	for len(frames) < maxJoinedFrames {
		following := s.next(now)
		if following == nil {
			break
		}
		size += uint64(proto.Size(following))
		if following.GetFrame() == nil || size > most {
			s.following = following
			break
		}
		frames = append(frames, following.GetFrame())
	}
	if len(frames) == 1 {
		return request
	}
	return &pb.IngestRequest{Message: &pb.IngestRequest_Frames{Frames: &pb.Frames{Frames: frames}}}
}

// next returns the next message; nil if there is none, or no credit for it.
func (s *sender) next(now time.Time) *pb.IngestRequest {
	if len(s.control) > 0 {
		request := s.control[0]
		s.control = s.control[1:]
		return request
	}
	for len(s.turns) > 0 && !s.quiet {
		st := s.turns[0]
		if st.muted || !st.load() {
			s.turnOver(st)
			if request := s.last(st); request != nil {
				return request
			}
			continue
		}
		if f := s.frame(st); f != nil {
			s.turnOver(st)
			st.sent(f, now)
			s.metrics.Add(CounterFrames, st.name, 1)
			s.metrics.Add(CounterMessages, st.name, uint64(f.GetCount()))
			s.metrics.Add(CounterBytes, st.name, uint64(proto.Size(f)))
			// Its backlog follows in its next turn, after the frames of others that are due.
			s.look(st, now)
			s.frameSent(st)
			return &pb.IngestRequest{Message: &pb.IngestRequest_Frame{Frame: f}}
		}
		// It keeps its turn until it has credit, or a large message would wait for ever.
		return s.creditRequest()
	}
	return nil
}

// frame cuts the next frame of a stream and spends its credit; nil if credit does not allow it. More credit is to come as long
// as something is outstanding: spending the last of it would make ever smaller frames.
func (s *sender) frame(st *stream) *pb.Frame {
	available := s.credit
	available.add(st.lent)
	bytes := available.bytes - min(available.bytes, s.overhead)
	wholeBytes, wholeMessages := st.packet.Ready(s.maxBytes, s.maxMessages)
	cut := st.lent != (credit{}) || !s.outstanding()
	if !cut && (wholeBytes > bytes || wholeMessages > available.messages) {
		return nil
	}
	f := st.packet.Take(min(s.maxBytes, bytes), min(s.maxMessages, int(min(available.messages, uint64(s.maxMessages)))))
	if f == nil {
		return nil
	}
	s.credit.add(st.lent.take())
	s.credit.bytes -= uint64(proto.Size(f)) + s.overhead
	s.credit.messages -= uint64(f.GetCount())
	return f
}

// last returns what to say of a stream that has nothing to send: that it has ended, or what is left.
func (s *sender) last(st *stream) *pb.IngestRequest {
	if st.muted || st.closeSent {
		return nil
	}
	if f := st.cursorFrame(); f != nil && s.moves {
		// What else there is to say follows in its next turn.
		s.makeDue(st)
		return &pb.IngestRequest{Message: &pb.IngestRequest_Frame{Frame: f}}
	}
	if how := st.gather.state().ended; how != stillOpen {
		// Messages that were gathered before the end may have come since.
		if st.load() {
			s.makeDue(st)
			return nil
		}
		st.closeSent = true
		s.frameSent(st)
		return &pb.IngestRequest{Message: &pb.IngestRequest_CloseStream{CloseStream: &pb.CloseStream{
			StreamId: st.id, EndOfStream: how != endedForNow, Gone: how == endedGone,
		}}}
	}
	if left := st.backlog(); left != nil {
		return &pb.IngestRequest{Message: &pb.IngestRequest_Backlog{Backlog: left}}
	}
	return nil
}

// creditRequest asks for room for each stream that waits, once for each frame: a batch may wait for any of them, and what the
// others hold may come back only after that batch.
func (s *sender) creditRequest() *pb.IngestRequest {
	for _, st := range s.turns {
		if st.asked || st.muted || !st.load() {
			continue
		}
		st.asked = true
		bytes, messages := st.packet.Ready(s.maxBytes, s.maxMessages)
		return &pb.IngestRequest{Message: &pb.IngestRequest_CreditRequest{CreditRequest: &pb.CreditRequest{
			StreamId: st.id, Bytes: st.packet.NextSize(), Messages: 1, ReadyBytes: &bytes, ReadyMessages: &messages,
		}}}
	}
	return nil
}

// turnOver ends a stream's turn. Credit that was for it alone is the session's: its frame went out, or never will.
func (s *sender) turnOver(st *stream) {
	s.credit.add(st.lent.take())
	st.due = false
	s.turns = slices.DeleteFunc(s.turns, func(other *stream) bool { return other == st })
}
