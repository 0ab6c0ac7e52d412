package headrace_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/headrace/headrace/sdk/go/headrace"
	"github.com/headrace/headrace/sdk/go/internal/frame"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

type messages = iter.Seq2[headrace.Message, error]

// numbers yields the sequences up to last, each as the message of its own number.
func numbers(last uint64) func(context.Context, *headrace.Partition) messages {
	return func(_ context.Context, p *headrace.Partition) messages {
		return func(yield func(headrace.Message, error) bool) {
			for n := p.Next(1); n <= last; n++ {
				if !yield(headrace.Message{Value: []byte{byte(n)}, Sequence: n}, nil) {
					return
				}
			}
		}
	}
}

// endless yields messages from a channel.
func endless(from <-chan headrace.Message) func(context.Context, *headrace.Partition) messages {
	return func(ctx context.Context, p *headrace.Partition) messages {
		return func(yield func(headrace.Message, error) bool) {
			for {
				select {
				case m := <-from:
					if !yield(m, nil) {
						return
					}
				default:
					p.CaughtUp()
					select {
					case m := <-from:
						if !yield(m, nil) {
							return
						}
					case <-ctx.Done():
						return
					}
				}
			}
		}
	}
}

// patiently gives acknowledgements time while a connector ends.
func patiently(o *headrace.Options) {
	o.DrainTimeout = deadline
}

// sequences takes frames until one has a sequence, and returns all of them.
func sequences(s *sourceSession, last uint64) []uint64 {
	s.t.Helper()
	var found []uint64
	for !slices.Contains(found, last) {
		found = slices.AppendSeq(found, frame.Sequences(wait(s, (*pb.IngestRequest).GetFrame)))
	}
	return found
}

func upTo(first, last uint64) []uint64 {
	var all []uint64
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

func TestASourceEndsOnceEverythingIsAcknowledged(t *testing.T) {
	g := startGateway(t)
	r := g.start(&headrace.Source{Name: "orders", Version: "7", Read: numbers(5)}, func(o *headrace.Options) {
		o.Instance, o.Token = "here", "secret"
	})
	s, hello := g.connected()
	if hello.GetConnector() != "orders" || hello.GetConnectorVersion() != "7" || hello.GetInstance() != "here" ||
		hello.GetProtocolVersion() != 1 || hello.GetSdk().GetName() != "headrace-go" || hello.GetSdk().GetLanguage() != "go" {
		t.Errorf("Hello is %v", hello)
	}
	if got := s.metadata.Get("authorization"); !slices.Equal(got, []string{"Bearer secret"}) {
		t.Errorf("authorization is %q", got)
	}
	open := opened(s, nil)
	if open.GetStream() != "orders/0" || open.GetKind() != pb.SourceKind_SOURCE_KIND_REPLAYABLE || open.GetChoosesStart() {
		t.Errorf("OpenStream is %v", open)
	}
	if got := sequences(s, 5); !slices.Equal(got, upTo(1, 5)) {
		t.Errorf("sent %v", got)
	}
	end := wait(s, (*pb.IngestRequest).GetCloseStream)
	if !end.GetEndOfStream() || end.GetGone() {
		t.Errorf("CloseStream is %v", end)
	}
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 4})
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 5})
	if reason := wait(s, (*pb.IngestRequest).GetGoodbye).GetReason(); reason != "everything is acknowledged" {
		t.Errorf("Goodbye says %q", reason)
	}
	if err := r.wait(); err != nil {
		t.Error(err)
	}
}

func TestAMessageKeepsEveryField(t *testing.T) {
	g := startGateway(t)
	when := time.UnixMicro(1_700_000_000_000_001)
	feed := make(chan headrace.Message, 3)
	feed <- headrace.Message{Sequence: 41, Value: []byte("hello"), Key: []byte("a")}
	feed <- headrace.Message{Sequence: 42, Value: []byte{}, EventTime: when, ID: "id", Headers: []headrace.Header{
		{Name: "x", Value: []byte("1")}, {Name: "x"},
	}}
	feed <- headrace.Message{Sequence: 45, Key: []byte{}, Cursor: []byte("45")}
	g.welcome.Pace.LingerMs = 50
	g.start(&headrace.Source{Name: "orders", Read: endless(feed)})
	s, _ := g.connected()
	opened(s, nil)
	f := wait(s, (*pb.IngestRequest).GetFrame)
	if err := frame.Check(f); err != nil {
		t.Fatal(err)
	}
	if string(f.GetCursor()) != "45" {
		t.Errorf("cursor is %q", f.GetCursor())
	}
	var rows []frame.Row
	var headers [][]frame.Header
	for row, h := range frame.Rows(f) {
		rows, headers = append(rows, row), append(headers, slices.Clone(h))
	}
	if len(rows) != 3 {
		t.Fatalf("%d messages", len(rows))
	}
	for i, want := range []frame.Row{
		{Sequence: 41, Key: []byte("a"), Value: []byte("hello"), Time: frame.NullTime},
		{Sequence: 42, Value: []byte{}, Time: when.UnixMicro(), ID: "id", HasID: true},
		{Sequence: 45, Key: []byte{}, Time: frame.NullTime},
	} {
		got := rows[i]
		if got.Sequence != want.Sequence || got.Time != want.Time || got.ID != want.ID ||
			string(got.Key) != string(want.Key) || (got.Key == nil) != (want.Key == nil) ||
			string(got.Value) != string(want.Value) || (got.Value == nil) != (want.Value == nil) {
			t.Errorf("message %d is %+v, want %+v", i, got, want)
		}
	}
	if len(headers[0]) != 0 || len(headers[1]) != 2 || string(headers[1][0].Value) != "1" || headers[1][1].Value != nil {
		t.Errorf("headers are %v", headers)
	}
}

func TestALostSessionIsResumedWhereTheGatewaySays(t *testing.T) {
	g := startGateway(t)
	positions := make(chan *headrace.Position, 2)
	read := numbers(10)
	g.start(&headrace.Source{Name: "orders", Read: func(ctx context.Context, p *headrace.Partition) messages {
		positions <- p.Position
		return read(ctx, p)
	}})
	s, _ := g.connected()
	opened(s, nil)
	sequences(s, 10)
	s.close(codes.Unavailable, "")

	s, _ = g.connected()
	opened(s, &pb.Position{Sequence: 6, Cursor: []byte("c")})
	if got := sequences(s, 10); !slices.Equal(got, upTo(7, 10)) {
		t.Errorf("sent %v", got)
	}
	if first := <-positions; first != nil {
		t.Errorf("the first position is %v", first)
	}
	if second := <-positions; second == nil || second.Sequence != 6 || string(second.Cursor) != "c" {
		t.Errorf("the second position is %v", second)
	}
}

func TestWhatIsYieldedAgainBeforeThePositionIsNotSent(t *testing.T) {
	g, log := startGateway(t), &lines{}
	g.start(&headrace.Source{Name: "orders", Read: func(ctx context.Context, _ *headrace.Partition) messages {
		return numbers(10)(ctx, &headrace.Partition{})
	}}, logging(log))
	s, _ := g.connected()
	opened(s, &pb.Position{Sequence: 6})
	if got := sequences(s, 10); !slices.Equal(got, upTo(7, 10)) {
		t.Errorf("sent %v", got)
	}
	ignores := "the source ignores its position: Read yields what was received before; begin after p.Position.Sequence"
	for _, line := range []map[string]any{
		{"msg": ignores, "stream": "orders/0"}, {"msg": "messages read again", "stream": "orders/0", "messages": 6.0},
	} {
		if !log.have(t, line) {
			t.Errorf("%v is not in the log, which is %s", line, log.text)
		}
	}
}

func TestHowASessionEndsDecidesWhatFollows(t *testing.T) {
	for _, test := range []struct {
		code      codes.Code
		reason    string
		reconnect bool
		is        error
	}{
		{codes.Unavailable, "", true, nil},
		{codes.DeadlineExceeded, "", true, nil},
		{codes.Internal, "", true, nil},
		{codes.OK, "", true, nil},
		{codes.Unavailable, "GATEWAY_STOPPING", true, nil},
		{codes.ResourceExhausted, "TOO_MANY_SESSIONS", true, nil},
		{codes.Unavailable, "LATER_REASON", true, nil},
		{codes.Unavailable, "TOO_MANY_NAMES", false, nil},
		{codes.InvalidArgument, "MALFORMED_MESSAGE", false, nil},
		{codes.Aborted, "", false, headrace.ErrTakenOver},
		{codes.Aborted, "TAKEN_OVER", false, headrace.ErrTakenOver},
		{codes.Unauthenticated, "UNAUTHENTICATED", false, headrace.ErrNotPermitted},
		{codes.PermissionDenied, "", false, headrace.ErrNotPermitted},
		{codes.ResourceExhausted, "", false, nil},
	} {
		t.Run(test.code.String()+" "+test.reason, func(t *testing.T) {
			g := startGateway(t)
			r := g.start(&headrace.Source{Name: "orders", Read: numbers(1)})
			s, _ := g.connected()
			s.close(test.code, test.reason)
			if test.reconnect {
				g.connected()
				return
			}
			err := r.wait()
			var ended *headrace.SessionError
			if !errors.As(err, &ended) || ended.Code != test.code || ended.Reason != test.reason {
				t.Errorf("it has ended with %v", err)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%v is not %v", err, test.is)
			}
		})
	}
}

func TestCreditIsNeverOverrunAndFramesStayWhole(t *testing.T) {
	g := startGateway(t)
	g.welcome.Credit = &pb.Credit{Bytes: 1 << 20, Messages: 40}
	g.welcome.Pace.LingerMs = 3_600_000
	g.start(&headrace.Source{Name: "orders", Read: numbers(100)})
	s, _ := g.connected()
	open := opened(s, nil)
	left, last := int64(40), uint64(0)
	for last < 100 {
		request := s.next()
		if f := request.GetFrame(); f != nil {
			if f.GetCount() != 10 {
				t.Errorf("a frame of %d messages", f.GetCount())
			}
			left -= int64(f.GetCount())
			last = frame.LastSequence(f)
		}
		if left < 0 {
			t.Fatal("credit overrun")
		}
		if left == 0 {
			left = 40
			s.send(&pb.IngestResponse{Message: &pb.IngestResponse_Ack{Ack: &pb.Ack{
				Streams: []*pb.Ack_Stream{{StreamId: open.GetStreamId(), Position: &pb.Position{Sequence: last}}},
				Credit:  &pb.Credit{Bytes: 4 * 1024, Messages: 40},
			}}})
		}
	}
}

func TestTheFirstCursorEndsItsFrameSoThatEachLaterPositionHasOne(t *testing.T) {
	g := startGateway(t)
	g.welcome.Pace.LingerMs = 3_600_000
	g.start(&headrace.Source{Name: "orders", Read: func(_ context.Context, p *headrace.Partition) messages {
		return func(yield func(headrace.Message, error) bool) {
			for n := p.Next(1); n <= 6; n++ {
				m := headrace.Message{Sequence: n}
				if n%2 == 0 {
					m.Cursor = []byte{byte(n)}
				}
				if !yield(m, nil) {
					return
				}
			}
		}
	}})
	ends := func(s *sourceSession) (found []uint64) {
		for len(found) == 0 || found[len(found)-1] < 6 {
			found = append(found, frame.LastSequence(wait(s, (*pb.IngestRequest).GetFrame)))
		}
		return found
	}
	s, _ := g.connected()
	opened(s, nil)
	if got := ends(s); !slices.Equal(got, []uint64{2, 6}) {
		t.Errorf("frames end with %v", got)
	}
	s.close(codes.Unavailable, "")
	s, _ = g.connected()
	opened(s, &pb.Position{Sequence: 2, Cursor: []byte{2}})
	if got := ends(s); !slices.Equal(got, []uint64{6}) {
		t.Errorf("frames end with %v", got)
	}
}

func TestAShorterPaceEndsTheWaitOfWhatWasGathered(t *testing.T) {
	g := startGateway(t)
	g.welcome.Pace.LingerMs = 3_600_000
	yielded := make(chan struct{})
	g.start(&headrace.Source{Name: "orders", Read: func(ctx context.Context, _ *headrace.Partition) messages {
		return func(yield func(headrace.Message, error) bool) {
			if yield(headrace.Message{Sequence: 1}, nil) {
				close(yielded)
				<-ctx.Done()
			}
		}
	}})
	s, _ := g.connected()
	opened(s, nil)
	<-yielded
	s.send(&pb.IngestResponse{Message: &pb.IngestResponse_Pace{Pace: &pb.Pace{LingerMs: 1}}})
	sequences(s, 1)
}

func TestEveryStreamThatWaitsForCreditAsksAndCreditForOneGoesToIt(t *testing.T) {
	g := startGateway(t)
	g.welcome.Credit = &pb.Credit{Bytes: 1 << 20, Messages: 8}
	g.welcome.Pace.LingerMs = 3_600_000 // Only whole frames are ready, however slowly messages are yielded.
	g.start(&headrace.Source{Name: "orders", Read: numbers(100), Partitions: func(context.Context) ([]string, error) {
		return []string{"a", "b"}, nil
	}})
	s, _ := g.connected()
	first, second := opened(s, nil), opened(s, nil)
	asked := map[uint32]*pb.CreditRequest{}
	for len(asked) < 2 {
		request := wait(s, (*pb.IngestRequest).GetCreditRequest)
		asked[request.GetStreamId()] = request
	}
	request := asked[second.GetStreamId()]
	if request.GetMessages() != 1 || request.GetReadyMessages() != 2 || request.GetBytes() >= request.GetReadyBytes() {
		t.Errorf("asked for %v", request)
	}
	for range 2 {
		s.send(&pb.IngestResponse{Message: &pb.IngestResponse_Credit{Credit: &pb.Credit{
			Bytes: request.GetReadyBytes() + frameOverhead, Messages: request.GetReadyMessages(), StreamId: &second.StreamId,
		}}})
		if f := wait(s, (*pb.IngestRequest).GetFrame); f.GetStreamId() != second.GetStreamId() {
			t.Errorf("stream %d spends the credit of stream %d", f.GetStreamId(), second.GetStreamId())
		}
	}
	_ = first
}

func TestACursorMovesWithoutAMessageAndIsAcknowledgedAtTheSameSequence(t *testing.T) {
	g := startGateway(t)
	g.welcome.Capabilities = []pb.Capability{pb.Capability_CAPABILITY_CURSORS}
	g.welcome.MaxCursorBytes = 100
	acknowledged, refused := make(chan headrace.Position, 10), make(chan error, 1)
	g.start(&headrace.Source{
		Name: "orders",
		Read: func(ctx context.Context, p *headrace.Partition) messages {
			return func(func(headrace.Message, error) bool) {
				refused <- p.MoveCursor(make([]byte, 101))
				if err := p.MoveCursor([]byte("idle")); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
			}
		},
		Acknowledged: func(_ context.Context, _ string, position headrace.Position) error {
			acknowledged <- position
			return nil
		},
	})
	s, _ := g.connected()
	stream := opened(s, &pb.Position{Sequence: 41})
	f := wait(s, (*pb.IngestRequest).GetFrame)
	if f.GetCount() != 0 || f.GetFirstSequence() != 41 || string(f.GetCursor()) != "idle" {
		t.Errorf("%v", f)
	}
	want := "stream orders/0: message 42: Cursor: it has 101 bytes, the gateway allows 100"
	if err := <-refused; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if position := <-acknowledged; position.Sequence != 41 {
		t.Errorf("%v", position)
	}
	ack(s, stream.GetStreamId(), &pb.Position{Sequence: 41, Cursor: []byte("idle"), Moves: 1})
	if position := <-acknowledged; position.Sequence != 41 || string(position.Cursor) != "idle" {
		t.Errorf("%v", position)
	}
}

func TestSmallFramesThatWaitForCreditShareAMessageIfTheGatewayTakesThem(t *testing.T) {
	for _, takes := range []bool{true, false} {
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			g := startGateway(t)
			if takes {
				g.welcome.Capabilities = []pb.Capability{pb.Capability_CAPABILITY_FRAMES}
			}
			g.welcome.Credit = &pb.Credit{}
			g.start(&headrace.Source{Name: "orders", Read: numbers(3), Partitions: func(context.Context) ([]string, error) {
				return []string{"a", "b", "c"}, nil
			}})
			s, _ := g.connected()
			for range 3 {
				opened(s, nil)
			}
			for range 3 {
				wait(s, (*pb.IngestRequest).GetCreditRequest)
			}
			s.send(&pb.IngestResponse{Message: &pb.IngestResponse_Credit{Credit: &pb.Credit{Bytes: 1 << 20, Messages: 100}}})
			shared, sequences := 0, map[uint32][]uint64{}
			take := func(f *pb.Frame) {
				sequences[f.GetStreamId()] = slices.AppendSeq(sequences[f.GetStreamId()], frame.Sequences(f))
			}
			for closed := 0; closed < 3; {
				request := s.next()
				switch {
				case request.GetFrames() != nil:
					shared++
					for _, f := range request.GetFrames().GetFrames() {
						take(f)
					}
				case request.GetFrame() != nil:
					take(request.GetFrame())
				case request.GetCloseStream() != nil:
					closed++
				}
			}
			if shared > 0 != takes || len(sequences) != 3 {
				t.Errorf("%d messages of several frames, %d streams", shared, len(sequences))
			}
			for id, got := range sequences {
				if !slices.Equal(got, []uint64{1, 2, 3}) {
					t.Errorf("stream %d: %v", id, got)
				}
			}
		})
	}
}

func TestASourceWaitsWhileThereIsNoCredit(t *testing.T) {
	g := startGateway(t)
	g.welcome.Credit = &pb.Credit{Bytes: 1 << 20, Messages: 4}
	var yielded atomic.Uint64
	read := numbers(1_000_000)
	g.start(&headrace.Source{Name: "orders", Read: func(ctx context.Context, p *headrace.Partition) messages {
		return func(yield func(headrace.Message, error) bool) {
			for m, err := range read(ctx, p) {
				yielded.Add(1)
				if !yield(m, err) {
					return
				}
			}
		}
	}})
	s, _ := g.connected()
	opened(s, nil)
	sequences(s, 4)
	wait(s, (*pb.IngestRequest).GetCreditRequest)
	if got := yielded.Load(); got > 20 {
		t.Errorf("%d messages were read ahead", got)
	}
}

func TestARejectedStreamIsOpenedAgainUnderANewId(t *testing.T) {
	for _, reason := range []pb.RejectReason{pb.RejectReason_REJECT_REASON_REOPEN, pb.RejectReason_REJECT_REASON_OWNED} {
		t.Run(reason.String(), func(t *testing.T) {
			g := startGateway(t)
			g.start(&headrace.Source{Name: "orders", Read: numbers(5)})
			s, _ := g.connected()
			open := opened(s, nil)
			sequences(s, 5)
			s.send(&pb.IngestResponse{Message: &pb.IngestResponse_Reject{Reject: &pb.Reject{
				StreamId: open.GetStreamId(), Reason: reason, RetryAfterMs: 1,
			}}})
			again := opened(s, &pb.Position{Sequence: 3})
			if again.GetStreamId() == open.GetStreamId() || again.GetStream() != open.GetStream() {
				t.Errorf("opened %v after %v", again, open)
			}
			if got := sequences(s, 5); !slices.Equal(got, upTo(4, 5)) {
				t.Errorf("sent %v", got)
			}
		})
	}
}

func TestAStreamThatIsNotPermittedEndsTheConnector(t *testing.T) {
	g := startGateway(t)
	r := g.start(&headrace.Source{Name: "orders", Read: numbers(5)}, patiently)
	s, _ := g.connected()
	open := wait(s, (*pb.IngestRequest).GetOpenStream)
	s.send(&pb.IngestResponse{Message: &pb.IngestResponse_Reject{Reject: &pb.Reject{
		StreamId: open.GetStreamId(), Reason: pb.RejectReason_REJECT_REASON_NOT_PERMITTED, Message: "not with this token",
	}}})
	wait(s, (*pb.IngestRequest).GetGoodbye)
	err := r.wait()
	if !errors.Is(err, headrace.ErrNotPermitted) || !strings.Contains(err.Error(), "orders/0") {
		t.Errorf("it has ended with %v", err)
	}
}

func TestADrainingGatewayIsLeftAndFoundAgain(t *testing.T) {
	g := startGateway(t)
	feed := make(chan headrace.Message, 2)
	feed <- headrace.Message{Sequence: 1, Value: []byte("a")}
	g.start(&headrace.Source{Name: "orders", Read: endless(feed)})
	s, _ := g.connected()
	open := opened(s, nil)
	sequences(s, 1)
	s.send(&pb.IngestResponse{Message: &pb.IngestResponse_Drain{Drain: &pb.Drain{DeadlineMs: 60_000}}})
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 1})
	if reason := wait(s, (*pb.IngestRequest).GetGoodbye).GetReason(); reason != "drained" {
		t.Errorf("Goodbye says %q", reason)
	}
	g.connected()
}

func TestASourceThatIsStoppedSendsWhatItHasReadAndWaitsForIt(t *testing.T) {
	g := startGateway(t)
	g.welcome.Pace.LingerMs = 3_600_000
	feed := make(chan headrace.Message, 1)
	feed <- headrace.Message{Sequence: 1, Value: []byte("a")}
	waiting := make(chan struct{})
	r := g.start(&headrace.Source{Name: "orders", Read: func(ctx context.Context, _ *headrace.Partition) messages {
		return func(yield func(headrace.Message, error) bool) {
			if yield(<-feed, nil) {
				close(waiting)
				<-ctx.Done()
			}
		}
	}}, patiently)
	s, _ := g.connected()
	open := opened(s, nil)
	<-waiting
	cause := errors.New("enough")
	r.stop(cause)
	sequences(s, 1)
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 1})
	if reason := wait(s, (*pb.IngestRequest).GetGoodbye).GetReason(); reason != "stopped" {
		t.Errorf("Goodbye says %q", reason)
	}
	if err := r.wait(); !errors.Is(err, cause) {
		t.Errorf("it has ended with %v", err)
	}
}

func TestPausedAndGonePartitions(t *testing.T) {
	for _, test := range []struct {
		last      error
		end, gone bool
	}{{headrace.ErrPaused, false, false}, {headrace.ErrGone, true, true}} {
		t.Run(test.last.Error(), func(t *testing.T) {
			g := startGateway(t)
			var listed atomic.Bool
			listed.Store(true)
			g.start(&headrace.Source{
				Name: "orders",
				Partitions: func(context.Context) ([]string, error) {
					if listed.Load() {
						return []string{"a"}, nil
					}
					return nil, nil
				},
				Read: func(_ context.Context, p *headrace.Partition) messages {
					return func(yield func(headrace.Message, error) bool) {
						if yield(headrace.Message{Sequence: p.Next(1)}, nil) {
							yield(headrace.Message{}, test.last)
						}
					}
				},
			})
			s, _ := g.connected()
			open := opened(s, nil)
			end := wait(s, (*pb.IngestRequest).GetCloseStream)
			if end.GetEndOfStream() != test.end || end.GetGone() != test.gone {
				t.Errorf("CloseStream is %v", end)
			}
			listed.Store(!test.gone)
			ack(s, open.GetStreamId(), &pb.Position{Sequence: 1})
			if !test.gone { // It is opened again.
				opened(s, &pb.Position{Sequence: 1})
				sequences(s, 2)
			}
		})
	}
}

func TestALostPositionIsReportedAndSkippedOnceThatIsAccepted(t *testing.T) {
	g := startGateway(t)
	earliest := uint64(50)
	g.start(&headrace.Source{Name: "orders", Read: func(_ context.Context, p *headrace.Partition) messages {
		return func(yield func(headrace.Message, error) bool) {
			if p.Position != nil {
				yield(headrace.Message{}, &headrace.PositionLostError{Reason: "pruned", Earliest: &earliest})
				return
			}
			if p.Next(1) != 8 || p.Next(50) != 50 {
				t.Errorf("after the loss of 7, it continues with %d, or with %d", p.Next(1), p.Next(50))
			}
			yield(headrace.Message{Sequence: p.Next(50)}, nil)
		}
	}})
	s, _ := g.connected()
	open := opened(s, &pb.Position{Sequence: 7})
	lost := wait(s, (*pb.IngestRequest).GetPositionLost)
	if lost.GetStreamId() != open.GetStreamId() || lost.GetEarliestSequence() != 50 || lost.GetReason() != "pruned" {
		t.Errorf("PositionLost is %v", lost)
	}
	again := wait(s, (*pb.IngestRequest).GetOpenStream)
	answer(s, &pb.StreamOpened{StreamId: again.GetStreamId(), Resume: &pb.Position{Sequence: 7}, SkipLost: true})
	sequences(s, 50)
}

func TestARedeliveringSourceSettlesByToken(t *testing.T) {
	g := startGateway(t)
	settled := make(chan []any, 10)
	feed := make(chan headrace.Message, 4)
	for _, token := range []string{"a", "b", "c"} {
		feed <- headrace.Message{Value: []byte(token), Token: token, Cursor: []byte("this queue")}
	}
	read, positions := endless(feed), make(chan *headrace.Position, 2)
	g.start(&headrace.Source{
		Name: "jobs", Redelivering: true,
		Read: func(ctx context.Context, p *headrace.Partition) iter.Seq2[headrace.Message, error] {
			positions <- p.Position
			return read(ctx, p)
		},
		Settle: func(_ context.Context, partition string, tokens []any) error {
			if partition != "0" {
				t.Errorf("partition is %q", partition)
			}
			settled <- tokens
			return nil
		},
	})
	s, _ := g.connected()
	open := wait(s, (*pb.IngestRequest).GetOpenStream)
	if open.GetKind() != pb.SourceKind_SOURCE_KIND_REDELIVERING {
		t.Errorf("kind is %v", open.GetKind())
	}
	answer(s, &pb.StreamOpened{StreamId: open.GetStreamId(), Epoch: 9})
	if got := sequences(s, 3); !slices.Equal(got, upTo(1, 3)) {
		t.Errorf("sent %v", got)
	}
	ack(s, open.GetStreamId(), &pb.Position{Epoch: 8, Sequence: 3}) // of a session that was lost
	ack(s, open.GetStreamId(), &pb.Position{Epoch: 9, Sequence: 2})
	if tokens := <-settled; !slices.Equal(tokens, []any{"a", "b"}) {
		t.Errorf("settled %v", tokens)
	}
	s.close(codes.Unavailable, "")

	s, _ = g.connected()
	open = wait(s, (*pb.IngestRequest).GetOpenStream)
	earlier := &pb.Position{Epoch: 9, Sequence: 2, Cursor: []byte("this queue")}
	answer(s, &pb.StreamOpened{StreamId: open.GetStreamId(), Epoch: 10, Earlier: earlier})
	if first, second := <-positions, <-positions; first != nil || second.Epoch != 9 || string(second.Cursor) != "this queue" {
		t.Errorf("read after %v, then after %v", first, second)
	}
	feed <- headrace.Message{Value: []byte("c"), Token: "c again"}
	if got := sequences(s, 1); !slices.Equal(got, upTo(1, 1)) {
		t.Errorf("sent %v", got)
	}
	ack(s, open.GetStreamId(), &pb.Position{Epoch: 10, Sequence: 1})
	if tokens := <-settled; !slices.Equal(tokens, []any{"c again"}) {
		t.Errorf("settled %v", tokens)
	}
}

func TestAcknowledgementsArrive(t *testing.T) {
	g := startGateway(t)
	told := make(chan headrace.Position, 10)
	g.start(&headrace.Source{
		Name: "orders", Read: endless(nil),
		Acknowledged: func(_ context.Context, _ string, position headrace.Position) error {
			told <- position
			if position.Sequence == 9 {
				return errors.New("disk full")
			}
			return nil
		},
	})
	s, _ := g.connected()
	open := opened(s, &pb.Position{Sequence: 6})
	if first := <-told; first.Sequence != 6 {
		t.Errorf("told %v first", first)
	}
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 6})
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 8, Cursor: []byte("c")})
	if next := <-told; next.Sequence != 8 || string(next.Cursor) != "c" {
		t.Errorf("told %v then", next)
	}
}

func TestTheLastAcknowledgementMayFail(t *testing.T) {
	g := startGateway(t)
	full := errors.New("disk full")
	r := g.start(&headrace.Source{
		Name: "orders", Read: numbers(1),
		Acknowledged: func(context.Context, string, headrace.Position) error { return full },
	}, patiently)
	s, _ := g.connected()
	open := opened(s, nil)
	wait(s, (*pb.IngestRequest).GetCloseStream)
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 1})
	var failed *headrace.SourceError
	if err := r.wait(); !errors.Is(err, full) || !errors.As(err, &failed) || failed.Function != "Acknowledged" {
		t.Errorf("it has ended with %v", err)
	}
}

func TestAFailureOfTheSourceEndsTheConnectorAfterWhatItYielded(t *testing.T) {
	g := startGateway(t)
	broken := errors.New("broken")
	r := g.start(&headrace.Source{Name: "orders", Read: func(context.Context, *headrace.Partition) messages {
		return func(yield func(headrace.Message, error) bool) {
			if yield(headrace.Message{Sequence: 1}, nil) {
				yield(headrace.Message{}, broken)
			}
		}
	}}, patiently)
	s, _ := g.connected()
	open := opened(s, nil)
	sequences(s, 1)
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 1})
	wait(s, (*pb.IngestRequest).GetGoodbye)
	err := r.wait()
	var failed *headrace.SourceError
	if !errors.Is(err, broken) || !errors.As(err, &failed) || failed.Stream != "orders/0" || failed.Function != "Read" {
		t.Errorf("it has ended with %v", err)
	}
}

func TestSequencesThatDoNotIncreaseEndTheConnector(t *testing.T) {
	g := startGateway(t)
	r := g.start(&headrace.Source{Name: "orders", Read: func(context.Context, *headrace.Partition) messages {
		return func(yield func(headrace.Message, error) bool) {
			for range 2 {
				if !yield(headrace.Message{Sequence: 5}, nil) {
					return
				}
			}
		}
	}}, patiently)
	s, _ := g.connected()
	open := opened(s, nil)
	sequences(s, 5)
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 5})
	wait(s, (*pb.IngestRequest).GetGoodbye)
	var wrong *headrace.MessageError
	if err := r.wait(); !errors.As(err, &wrong) || wrong.Field != "Sequence" || wrong.Sequence != 5 || wrong.Stream != "orders/0" {
		t.Errorf("it has ended with %v", err)
	}
}

func TestMessagesThatCannotBeSentAreLeftOutIfTheSourceSaysSo(t *testing.T) {
	g := startGateway(t)
	g.welcome.MaxFrameBytes = 1000
	var mu sync.Mutex
	var refused []*headrace.MessageError
	bad := []headrace.Message{
		{Value: make([]byte, 1000)},
		{ID: "\xff"},
		{Headers: []headrace.Header{{Name: "\xff"}}},
		{EventTime: time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{EventTime: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{EventTime: time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC)},
		{Cursor: make([]byte, 4097)},
	}
	g.start(&headrace.Source{
		Name: "orders", Counted: true,
		Read: func(context.Context, *headrace.Partition) messages {
			return func(yield func(headrace.Message, error) bool) {
				for _, m := range bad {
					if !yield(m, nil) || !yield(headrace.Message{Value: []byte("fine")}, nil) {
						return
					}
				}
			}
		},
		Unsendable: func(_ context.Context, _ string, _ headrace.Message, err *headrace.MessageError) error {
			mu.Lock()
			defer mu.Unlock()
			refused = append(refused, err)
			return nil
		},
	})
	s, _ := g.connected()
	opened(s, nil)
	if got := sequences(s, 14); !slices.Equal(got, []uint64{2, 4, 6, 8, 10, 12, 14}) {
		t.Errorf("sent %v", got)
	}
	mu.Lock()
	defer mu.Unlock()
	var fields []string
	for _, err := range refused {
		fields = append(fields, err.Field)
	}
	if !slices.Equal(fields, []string{"", "ID", "Headers", "EventTime", "EventTime", "EventTime", "Cursor"}) || !errors.Is(refused[0], headrace.ErrTooLarge) {
		t.Errorf("refused %v", refused)
	}
}

func TestTheLargestMessageThatFitsIsSent(t *testing.T) {
	g := startGateway(t)
	g.welcome.MaxFrameBytes = 1000
	columns := frame.New(1, 0)
	columns.Add(&frame.Row{Sequence: 1, Value: make([]byte, 900), Time: frame.NullTime})
	largest := 900 + 1000 - int(columns.NextSize())
	r := g.start(&headrace.Source{Name: "orders", Counted: true, Read: func(context.Context, *headrace.Partition) messages {
		return func(yield func(headrace.Message, error) bool) {
			_ = yield(headrace.Message{Value: make([]byte, largest)}, nil) && yield(headrace.Message{Value: make([]byte, largest+1)}, nil)
		}
	}}, patiently)
	s, _ := g.connected()
	open := opened(s, nil)
	if f := wait(s, (*pb.IngestRequest).GetFrame); len(f.GetValues()) != largest {
		t.Errorf("a value of %d bytes", len(f.GetValues()))
	}
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 1})
	wait(s, (*pb.IngestRequest).GetGoodbye)
	if err := r.wait(); !errors.Is(err, headrace.ErrTooLarge) {
		t.Errorf("it has ended with %v", err)
	}
}

func TestStartsAreTheSameUntilACheckpointHasThem(t *testing.T) {
	g := startGateway(t)
	var asked atomic.Int64
	g.start(&headrace.Source{
		Name: "orders", Read: endless(nil),
		Starts: func(context.Context, []string) (map[string]headrace.Position, error) {
			return map[string]headrace.Position{"0": {Sequence: 100 + uint64(asked.Add(1))}}, nil
		},
	})
	wanted := func(s *sourceSession) uint64 {
		open := wait(s, (*pb.IngestRequest).GetOpenStream)
		if !open.GetChoosesStart() {
			t.Error("chooses_start is not set")
		}
		s.send(&pb.IngestResponse{Message: &pb.IngestResponse_StartsWanted{StartsWanted: &pb.StartsWanted{StreamId: open.GetStreamId()}}})
		starts := wait(s, (*pb.IngestRequest).GetStarts)
		if len(starts.GetStreams()) != 1 || starts.GetStreams()[0].GetStreamId() != open.GetStreamId() {
			t.Errorf("starts are %v", starts)
		}
		return starts.GetStreams()[0].GetPosition().GetSequence()
	}
	s, _ := g.connected()
	first := wanted(s)
	s.close(codes.Unavailable, "")
	s, _ = g.connected()
	if second := wanted(s); second != first {
		t.Errorf("it starts after %d, and said %d before", second, first)
	}
}

func TestWhatIsLeftIsTold(t *testing.T) {
	g := startGateway(t)
	feed := make(chan headrace.Message)
	tell := make(chan *headrace.Partition)
	read := endless(feed)
	g.start(&headrace.Source{Name: "orders", Read: func(ctx context.Context, p *headrace.Partition) messages {
		select {
		case tell <- p:
		case <-ctx.Done():
		}
		return read(ctx, p)
	}})
	s, _ := g.connected()
	opened(s, &pb.Position{Sequence: 6})
	p := <-tell
	backlog := wait(s, (*pb.IngestRequest).GetBacklog)
	if backlog.GetLatestSequence() != 6 || backlog.GetMessages() != 0 {
		t.Errorf("at first: %v", backlog)
	}
	p.Report(headrace.Backlog{Messages: new(uint64(4)), LatestSequence: new(uint64(10))})
	backlog = wait(s, (*pb.IngestRequest).GetBacklog)
	if backlog.GetLatestSequence() != 10 || backlog.GetMessages() != 4 {
		t.Errorf("when there is more: %v", backlog)
	}
	feed <- headrace.Message{Sequence: 7}
	feed <- headrace.Message{Sequence: 10}
	sequences(s, 10)
	for backlog.GetMessages() != 0 || backlog.GetLatestSequence() != 10 {
		backlog = wait(s, (*pb.IngestRequest).GetBacklog)
	}
}

func TestAConnectorThatIsNotValidIsRefusedAtOnce(t *testing.T) {
	for field, c := range map[string]headrace.Connector{
		"Source.Name":   &headrace.Source{Name: "a/b", Read: numbers(1)},
		"Source.Read":   &headrace.Source{Name: "a"},
		"Source.Starts": &headrace.Source{Name: "a", Read: numbers(1), Redelivering: true, Starts: func(context.Context, []string) (map[string]headrace.Position, error) { return nil, nil }},
	} {
		var wrong *headrace.ConfigError
		if err := headrace.Run(t.Context(), c, nil); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestTooManyPartitionsAreRefused(t *testing.T) {
	g := startGateway(t)
	g.welcome.MaxStreams = 1
	r := g.start(&headrace.Source{Name: "orders", Read: numbers(1), Partitions: func(context.Context) ([]string, error) {
		return []string{"a", "b"}, nil
	}})
	s, _ := g.connected()
	wait(s, (*pb.IngestRequest).GetGoodbye)
	var wrong *headrace.ConfigError
	if err := r.wait(); !errors.As(err, &wrong) || wrong.Field != "Source.Partitions" {
		t.Errorf("it has ended with %v", err)
	}
}
