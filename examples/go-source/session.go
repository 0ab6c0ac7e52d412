package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "example.com/go-source/internal/protocol/v1"
)

// errDrained ends a session that the gateway wanted to end.
var errDrained = errors.New("the gateway drained the session")

// stream is one partition as a session sees it.
type stream struct {
	name    string
	numbers numbers

	id     uint32    // under which it was asked for; 0 while it is not
	askAt  time.Time // when to ask for it
	open   bool      // StreamOpened has come: frames may be sent
	closed bool      // CloseStream was sent: the partition has ended
	next   uint64    // the next number to send
	acked  uint64    // everything up to it is in the checkpoint

	asked        uint64 // the bytes of the CreditRequest that stands; 0 where none does
	lentBytes    uint64 // credit that only the next frame of this stream may spend
	lentMessages uint64
}

// settled says whether everything that was sent is acknowledged.
func (st *stream) settled() bool {
	return !st.open || st.numbers.after(st.acked) >= st.next
}

// session is one call of Ingest. All but the receiving happens on one goroutine, so nothing here needs a lock.
type session struct {
	call     pb.SourceService_IngestClient
	received <-chan response
	streams  []*stream
	lastID   uint32
	turn     int // index of the stream that may send next, modulo their number

	welcomed       bool   // Welcome has come
	creditBytes    uint64 // what may be sent, in bytes of serialized frames and what each takes besides
	frameOverhead  uint64 // what each frame takes besides its own bytes
	creditMessages uint64 // and in messages; both limits hold
	frameBytes     uint64 // the largest frame to make, in bytes
	frameMessages  uint64 // and in messages
	linger         time.Duration
	pacer          pacer
	reportAt       time.Time // when to say again what is left
	leaveBy        time.Time // when to leave a draining gateway; zero where it does not drain
}

// response is what one Recv returned.
type response struct {
	message *pb.IngestResponse
	err     error
}

// runSession sends everything that is not in the checkpoint yet and waits until it is. It returns nil then, else errDrained,
// what ended the call, or the cause of the end of ctx.
func runSession(ctx context.Context, client pb.SourceServiceClient, config *config) error {
	// Once it stands, the call outlives ctx by a Goodbye; until then, the end of ctx is the end of the attempt.
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stopWatching := context.AfterFunc(ctx, cancel)
	call, err := client.Ingest(callCtx)
	stopWatching()
	if err != nil {
		return err
	}
	received := make(chan response)
	go receive(callCtx, call, received)

	s := &session{call: call, received: received, pacer: newPacer(config.rate)}
	for i := range config.partitions {
		s.streams = append(s.streams, &stream{
			name:    fmt.Sprintf("%s/%d", config.source, i),
			numbers: partition(i, config.partitions, config.count),
		})
	}
	hello := &pb.Hello{
		ProtocolVersion:  1,
		Connector:        "go-source",
		ConnectorVersion: version,
		Instance:         config.instance,
		Capabilities:     []pb.Capability{pb.Capability_CAPABILITY_PACE},
	}
	if err := s.send(&pb.IngestRequest{Message: &pb.IngestRequest_Hello{Hello: hello}}); err != nil {
		return err
	}
	return s.run(ctx)
}

// receive hands over what the gateway says, and at last why the call ended, until ctx says that nobody listens any more. The
// call's own context would not do: it ends before that reason is handed over.
func receive(ctx context.Context, call pb.SourceService_IngestClient, received chan<- response) {
	for {
		message, err := call.Recv()
		select {
		case received <- response{message, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// run does what can be done, waits until something changes, and so on until everything is acknowledged.
func (s *session) run(ctx context.Context) error {
	for !s.finished() {
		wait, err := s.step(time.Now())
		if err != nil {
			return err
		}
		select {
		case r := <-s.received:
			if r.err != nil {
				return r.err
			}
			if err := s.handle(r.message, time.Now()); err != nil {
				return err
			}
		case <-time.After(wait):
		case <-ctx.Done():
			s.goodbye("stopped")
			return context.Cause(ctx)
		}
	}
	s.goodbye("everything is acknowledged")
	return nil
}

// finished says whether every partition has ended and is acknowledged.
func (s *session) finished() bool {
	for _, st := range s.streams {
		if !st.closed || !st.settled() {
			return false
		}
	}
	return true
}

// settled says whether everything that was sent is acknowledged.
func (s *session) settled() bool {
	for _, st := range s.streams {
		if !st.settled() {
			return false
		}
	}
	return true
}

// handle takes in what the gateway says.
func (s *session) handle(message *pb.IngestResponse, now time.Time) error {
	switch m := message.GetMessage().(type) {
	case *pb.IngestResponse_Welcome:
		s.welcomed = true
		s.grant(m.Welcome.GetCredit())
		s.pace(m.Welcome.GetPace())
		s.sizeFrames(m.Welcome)
		slog.Info("session opened", "session", m.Welcome.GetSession(), "gateway", m.Welcome.GetGatewayVersion())
	case *pb.IngestResponse_StreamOpened:
		return s.opened(m.StreamOpened)
	case *pb.IngestResponse_Ack:
		for _, ack := range m.Ack.GetStreams() {
			if st := s.stream(ack.GetStreamId()); st != nil {
				st.acked = ack.GetPosition().GetSequence()
			}
		}
		s.grant(m.Ack.GetCredit())
	case *pb.IngestResponse_Credit:
		if st := s.stream(m.Credit.GetStreamId()); m.Credit.StreamId != nil && st != nil {
			st.lentBytes += m.Credit.GetBytes()
			st.lentMessages += m.Credit.GetMessages()
		} else {
			s.grant(m.Credit)
		}
	case *pb.IngestResponse_Pace:
		s.pace(m.Pace)
	case *pb.IngestResponse_Drain:
		s.leaveBy = now.Add(time.Duration(m.Drain.GetDeadlineMs()) * time.Millisecond)
		slog.Info("gateway drains", "reason", m.Drain.GetReason())
	case *pb.IngestResponse_Reject:
		return s.rejected(m.Reject, now)
	}
	return nil
}

func (s *session) grant(more *pb.Credit) {
	s.creditBytes += more.GetBytes()
	s.creditMessages += more.GetMessages()
}

// returnLoan gives credit that was for a stream alone to the session: its frame goes out, or never will.
func (s *session) returnLoan(st *stream) {
	s.creditBytes += st.lentBytes
	s.creditMessages += st.lentMessages
	st.lentBytes, st.lentMessages = 0, 0
}

func (s *session) pace(pace *pb.Pace) {
	s.linger = time.Duration(pace.GetLingerMs()) * time.Millisecond
}

// sizeFrames makes frames no larger than a quarter of the window, so that some are sent while others are acknowledged.
func (s *session) sizeFrames(welcome *pb.Welcome) {
	s.frameOverhead = uint64(welcome.GetFrameOverheadBytes())
	s.frameBytes = min(frameBytes, welcome.GetMaxFrameBytes(), s.creditBytes/4)
	s.frameMessages = max(1, min(frameMessages, uint64(welcome.GetMaxFrameMessages()), s.creditMessages/4))
}

// opened seeks to where the checkpoints of the stream's pipelines say. Positions that are absent read as sequence 0, which is
// before the first message here.
func (s *session) opened(opened *pb.StreamOpened) error {
	st := s.stream(opened.GetStreamId())
	if st == nil {
		return nil
	}
	st.open = true
	st.acked = opened.GetAcknowledged().GetSequence()
	st.next = st.numbers.after(opened.GetResume().GetSequence())
	slog.Info("stream opened", "stream", st.name, "next", st.next)
	return s.report(st)
}

// rejected gives a stream up until it is time to ask for it again, under a new id.
func (s *session) rejected(reject *pb.Reject, now time.Time) error {
	st := s.stream(reject.GetStreamId())
	if st == nil {
		return nil
	}
	if reject.GetReason() == pb.RejectReason_REJECT_REASON_NOT_PERMITTED {
		return status.Error(codes.PermissionDenied, reject.GetMessage())
	}
	slog.Info("stream rejected", "stream", st.name, "reason", reject.GetReason(), "message", reject.GetMessage())
	wait := time.Duration(reject.GetRetryAfterMs()) * time.Millisecond
	s.returnLoan(st)
	*st = stream{name: st.name, numbers: st.numbers, askAt: now.Add(wait)}
	return nil
}

// stream returns the stream of an id; nil where it was given up while this answer was on its way.
func (s *session) stream(id uint32) *stream {
	for _, st := range s.streams {
		if st.id == id {
			return st
		}
	}
	return nil
}
