package headrace

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/headrace/headrace/sdk/go/internal/frame"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// Why a session ends properly. Goodbye says it, too.
var (
	errEnded   = errors.New("everything is acknowledged")
	errStop    = errors.New("stopped")
	errDrained = errors.New("drained")
)

// drainShare is the part of a gateway's deadline after which its session is left.
const drainShare = 0.9

// ingestCall is the call of a source's session.
type ingestCall = call[pb.IngestRequest, pb.IngestResponse]

// sourceSession is one session of a source. One goroutine owns it; others send it events.
type sourceSession struct {
	c       *sourceConnector
	welcome *pb.Welcome
	send    sender
	streams map[uint32]*stream
	current map[string]*stream // by partition
	ended   map[string]bool    // partitions that have ended for ever
	gone    map[string]bool    // ended ones that may come back as new ones, once they are not listed
	paused  map[string]bool    // partitions that are closed for now
	lost    map[string]int     // how often a partition's position was lost in a row
	some    bool               // some partition has ended, other than by being gone
	lastID  uint32

	ctx     context.Context // ends with the session
	deliver context.Context // for acknowledgements, of which the last are delivered after the session
	workers sync.WaitGroup
	events  chan func() // what other goroutines want done on this one
	writes  chan *pb.IngestRequest
	wrote   chan error
	poll    chan struct{}

	mu     sync.Mutex       // guards what follows, up to the blank line
	nudged map[*stream]bool // streams to look at; true has them get their turn
	nudge  chan struct{}
	ackErr error // why the source could not be told of an acknowledgement, perhaps after the session

	leaving error       // why the session is being left; nil if it is not
	leave   *time.Timer // when to leave though something is not acknowledged
	result  error       // why the session is over; nil if it is not
	broken  bool        // the call has ended
}

// connectSource connects a source to the gateway and runs one session. It returns errEnded, errStop or errDrained, or what
// ended it otherwise.
func (c *sourceConnector) connect(ctx context.Context) error {
	hello := &pb.IngestRequest{Message: &pb.IngestRequest_Hello{Hello: &pb.Hello{
		ProtocolVersion:  protocolVersion,
		Connector:        c.name,
		ConnectorVersion: c.version,
		Instance:         c.options.Instance,
		Capabilities: []pb.Capability{
			pb.Capability_CAPABILITY_PACE, pb.Capability_CAPABILITY_HEARTBEAT, pb.Capability_CAPABILITY_FRAMES,
			pb.Capability_CAPABILITY_CURSORS,
		},
		Sdk: sdk(),
	}}}
	ingest := func(connection *grpc.ClientConn) method[pb.IngestRequest, pb.IngestResponse] {
		return pb.NewSourceServiceClient(connection).Ingest
	}
	call, welcome, err := begin(ctx, c.options, c.log, ingest, hello, (*pb.IngestResponse).GetWelcome)
	if err != nil {
		return err
	}
	defer call.close()
	session := *c
	session.log = c.log.With("session", welcome.GetSession())
	return newSourceSession(&session, welcome).run(ctx, call)
}

func newSourceSession(c *sourceConnector, welcome *pb.Welcome) *sourceSession {
	s := &sourceSession{
		c: c, welcome: welcome,
		streams: map[uint32]*stream{}, current: map[string]*stream{}, ended: map[string]bool{}, gone: map[string]bool{},
		paused: map[string]bool{}, lost: map[string]int{},
		events: make(chan func()), writes: make(chan *pb.IngestRequest, 1), wrote: make(chan error, 1),
		poll: make(chan struct{}, 1), nudged: map[*stream]bool{}, nudge: make(chan struct{}, 1),
	}
	s.send = sender{
		credit:      credit{welcome.GetCredit().GetBytes(), welcome.GetCredit().GetMessages()},
		overhead:    uint64(welcome.GetFrameOverheadBytes()),
		maxBytes:    welcome.GetMaxFrameBytes(),
		maxMessages: max(1, int(welcome.GetMaxFrameMessages())),
		linger:      c.options.Linger,
		metrics:     c.options.Metrics,
		outstanding: s.outstanding,
		expire:      func(st *stream) { s.lookAt(st, true) },
		frameSent:   s.frameSent,
		joins:       slices.Contains(welcome.GetCapabilities(), pb.Capability_CAPABILITY_FRAMES),
		moves:       slices.Contains(welcome.GetCapabilities(), pb.Capability_CAPABILITY_CURSORS),
	}
	if welcome.GetPace() != nil {
		s.send.linger = lingerOf(welcome.GetPace())
	}
	return s
}

// maxCursor returns the size of the largest cursor, in bytes.
func (s *sourceSession) maxCursor() int {
	if announced := s.welcome.GetMaxCursorBytes(); announced > 0 {
		return int(announced)
	}
	return frame.UnannouncedCursorBytes
}

// run serves the session until it is over; no goroutine of it is left then, unless one is stuck in the source.
func (s *sourceSession) run(ctx context.Context, call *ingestCall) error {
	base := context.WithoutCancel(ctx)
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(base)
	var giveUp context.CancelFunc
	s.deliver, giveUp = context.WithCancel(base)
	defer giveUp()
	received := make(chan received[pb.IngestResponse])
	s.workers.Go(func() { call.receive(s.ctx, received) })
	s.workers.Go(func() { s.write(call) })
	s.workers.Go(func() { s.listPartitions() })

	s.serve(ctx, received)

	if !s.broken {
		s.goodbye(received)
	}
	for _, st := range s.streams {
		st.mute()
		st.acks.close()
	}
	cancel()
	call.cancel()
	join(ctx, &s.workers, s.c.options.StuckTimeout, s.c.end, "a function of the source has not returned although its context is done", giveUp)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ackErr != nil && errors.Is(s.result, errEnded) {
		return s.ackErr
	}
	return s.result
}

// serve does what is to be done, until the session is over.
func (s *sourceSession) serve(ctx context.Context, received <-chan received[pb.IngestResponse]) {
	reports := time.NewTicker(reportInterval)
	defer reports.Stop()
	s.leave = time.NewTimer(time.Hour)
	s.leave.Stop()
	defer s.leave.Stop()
	if s.c.source.Partitions == nil {
		s.c.options.Health.connected()
	}
	s.c.options.Health.again()
	s.report(time.Now())
	stop, writing := ctx.Done(), false
	for s.result == nil {
		if !writing {
			if request := s.send.joined(time.Now()); request != nil {
				s.writes <- request
				writing = true
			}
			s.lookForEnd()
			if s.result != nil {
				return
			}
		}
		select {
		case r := <-received:
			if r.err != nil {
				s.broken = true
				if s.leaving == nil || s.leaving == errStop || s.leaving == errDrained {
					s.finish(r.err)
				}
				s.finish(s.leaving)
				return
			}
			s.handle(r.message)
		case err := <-s.wrote:
			// Where writing failed, receiving says why.
			writing = err != nil
		case event := <-s.events:
			event()
		case <-s.nudge:
			s.lookAtNudged()
		case <-stop:
			stop = nil
			s.leaveFor(errStop, s.c.options.DrainTimeout, true)
		case <-s.leave.C:
			s.leaveLate()
		case now := <-reports.C:
			s.report(now)
		}
	}
}

// write sends one message after the other, so that the session never waits for the transport.
func (s *sourceSession) write(call *ingestCall) {
	for {
		select {
		case request := <-s.writes:
			err := call.stream.Send(request)
			if request.GetGoodbye() != nil && err == nil {
				err = call.stream.CloseSend()
			}
			select {
			case s.wrote <- err:
			case <-s.ctx.Done():
				return
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// handle takes in what the gateway says.
func (s *sourceSession) handle(response *pb.IngestResponse) {
	switch m := response.GetMessage().(type) {
	case *pb.IngestResponse_StreamOpened:
		s.opened(m.StreamOpened)
	case *pb.IngestResponse_Ack:
		for _, ack := range m.Ack.GetStreams() {
			if st := s.streams[ack.GetStreamId()]; st != nil && st.acknowledge(ack.GetPosition()) {
				s.c.starts.acknowledged(st.partition, ack.GetPosition().GetSequence())
				s.c.options.Metrics.Add(CounterAcknowledgements, st.name, 1)
				s.forgetIfFinished(st)
			}
		}
		s.send.grant(m.Ack.GetCredit())
	case *pb.IngestResponse_Credit:
		if st := s.streams[m.Credit.GetStreamId()]; m.Credit.StreamId != nil && st != nil {
			s.send.grantTo(st, m.Credit)
		} else {
			s.send.grant(m.Credit)
		}
	case *pb.IngestResponse_Pace:
		s.setPace(lingerOf(m.Pace))
	case *pb.IngestResponse_Drain:
		s.c.log.Info("the gateway asks to reconnect", "reason", m.Drain.GetReason())
		deadline := time.Duration(m.Drain.GetDeadlineMs()) * time.Millisecond
		s.leaveFor(errDrained, time.Duration(float64(deadline)*drainShare), false)
	case *pb.IngestResponse_Reject:
		s.rejected(m.Reject)
	case *pb.IngestResponse_StartsWanted:
		s.answerStarts()
	default:
		s.c.log.Debug("a message that this version does not know was ignored")
	}
}

// setPace sets how long to gather. What waits already waits no longer than that.
func (s *sourceSession) setPace(linger time.Duration) {
	shorter := linger < s.send.linger
	s.send.linger = linger
	if !shorter {
		return
	}
	now := time.Now()
	for _, st := range s.streams {
		if st.timer != nil {
			st.timer.Stop()
			st.timer = nil
			s.send.look(st, now)
		}
	}
}

// post has something done on the session's goroutine, unless the session is over.
func (s *sourceSession) post(event func()) {
	select {
	case s.events <- event:
	case <-s.ctx.Done():
	}
}

// lookAt has the session look at a stream, soon. It may be called from any goroutine, and does not wait.
func (s *sourceSession) lookAt(st *stream, expired bool) {
	s.mu.Lock()
	s.nudged[st] = s.nudged[st] || expired
	s.mu.Unlock()
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

func (s *sourceSession) lookAtNudged() {
	s.mu.Lock()
	nudged := s.nudged
	s.nudged = make(map[*stream]bool, len(nudged))
	s.mu.Unlock()
	now := time.Now()
	for st, expired := range nudged {
		if expired {
			st.timer = nil
			if !s.send.quiet {
				s.send.makeDue(st)
			}
		} else {
			s.send.look(st, now)
		}
	}
}

// report tells the gateway how the connector is, if that is news or a heartbeat is due.
func (s *sourceSession) report(now time.Time) {
	if s.leaving != nil {
		return
	}
	if report := s.c.options.Health.report(now); report != nil {
		s.send.say(&pb.IngestRequest{Message: &pb.IngestRequest_Report{Report: report}})
	}
}

// goodbye sends the last message, and gives the gateway a moment to end the call.
func (s *sourceSession) goodbye(received <-chan received[pb.IngestResponse]) {
	timeout := time.NewTimer(goodbyeTimeout)
	defer timeout.Stop()
	goodbye := &pb.IngestRequest{Message: &pb.IngestRequest_Goodbye{
		Goodbye: &pb.Goodbye{Reason: truncated(s.result.Error(), maxReasonBytes)},
	}}
	pending := append(s.send.control, goodbye)
	if s.send.following != nil {
		pending = append([]*pb.IngestRequest{s.send.following}, pending...)
	}
	for {
		var writes chan<- *pb.IngestRequest
		var next *pb.IngestRequest
		if len(pending) > 0 {
			writes, next = s.writes, pending[0]
		}
		select {
		case writes <- next:
			pending = pending[1:]
		case <-s.wrote:
		case r := <-received:
			if r.err != nil {
				return
			}
		case <-timeout.C:
			return
		}
	}
}

func lingerOf(pace *pb.Pace) time.Duration {
	return time.Duration(pace.GetLingerMs()) * time.Millisecond
}
