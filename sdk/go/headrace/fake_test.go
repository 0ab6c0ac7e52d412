package headrace_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/sdk/go/headrace"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// deadline is how long a test waits for anything.
const deadline = 120 * time.Second

const frameOverhead = 512

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	goleak.VerifyTestMain(m)
}

// fakeGateway is a gateway whose answers a test scripts.
type fakeGateway struct {
	pb.UnimplementedSourceServiceServer
	pb.UnimplementedSinkServiceServer
	t       *testing.T
	address string
	sources chan *session[pb.IngestRequest, pb.IngestResponse]
	sinks   chan *session[pb.SinkServiceAttachRequest, pb.SinkServiceAttachResponse]
	welcome *pb.Welcome
}

// session is one call of a connector, from the gateway's side.
type session[Request, Response any] struct {
	t        *testing.T
	metadata metadata.MD
	in       chan *Request
	out      chan *Response
	end      chan error
	over     chan struct{}
}

func startGateway(t *testing.T, options ...grpc.ServerOption) *fakeGateway {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &fakeGateway{
		t: t, address: listener.Addr().String(),
		sources: make(chan *session[pb.IngestRequest, pb.IngestResponse]),
		sinks:   make(chan *session[pb.SinkServiceAttachRequest, pb.SinkServiceAttachResponse]),
		welcome: &pb.Welcome{
			ProtocolVersion: 1, GatewayVersion: "fake", Session: "s1", MaxFrameBytes: 4 << 20, MaxFrameMessages: 65536, MaxStreams: 10,
			Credit: &pb.Credit{Bytes: 64 << 20, Messages: 1_000_000}, Pace: &pb.Pace{}, FrameOverheadBytes: frameOverhead,
		},
	}
	server := grpc.NewServer(options...)
	pb.RegisterSourceServiceServer(server, g)
	pb.RegisterSinkServiceServer(server, g)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // It ends with the test.
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return g
}

func (g *fakeGateway) Ingest(call grpc.BidiStreamingServer[pb.IngestRequest, pb.IngestResponse]) error {
	return serve(g.t, call, g.sources)
}

func (g *fakeGateway) Attach(call grpc.BidiStreamingServer[pb.SinkServiceAttachRequest, pb.SinkServiceAttachResponse]) error {
	return serve(g.t, call, g.sinks)
}

// serve hands a call to the test, until either side ends it.
func serve[Request, Response any](
	t *testing.T, call grpc.BidiStreamingServer[Request, Response], to chan *session[Request, Response],
) error {
	s := &session[Request, Response]{
		t: t, in: make(chan *Request, 10_000), out: make(chan *Response), end: make(chan error), over: make(chan struct{}),
	}
	s.metadata, _ = metadata.FromIncomingContext(call.Context())
	defer close(s.over)
	select {
	case to <- s:
	case <-call.Context().Done():
		return nil
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		for {
			request, err := call.Recv()
			if err != nil {
				return
			}
			s.in <- request
		}
	}()
	for {
		select {
		case response := <-s.out:
			if err := call.Send(response); err != nil {
				return err
			}
		case err := <-s.end:
			return err
		case <-left:
			return nil
		case <-call.Context().Done():
			return nil
		}
	}
}

// next returns the next message of the connector.
func (s *session[Request, Response]) next() *Request {
	s.t.Helper()
	select {
	case request := <-s.in:
		return request
	case <-s.over:
		select {
		case request := <-s.in:
			return request
		default:
			s.t.Fatal("the session is over")
		}
	case <-time.After(deadline):
		s.t.Fatal("the connector sends nothing")
	}
	return nil
}

// send sends a message to the connector.
func (s *session[Request, Response]) send(response *Response) {
	s.t.Helper()
	select {
	case s.out <- response:
	case <-s.over:
		s.t.Fatal("the connector has ended the session")
	case <-time.After(deadline):
		s.t.Fatal("the connector reads nothing")
	}
}

// close ends the session with a status and perhaps a reason.
func (s *session[Request, Response]) close(code codes.Code, reason string) {
	s.t.Helper()
	ended := status.New(code, "as the test says")
	if reason != "" {
		var err error
		ended, err = ended.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "headrace"})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	select {
	case s.end <- ended.Err():
	case <-s.over:
	case <-time.After(deadline):
		s.t.Fatal("the session does not end")
	}
}

type (
	sourceSession = session[pb.IngestRequest, pb.IngestResponse]
	sinkSession   = session[pb.SinkServiceAttachRequest, pb.SinkServiceAttachResponse]
)

// accept takes the next call.
func accept[Request, Response any](t *testing.T, from chan *session[Request, Response]) *session[Request, Response] {
	t.Helper()
	select {
	case s := <-from:
		return s
	case <-time.After(deadline):
		t.Fatal("no connector has connected")
	}
	return nil
}

// connected accepts a source and welcomes it.
func (g *fakeGateway) connected() (*sourceSession, *pb.Hello) {
	g.t.Helper()
	s := accept(g.t, g.sources)
	hello := s.next().GetHello()
	if hello == nil {
		g.t.Fatal("the first message is not Hello")
	}
	s.send(&pb.IngestResponse{Message: &pb.IngestResponse_Welcome{Welcome: proto.CloneOf(g.welcome)}})
	return s, hello
}

// opened lets the next stream begin after a position.
func opened(s *sourceSession, resume *pb.Position) *pb.OpenStream {
	s.t.Helper()
	open := wait(s, (*pb.IngestRequest).GetOpenStream)
	answer(s, &pb.StreamOpened{StreamId: open.GetStreamId(), Resume: resume, Acknowledged: resume})
	return open
}

func answer(s *sourceSession, o *pb.StreamOpened) {
	s.t.Helper()
	s.send(&pb.IngestResponse{Message: &pb.IngestResponse_StreamOpened{StreamOpened: o}})
}

func ack(s *sourceSession, id uint32, position *pb.Position) {
	s.t.Helper()
	s.send(&pb.IngestResponse{Message: &pb.IngestResponse_Ack{Ack: &pb.Ack{
		Streams: []*pb.Ack_Stream{{StreamId: id, Position: position}},
	}}})
}

// wait takes messages until one is of a kind.
func wait[Message any](s *sourceSession, kind func(*pb.IngestRequest) *Message) *Message {
	s.t.Helper()
	for {
		if found := kind(s.next()); found != nil {
			return found
		}
	}
}

// running is a connector that runs.
type running struct {
	t    *testing.T
	stop context.CancelCauseFunc
	done chan error
}

// start runs a connector against the gateway until the test ends.
func (g *fakeGateway) start(c headrace.Connector, options ...func(*headrace.Options)) *running {
	g.t.Helper()
	o := &headrace.Options{Gateway: g.address, DrainTimeout: 50 * time.Millisecond, PartitionInterval: 20 * time.Millisecond,
		FirstBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond}
	if os.Getenv("HEADRACE_TEST_LOGS") != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	for _, set := range options {
		set(o)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	r := &running{g.t, stop, make(chan error, 1)}
	go func() { r.done <- headrace.Run(ctx, c, o) }()
	g.t.Cleanup(func() {
		stop(context.Canceled)
		r.wait()
	})
	return r
}

// wait returns how the connector has ended.
func (r *running) wait() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.done <- err
		return err
	case <-time.After(deadline):
		r.t.Fatal("the connector does not end")
	}
	return nil
}
