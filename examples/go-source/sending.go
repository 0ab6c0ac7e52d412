package main

import (
	"errors"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	pb "example.com/go-source/internal/protocol/v1"
)

const (
	// Large enough that the cost of a frame is small against that of its messages.
	frameMessages = 4096
	frameBytes    = 512 << 10

	reportInterval = time.Second
	goodbyeTimeout = time.Second
)

// step does what can be done now, and returns how long to wait before the next step where nothing is received.
func (s *session) step(now time.Time) (time.Duration, error) {
	if !s.welcomed {
		return reportInterval, nil
	}
	if !s.leaveBy.IsZero() {
		if s.settled() || !now.Before(s.leaveBy) {
			s.goodbye("drained")
			return 0, errDrained
		}
		return s.leaveBy.Sub(now), nil
	}
	wait := s.pacer.wait(s.linger)
	for _, st := range s.streams {
		switch {
		case st.id == 0 && now.Before(st.askAt):
			wait = min(wait, st.askAt.Sub(now))
		case st.id == 0:
			if err := s.ask(st); err != nil {
				return 0, err
			}
		case st.open && !st.closed && !now.Before(s.reportAt):
			if err := s.report(st); err != nil {
				return 0, err
			}
		}
	}
	if !now.Before(s.reportAt) {
		s.reportAt = now.Add(reportInterval)
	}
	sent, err := s.sendFrame(s.pacer.due(now, s.linger))
	if sent {
		wait = 0
	}
	return wait, err
}

// ask asks for a stream. It is parked until a pipeline reads it; then comes StreamOpened.
func (s *session) ask(st *stream) error {
	s.lastID++
	st.id = s.lastID
	return s.send(&pb.IngestRequest{Message: &pb.IngestRequest_OpenStream{OpenStream: &pb.OpenStream{
		StreamId: st.id,
		Stream:   st.name,
		Kind:     pb.SourceKind_SOURCE_KIND_REPLAYABLE,
	}}})
}

// report says what is left, and that the stream has ended where nothing is.
func (s *session) report(st *stream) error {
	left := st.numbers.left(st.next)
	err := s.send(&pb.IngestRequest{Message: &pb.IngestRequest_Backlog{Backlog: &pb.Backlog{
		StreamId:       st.id,
		LatestSequence: proto.Uint64(st.numbers.last),
		Messages:       proto.Uint64(left),
	}}})
	if err != nil || left > 0 {
		return err
	}
	st.closed = true
	return s.send(&pb.IngestRequest{Message: &pb.IngestRequest_CloseStream{CloseStream: &pb.CloseStream{
		StreamId:    st.id,
		EndOfStream: true,
	}}})
}

// sendFrame sends one frame with at most `due` messages: of a stream that has credit of its own, since a batch waits for it, else
// of the stream whose turn it is. It returns false where no stream has anything to send or credit does not allow it.
func (s *session) sendFrame(due uint64) (bool, error) {
	limit := min(due, s.frameMessages)
	waiting := s.inTurn()
	if len(waiting) == 0 || limit == 0 {
		return false, nil
	}
	for _, st := range waiting {
		if st.lentBytes > 0 || st.lentMessages > 0 {
			s.returnLoan(st)
			return s.sendFrameOf(st, limit)
		}
	}
	st := waiting[0]
	if s.settled() || s.creditMessages >= limit && s.creditBytes >= s.frameBytes+s.frameOverhead {
		if sent, err := s.sendFrameOf(st, limit); sent || err != nil {
			s.turn++
			return sent, err
		}
	}
	// More credit is to come, and the stream keeps its turn until then. Using up the rest would make ever smaller frames. A batch may
	// wait for any of the streams, so each of them asks.
	for _, st := range waiting {
		if err := s.requestCredit(st, s.frameBytes, limit); err != nil {
			return false, err
		}
	}
	return false, nil
}

// sendFrameOf sends a frame of a stream; it returns false, and asks for credit, where credit does not allow it.
func (s *session) sendFrameOf(st *stream, limit uint64) (bool, error) {
	frame, next := pack(st, max(1, min(limit, s.creditMessages)), min(s.frameBytes, s.creditBytes-min(s.frameOverhead, s.creditBytes)))
	size, count := uint64(proto.Size(frame)), uint64(frame.GetCount())
	if size+s.frameOverhead > s.creditBytes || count > s.creditMessages {
		return false, s.requestCredit(st, size, count)
	}
	s.creditBytes -= size + s.frameOverhead
	s.creditMessages -= count
	s.pacer.spend(count)
	st.next, st.asked = next, 0
	if err := s.send(&pb.IngestRequest{Message: &pb.IngestRequest_Frame{Frame: frame}}); err != nil {
		return false, err
	}
	if st.numbers.left(next) == 0 {
		return true, s.report(st)
	}
	return true, nil
}

// inTurn returns the streams that may send, the one whose turn it is first.
func (s *session) inTurn() []*stream {
	var found []*stream
	for range s.streams {
		s.turn %= len(s.streams)
		if st := s.streams[s.turn]; st.open && !st.closed {
			break
		}
		s.turn++
	}
	for i := range s.streams {
		if st := s.streams[(s.turn+i)%len(s.streams)]; st.open && !st.closed {
			found = append(found, st)
		}
	}
	return found
}

// pack makes a frame of at most limit messages and, unless a single message is larger, at most maxBytes bytes. It also returns
// the number after the frame's last.
func pack(st *stream, limit, maxBytes uint64) (*pb.Frame, uint64) {
	var columns Columns
	number := st.next
	size := uint64(frameOverhead)
	for uint64(columns.count) < limit && number <= st.numbers.last {
		m := message(number)
		size += m.size()
		if size > maxBytes && columns.count > 0 {
			break
		}
		columns.Add(&m)
		number = st.numbers.after(number)
	}
	return columns.Frame(st.id), number
}

// requestCredit asks for room for a frame of a stream. The gateway knows whether waiting would help, and remembers what was asked
// until a frame of the stream comes, so that it is asked again only where more is needed.
func (s *session) requestCredit(st *stream, size, count uint64) error {
	if st.asked >= size {
		return nil
	}
	st.asked = size
	return s.send(&pb.IngestRequest{Message: &pb.IngestRequest_CreditRequest{CreditRequest: &pb.CreditRequest{
		Bytes:         size,
		Messages:      count,
		StreamId:      st.id,
		ReadyBytes:    proto.Uint64(size),
		ReadyMessages: proto.Uint64(count),
	}}})
}

// goodbye leaves, and gives the gateway a moment to end the call.
func (s *session) goodbye(reason string) {
	goodbye := &pb.Goodbye{Reason: reason}
	if s.send(&pb.IngestRequest{Message: &pb.IngestRequest_Goodbye{Goodbye: goodbye}}) != nil || s.call.CloseSend() != nil {
		return
	}
	timeout := time.After(goodbyeTimeout)
	for {
		select {
		case r := <-s.received:
			if r.err != nil {
				return
			}
		case <-timeout:
			return
		}
	}
}

// send sends a message. Where the call has ended, it returns why.
func (s *session) send(request *pb.IngestRequest) error {
	err := s.call.Send(request)
	if !errors.Is(err, io.EOF) {
		return err
	}
	for {
		if r := <-s.received; r.err != nil {
			return r.err
		}
	}
}
