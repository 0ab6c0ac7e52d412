package headrace

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// busyShare is the part of the gateway's read timeout after which it learns that the sink is busy.
const busyShare = 0.25

type attachCall = call[pb.SinkServiceAttachRequest, pb.SinkServiceAttachResponse]

// sinkHandler handles the gateway's messages, as the mode of the sink says.
type sinkHandler interface {
	// take takes a message; it waits while the sink is behind. Called on one goroutine.
	take(message *pb.SinkServiceAttachResponse)
	// finish handles and answers what has arrived completely. No more messages are taken.
	finish()
	// close drops the rest, and returns once no method of the sink runs for this session.
	close()
}

// sinkConnector is what a sink's sessions share.
type sinkConnector struct {
	sink    *Sink
	options *Options
	log     *slog.Logger
	end     *closing
	seen    map[string]bool // pipelines of an idempotent sink; only the session in progress uses it
}

func newSinkConnector(sink *Sink, o *Options, log *slog.Logger, end *closing) *sinkConnector {
	return &sinkConnector{sink: sink, options: o, log: log, end: end, seen: map[string]bool{}}
}

// sinkSession is one session of a sink.
type sinkSession struct {
	c       *sinkConnector
	call    *attachCall
	welcome *pb.SinkWelcome
	handler sinkHandler

	// ctx ends with the session; late only if a method is stuck, so that decisions are not interrupted halfway.
	ctx, late context.Context

	workers sync.WaitGroup
	writing sync.Mutex
	taking  atomic.Bool // a message waits for the sink
	leaving atomic.Bool // no more messages are taken
	drained chan time.Duration
	failed  chan error // has the first reason why the call has ended
}

// connect connects a sink to the gateway and runs one session. It returns errStop or errDrained, or what ended it otherwise.
func (c *sinkConnector) connect(ctx context.Context) error {
	hello, err := c.hello(ctx)
	if err != nil {
		return err
	}
	c.options.Health.connected()
	attach := func(connection *grpc.ClientConn) method[pb.SinkServiceAttachRequest, pb.SinkServiceAttachResponse] {
		return pb.NewSinkServiceClient(connection).Attach
	}
	request := &pb.SinkServiceAttachRequest{Message: &pb.SinkServiceAttachRequest_Hello{Hello: hello}}
	call, welcome, err := begin(ctx, c.options, c.log, attach, request, (*pb.SinkServiceAttachResponse).GetWelcome)
	if err != nil {
		return err
	}
	defer call.close()
	session := *c
	session.log = c.log.With("session", welcome.GetSession())
	s := &sinkSession{c: &session, call: call, welcome: welcome, drained: make(chan time.Duration, 1), failed: make(chan error, 1)}
	return s.run(ctx)
}

// run serves the session until it is over; no method of the sink runs for it then, unless one is stuck.
func (s *sinkSession) run(ctx context.Context) error {
	base := context.WithoutCancel(ctx)
	var cancel, giveUp context.CancelFunc
	s.ctx, cancel = context.WithCancel(base)
	defer cancel()
	s.late, giveUp = context.WithCancel(base)
	defer giveUp()
	switch sink := s.c.sink; {
	case sink.TwoPhase != nil:
		s.handler = newTwoPhaseHandler(s, sink.TwoPhase)
	case sink.Idempotent != nil:
		s.handler = newIdempotentHandler(s)
	default:
		s.handler = newAtLeastOnceHandler(s)
	}
	receiving := make(chan struct{})
	s.workers.Go(func() {
		defer close(receiving)
		s.receive()
	})
	s.workers.Go(s.tell)

	var result error
	select {
	case result = <-s.failed:
	case <-ctx.Done():
		result = s.leave(errStop, s.c.options.DrainTimeout, receiving)
	case deadline := <-s.drained:
		result = s.leave(errDrained, deadline, receiving)
	}
	cancel()
	s.call.cancel()
	s.workers.Go(s.handler.close)
	join(ctx, &s.workers, s.c.options.StuckTimeout, s.c.end, "a method of the sink has not returned although it is no longer needed", giveUp)
	return result
}

// leave takes no more messages, answers what has arrived for a while, and says goodbye.
func (s *sinkSession) leave(why error, timeout time.Duration, receiving <-chan struct{}) error {
	s.leaving.Store(true)
	finished := make(chan struct{})
	s.workers.Go(func() {
		defer close(finished)
		s.handler.finish()
	})
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-finished:
	case <-timer.C:
		s.c.log.Info("not finished in time; the next session continues it")
	case err := <-s.failed:
		return err
	}
	s.say(&pb.SinkServiceAttachRequest{Message: &pb.SinkServiceAttachRequest_Goodbye{
		Goodbye: &pb.SinkGoodbye{Reason: why.Error()},
	}})
	s.writing.Lock()
	_ = s.call.stream.CloseSend() // Where it fails, the call has ended.
	s.writing.Unlock()
	timer.Reset(goodbyeTimeout)
	select {
	case <-receiving:
	case <-timer.C:
	}
	return why
}

// receive takes messages until the call ends. Those that arrive while the session is being left are ignored.
func (s *sinkSession) receive() {
	for {
		message, err := s.call.stream.Recv()
		if err != nil {
			s.fail(sessionError(s.call.gateway, err))
			return
		}
		if drain := message.GetDrain(); drain != nil {
			s.c.log.Info("the gateway asks to reconnect", "reason", drain.GetReason())
			deadline := time.Duration(drain.GetDeadlineMs()) * time.Millisecond
			select {
			case s.drained <- time.Duration(float64(deadline) * drainShare):
			default:
			}
			s.leaving.Store(true)
		} else if !s.leaving.Load() {
			s.taking.Store(true)
			s.handler.take(message)
			s.taking.Store(false)
		}
	}
}

// tell tells the gateway that the sink is busy, while a message waits for it, and how the connector is.
func (s *sinkSession) tell() {
	busy := make(<-chan time.Time)
	if timeout := time.Duration(s.welcome.GetReadTimeoutMs()) * time.Millisecond; timeout > 0 {
		ticker := time.NewTicker(max(time.Millisecond, time.Duration(float64(timeout)*busyShare)))
		defer ticker.Stop()
		busy = ticker.C
	}
	s.c.options.Health.again()
	s.report()
	reports := time.NewTicker(reportInterval)
	defer reports.Stop()
	for {
		select {
		case <-busy:
			if s.taking.Load() {
				s.say(&pb.SinkServiceAttachRequest{Message: &pb.SinkServiceAttachRequest_Busy{Busy: &pb.SinkBusy{}}})
			}
		case <-reports.C:
			s.report()
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *sinkSession) report() {
	if report := s.c.options.Health.report(time.Now()); report != nil && !s.leaving.Load() {
		s.say(&pb.SinkServiceAttachRequest{Message: &pb.SinkServiceAttachRequest_Report{Report: report}})
	}
}

// say sends an answer. Where the call has ended, it is not needed.
func (s *sinkSession) say(request *pb.SinkServiceAttachRequest) {
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.call.stream.Send(request) // Receiving says why it failed.
}

// fail ends the session with an error.
func (s *sinkSession) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}
