package headrace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/headrace/headrace/sdk/go/headrace"
	"github.com/headrace/headrace/sdk/go/internal/frame"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// ledger is a two-phase sink in memory.
type ledger struct {
	mu        sync.Mutex
	stored    map[headrace.Part][]string
	prepared  map[headrace.Transaction][]headrace.Part
	committed map[headrace.Transaction]bool
	visible   []string
	calls     []string
	refuse    string // the value of messages to refuse
	fail      string // the value that fails a part
	commitErr error
	stage     func(headrace.Part) // called first, if set
	show      func(headrace.Message) string
}

func newLedger() *ledger {
	return &ledger{
		stored: map[headrace.Part][]string{}, prepared: map[headrace.Transaction][]headrace.Part{},
		committed: map[headrace.Transaction]bool{},
		show:      func(m headrace.Message) string { return string(m.Value) },
	}
}

func (l *ledger) called(format string, arguments ...any) func() {
	l.mu.Lock()
	l.calls = append(l.calls, fmt.Sprintf(format, arguments...))
	return l.mu.Unlock
}

func (l *ledger) Stage(_ context.Context, part headrace.Part, rows iter.Seq2[*headrace.Rows, error]) ([]headrace.Refused, error) {
	if l.stage != nil {
		l.stage(part)
	}
	var values []string
	var refused []headrace.Refused
	for some, err := range rows {
		if err != nil {
			return nil, err
		}
		for m := range some.Messages() {
			value := l.show(m)
			switch {
			case l.fail != "" && value == l.fail:
				return nil, errors.New("disk full")
			case l.refuse != "" && value == l.refuse:
				refused = append(refused, headrace.Refused{Sequence: m.Sequence, Reason: "no"})
			default:
				values = append(values, value)
			}
		}
	}
	defer l.called("stage %d", part.Partition)()
	l.stored[part] = values
	return refused, nil
}

func (l *ledger) Drop(_ context.Context, part headrace.Part) error {
	defer l.called("drop %d", part.Partition)()
	delete(l.stored, part)
	return nil
}

func (l *ledger) Prepare(_ context.Context, t headrace.Transaction, parts []headrace.Part) error {
	defer l.called("prepare %d", t.Batch)()
	for _, part := range parts {
		if _, ok := l.stored[part]; !ok {
			return fmt.Errorf("%v is not staged", part)
		}
	}
	for part := range l.stored {
		if part.Transaction == t && !slices.Contains(parts, part) {
			delete(l.stored, part)
		}
	}
	l.prepared[t] = parts
	return nil
}

func (l *ledger) Commit(_ context.Context, t headrace.Transaction) error {
	defer l.called("commit %d", t.Batch)()
	if l.commitErr != nil {
		return l.commitErr
	}
	if l.committed[t] {
		return nil
	}
	if _, ok := l.prepared[t]; !ok {
		return fmt.Errorf("%v was never prepared", t)
	}
	for _, part := range l.prepared[t] {
		l.visible = append(l.visible, l.stored[part]...)
		delete(l.stored, part)
	}
	delete(l.prepared, t)
	l.committed[t] = true
	return nil
}

func (l *ledger) Abort(_ context.Context, t headrace.Transaction) error {
	defer l.called("abort %d", t.Batch)()
	for part := range l.stored {
		if part.Transaction == t {
			delete(l.stored, part)
		}
	}
	delete(l.prepared, t)
	return nil
}

func (l *ledger) Recover(context.Context) (headrace.Recovered, error) {
	defer l.called("recover")()
	var found headrace.Recovered
	for part := range l.stored {
		found.Staged = append(found.Staged, part)
	}
	for t := range l.prepared {
		found.Prepared = append(found.Prepared, t)
	}
	for t := range l.committed {
		found.Committed = append(found.Committed, t)
	}
	return found, nil
}

// attached accepts a sink and welcomes it.
func (g *fakeGateway) attached(readTimeout time.Duration) (*sinkSession, *pb.SinkHello) {
	g.t.Helper()
	s := accept(g.t, g.sinks)
	hello := s.next().GetHello()
	if hello == nil {
		g.t.Fatal("the first message is not SinkHello")
	}
	s.send(&pb.SinkServiceAttachResponse{Message: &pb.SinkServiceAttachResponse_Welcome{Welcome: &pb.SinkWelcome{
		ProtocolVersion: 1, GatewayVersion: "fake", Session: "s1", ReadTimeoutMs: uint32(readTimeout.Milliseconds()),
	}}})
	return s, hello
}

func transaction(batch uint64) *pb.Transaction {
	return &pb.Transaction{Pipeline: "query", Batch: batch}
}

func part(batch uint64, partition uint32) *pb.Part {
	return &pb.Part{Transaction: transaction(batch), Partition: partition, Attempt: "1/a"}
}

func startPart(s *sinkSession, id uint64, p *pb.Part) {
	s.t.Helper()
	s.send(&pb.SinkServiceAttachResponse{Message: &pb.SinkServiceAttachResponse_StartPart{StartPart: &pb.StartPart{Id: id, Part: p}}})
}

func partFrame(s *sinkSession, id, first uint64, values ...string) {
	s.t.Helper()
	columns := frame.New(0, 0)
	for i, value := range values {
		columns.Add(&frame.Row{Sequence: first + uint64(i), Value: []byte(value), Time: frame.NullTime})
	}
	s.send(&pb.SinkServiceAttachResponse{Message: &pb.SinkServiceAttachResponse_Frame{
		Frame: &pb.PartFrame{Id: id, Frame: columns.Take(1<<30, 1<<30)},
	}})
}

func endPart(s *sinkSession, id, messages uint64) {
	s.t.Helper()
	s.send(&pb.SinkServiceAttachResponse{Message: &pb.SinkServiceAttachResponse_EndPart{
		EndPart: &pb.EndPart{Id: id, Messages: messages},
	}})
}

func dropPart(s *sinkSession, id uint64) {
	s.t.Helper()
	s.send(&pb.SinkServiceAttachResponse{Message: &pb.SinkServiceAttachResponse_DropPart{DropPart: &pb.DropPart{Id: id}}})
}

func prepare(s *sinkSession, batch uint64, parts ...*pb.Part) {
	s.t.Helper()
	s.send(&pb.SinkServiceAttachResponse{Message: &pb.SinkServiceAttachResponse_Prepare{
		Prepare: &pb.Prepare{Transaction: transaction(batch), Parts: parts},
	}})
}

func commit(s *sinkSession, batch uint64) {
	s.t.Helper()
	s.send(&pb.SinkServiceAttachResponse{Message: &pb.SinkServiceAttachResponse_Commit{
		Commit: &pb.Commit{Transaction: transaction(batch)},
	}})
}

func abort(s *sinkSession, batch uint64) {
	s.t.Helper()
	s.send(&pb.SinkServiceAttachResponse{Message: &pb.SinkServiceAttachResponse_Abort{
		Abort: &pb.Abort{Transaction: transaction(batch)},
	}})
}

// said returns the next answer of a sink, which must be of a kind.
func said[Message any](s *sinkSession, kind func(*pb.SinkServiceAttachRequest) *Message) *Message {
	s.t.Helper()
	for {
		request := s.next()
		if found := kind(request); found != nil {
			return found
		}
		if request.GetReport() == nil && request.GetBusy() == nil {
			s.t.Fatalf("the sink said %v", request)
		}
	}
}

func TestATwoPhaseSinkShowsWhatIsCommitted(t *testing.T) {
	g := startGateway(t)
	l := newLedger()
	g.start(&headrace.Sink{Name: "ledger", TwoPhase: l})
	s, hello := g.attached(0)
	if hello.GetSink() != "ledger" || hello.GetMode() != pb.SinkMode_SINK_MODE_TWO_PHASE || hello.GetInstance() != "ledger" ||
		hello.GetSdk().GetName() != "headrace-go" {
		t.Errorf("SinkHello is %v", hello)
	}
	startPart(s, 1, part(7, 0))
	startPart(s, 2, part(7, 1))
	partFrame(s, 2, 0, "c")
	partFrame(s, 1, 0, "a", "b")
	endPart(s, 1, 2)
	if staged := said(s, (*pb.SinkServiceAttachRequest).GetStaged); staged.GetId() != 1 || len(staged.GetRefused()) != 0 {
		t.Errorf("staged %v", staged)
	}
	endPart(s, 2, 1)
	said(s, (*pb.SinkServiceAttachRequest).GetStaged)
	prepare(s, 7, part(7, 0), part(7, 1))
	if vote := said(s, (*pb.SinkServiceAttachRequest).GetPrepared); vote.GetTransaction().GetBatch() != 7 {
		t.Errorf("prepared %v", vote)
	}
	if len(l.visible) != 0 {
		t.Errorf("visible before the commit: %v", l.visible)
	}
	for range 2 {
		commit(s, 7)
		said(s, (*pb.SinkServiceAttachRequest).GetCommitted)
	}
	if !slices.Equal(l.visible, []string{"a", "b", "c"}) {
		t.Errorf("visible: %v", l.visible)
	}
}

func TestATwoPhaseSinkListsWhatItHolds(t *testing.T) {
	g := startGateway(t)
	l := newLedger()
	g.start(&headrace.Sink{Name: "ledger", TwoPhase: l})
	s, _ := g.attached(0)
	for id := range uint64(2) {
		startPart(s, id, part(7+id, 0))
		partFrame(s, id, 0, "a")
		endPart(s, id, 1)
		said(s, (*pb.SinkServiceAttachRequest).GetStaged)
	}
	prepare(s, 7, part(7, 0))
	said(s, (*pb.SinkServiceAttachRequest).GetPrepared)
	startPart(s, 3, part(9, 0))
	s.close(codes.Unavailable, "")
	s, hello := g.attached(0)
	if len(hello.GetStaged()) != 2 || len(hello.GetPrepared()) != 1 || hello.GetPrepared()[0].GetBatch() != 7 {
		t.Errorf("SinkHello is %v", hello)
	}
	commit(s, 7)
	said(s, (*pb.SinkServiceAttachRequest).GetCommitted)
	abort(s, 8)
	commit(s, 7) // Answered once the abort is carried out.
	said(s, (*pb.SinkServiceAttachRequest).GetCommitted)
	s.close(codes.Unavailable, "")
	_, hello = g.attached(0)
	if len(hello.GetStaged()) != 0 || len(hello.GetPrepared()) != 0 || len(hello.GetCommitted()) != 1 {
		t.Errorf("SinkHello is %v", hello)
	}
}

func TestASinkThatKeepsRunsApartNamesThem(t *testing.T) {
	g := startGateway(t)
	l := newLedger()
	g.start(&headrace.Sink{Name: "ledger", TwoPhase: l, KeepsRuns: true})
	s, hello := g.attached(0)
	if !slices.Contains(hello.GetCapabilities(), pb.Capability_CAPABILITY_RUNS) {
		t.Errorf("SinkHello is %v", hello)
	}
	for id, run := range []string{"r1", "r2"} {
		of := &pb.Transaction{Pipeline: "query", Batch: 7, Run: run}
		p := &pb.Part{Transaction: of, Attempt: run + "/a"}
		startPart(s, uint64(id), p)
		partFrame(s, uint64(id), 0, run)
		endPart(s, uint64(id), 1)
		said(s, (*pb.SinkServiceAttachRequest).GetStaged)
		s.send(&pb.SinkServiceAttachResponse{Message: &pb.SinkServiceAttachResponse_Prepare{
			Prepare: &pb.Prepare{Transaction: of, Parts: []*pb.Part{p}},
		}})
		if vote := said(s, (*pb.SinkServiceAttachRequest).GetPrepared); vote.GetTransaction().GetRun() != run {
			t.Errorf("prepared %v", vote)
		}
	}
	s.close(codes.Unavailable, "")
	s, hello = g.attached(0)
	if len(hello.GetStaged()) != 2 || len(hello.GetPrepared()) != 2 {
		t.Errorf("SinkHello is %v", hello)
	}
	s.send(&pb.SinkServiceAttachResponse{Message: &pb.SinkServiceAttachResponse_Commit{
		Commit: &pb.Commit{Transaction: &pb.Transaction{Pipeline: "query", Batch: 7, Run: "r2"}},
	}})
	said(s, (*pb.SinkServiceAttachRequest).GetCommitted)
	if !slices.Equal(l.visible, []string{"r2"}) {
		t.Errorf("visible: %v", l.visible)
	}
}

func TestRefusedMessagesAreNamed(t *testing.T) {
	g := startGateway(t)
	l := newLedger()
	l.refuse = "bad"
	g.start(&headrace.Sink{Name: "ledger", TwoPhase: l})
	s, _ := g.attached(0)
	startPart(s, 1, part(7, 0))
	partFrame(s, 1, 0, "a", "bad")
	partFrame(s, 1, 2, "bad", "b")
	endPart(s, 1, 4)
	staged := said(s, (*pb.SinkServiceAttachRequest).GetStaged)
	if len(staged.GetRefused()) != 2 || staged.GetRefused()[0].GetSequence() != 1 || staged.GetRefused()[1].GetSequence() != 2 ||
		staged.GetRefused()[0].GetReason() != "no" {
		t.Errorf("staged %v", staged)
	}
}

func TestAPartThatFailsIsDroppedAndReported(t *testing.T) {
	g := startGateway(t)
	l := newLedger()
	l.fail = "bad"
	g.start(&headrace.Sink{Name: "ledger", TwoPhase: l})
	s, _ := g.attached(0)
	startPart(s, 1, part(7, 0))
	partFrame(s, 1, 0, "bad")
	failed := said(s, (*pb.SinkServiceAttachRequest).GetFailed)
	if failed.GetPartId() != 1 || failed.GetReason() != "disk full" {
		t.Errorf("failed %v", failed)
	}
	partFrame(s, 1, 1, "a") // The rest is ignored.
	endPart(s, 1, 2)
	startPart(s, 2, part(7, 0))
	partFrame(s, 2, 0, "fine")
	endPart(s, 2, 1)
	if staged := said(s, (*pb.SinkServiceAttachRequest).GetStaged); staged.GetId() != 2 {
		t.Errorf("staged %v", staged)
	}
}

func TestAPartThatIsNotWholeFails(t *testing.T) {
	g := startGateway(t)
	g.start(&headrace.Sink{Name: "ledger", TwoPhase: newLedger()})
	s, _ := g.attached(0)
	startPart(s, 1, part(7, 0))
	partFrame(s, 1, 0, "a")
	endPart(s, 1, 2)
	if failed := said(s, (*pb.SinkServiceAttachRequest).GetFailed); failed.GetPartId() != 1 {
		t.Errorf("failed %v", failed)
	}
}

func TestADroppedPartIsNotAnswered(t *testing.T) {
	g := startGateway(t)
	l := newLedger()
	g.start(&headrace.Sink{Name: "ledger", TwoPhase: l})
	s, _ := g.attached(0)
	startPart(s, 1, part(7, 0))
	partFrame(s, 1, 0, "a")
	dropPart(s, 1)
	endPart(s, 1, 1)
	dropPart(s, 99)
	startPart(s, 2, part(7, 0))
	endPart(s, 2, 0)
	if staged := said(s, (*pb.SinkServiceAttachRequest).GetStaged); staged.GetId() != 2 {
		t.Errorf("staged %v", staged)
	}
}

func TestATransactionThatCannotBePreparedOrCommittedFails(t *testing.T) {
	g := startGateway(t)
	l := newLedger()
	l.commitErr = errors.New("read-only")
	g.start(&headrace.Sink{Name: "ledger", TwoPhase: l})
	s, _ := g.attached(0)
	prepare(s, 7, part(7, 0))
	if failed := said(s, (*pb.SinkServiceAttachRequest).GetFailed); failed.GetTransaction().GetBatch() != 7 {
		t.Errorf("failed %v", failed)
	}
	commit(s, 6)
	if failed := said(s, (*pb.SinkServiceAttachRequest).GetFailed); failed.GetTransaction().GetBatch() != 6 ||
		failed.GetReason() != "read-only" {
		t.Errorf("failed %v", failed)
	}
}

func TestAPartMayWaitForAnotherOne(t *testing.T) {
	g := startGateway(t)
	l := newLedger()
	second := make(chan struct{})
	l.stage = func(p headrace.Part) {
		if p.Partition == 0 {
			<-second
		}
	}
	g.start(&headrace.Sink{Name: "ledger", TwoPhase: l}, func(o *headrace.Options) { o.QueueBytes = 1 })
	s, _ := g.attached(0)
	startPart(s, 1, part(7, 0))
	startPart(s, 2, part(7, 1))
	for i := range uint64(50) {
		partFrame(s, 1, i, fmt.Sprint(i))
	}
	partFrame(s, 2, 0, "x")
	endPart(s, 2, 1)
	if staged := said(s, (*pb.SinkServiceAttachRequest).GetStaged); staged.GetId() != 2 {
		t.Errorf("staged %v", staged)
	}
	close(second)
	endPart(s, 1, 50)
	said(s, (*pb.SinkServiceAttachRequest).GetStaged)
	l.mu.Lock()
	defer l.mu.Unlock()
	for stored, values := range l.stored {
		if stored.Partition == 0 && (len(values) != 50 || values[49] != "49") {
			t.Errorf("stored %v", values)
		}
	}
}

func TestASinkThatIsBehindSaysThatItIsBusyAndReadsNoMore(t *testing.T) {
	g := startGateway(t)
	release := make(chan struct{})
	var writes atomic.Int64
	g.start(&headrace.Sink{Name: "slow", AtLeastOnce: &writer{write: func(*headrace.Rows) ([]headrace.Refused, error) {
		writes.Add(1)
		<-release
		return nil, nil
	}}})
	s, _ := g.attached(20 * time.Millisecond)
	startPart(s, 1, part(7, 0))
	partFrame(s, 1, 0, "a")
	for s.next().GetBusy() == nil {
	}
	partFrame(s, 1, 1, "b")
	for s.next().GetBusy() == nil {
	}
	if got := writes.Load(); got != 1 {
		t.Errorf("%d frames were taken", got)
	}
	close(release)
	endPart(s, 1, 2)
	said(s, (*pb.SinkServiceAttachRequest).GetStaged)
}

// writer is an at-least-once sink.
type writer struct {
	write   func(*headrace.Rows) ([]headrace.Refused, error)
	flushes atomic.Int64
}

func (w *writer) Write(_ context.Context, rows *headrace.Rows) ([]headrace.Refused, error) {
	return w.write(rows)
}

func (w *writer) Flush(context.Context) error {
	w.flushes.Add(1)
	return nil
}

func TestAnAtLeastOnceSinkWritesAsRowsArrive(t *testing.T) {
	g := startGateway(t)
	var values []string
	w := &writer{}
	w.write = func(rows *headrace.Rows) ([]headrace.Refused, error) {
		for m := range rows.Messages() {
			if string(m.Value) == "bad" {
				return []headrace.Refused{{Sequence: 5, Reason: "not a message of these rows"}}, nil
			}
			values = append(values, string(m.Value))
		}
		if rows.Part().Partition != 3 || rows.Part().Attempt != "1/a" {
			t.Errorf("part is %v", rows.Part())
		}
		return []headrace.Refused{{Sequence: rows.First(), Reason: "the first one"}}, nil
	}
	g.start(&headrace.Sink{Name: "notes", AtLeastOnce: w})
	s, hello := g.attached(0)
	if hello.GetMode() != pb.SinkMode_SINK_MODE_AT_LEAST_ONCE {
		t.Errorf("mode is %v", hello.GetMode())
	}
	startPart(s, 1, part(7, 3))
	partFrame(s, 1, 0, "a", "b")
	partFrame(s, 1, 2, "c")
	endPart(s, 1, 3)
	staged := said(s, (*pb.SinkServiceAttachRequest).GetStaged)
	if len(staged.GetRefused()) != 2 || w.flushes.Load() != 1 || !slices.Equal(values, []string{"a", "b", "c"}) {
		t.Errorf("staged %v of %v after %d flushes", staged, values, w.flushes.Load())
	}
	prepare(s, 7, part(7, 3))
	said(s, (*pb.SinkServiceAttachRequest).GetPrepared)
	startPart(s, 2, part(8, 3))
	partFrame(s, 2, 0, "bad")
	said(s, (*pb.SinkServiceAttachRequest).GetFailed)
}

// table is an idempotent sink.
type table struct {
	mu      sync.Mutex
	batches map[headrace.Transaction]bool
	values  []string
	err     error
	show    func(headrace.Message) string
}

func (b *table) Write(_ context.Context, t headrace.Transaction, rows iter.Seq2[*headrace.Rows, error]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var values []string
	for some, err := range rows {
		if err != nil {
			return err
		}
		for m := range some.Messages() {
			values = append(values, b.show(m))
		}
	}
	if b.err != nil {
		err := b.err
		b.err = nil
		return err
	}
	if !b.batches[t] {
		b.batches[t], b.values = true, append(b.values, values...)
	}
	return nil
}

func (b *table) last(_ context.Context, pipeline string) (uint64, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, found := uint64(0), false
	for t := range b.batches {
		if t.Pipeline == pipeline {
			last, found = max(last, t.Batch), true
		}
	}
	return last, found, nil
}

func TestAnIdempotentSinkWritesABatchOnce(t *testing.T) {
	g := startGateway(t)
	b := &table{batches: map[headrace.Transaction]bool{}, err: errors.New("locked")}
	b.show = func(m headrace.Message) string { return string(m.Value) }
	g.start(&headrace.Sink{
		Name: "payments", Idempotent: b, Last: b.last,
		Check: func(_ context.Context, rows *headrace.Rows) ([]headrace.Refused, error) {
			var refused []headrace.Refused
			for m := range rows.Messages() {
				if bytes.Equal(m.Value, []byte("bad")) {
					refused = append(refused, headrace.Refused{Sequence: m.Sequence, Reason: "no"})
				}
			}
			return refused, nil
		},
	}, func(o *headrace.Options) { o.HoldBytes = 1 }) // The rest is in a file.
	s, _ := g.attached(0)
	startPart(s, 1, part(7, 0))
	startPart(s, 2, part(7, 1))
	partFrame(s, 1, 0, "bad", "a")
	partFrame(s, 1, 2, "bad")
	partFrame(s, 2, 0, "b")
	endPart(s, 1, 3)
	if staged := said(s, (*pb.SinkServiceAttachRequest).GetStaged); len(staged.GetRefused()) != 2 {
		t.Errorf("staged %v", staged)
	}
	endPart(s, 2, 1)
	said(s, (*pb.SinkServiceAttachRequest).GetStaged)
	prepare(s, 7, part(7, 1), part(7, 9))
	said(s, (*pb.SinkServiceAttachRequest).GetFailed) // It does not have partition 9.
	prepare(s, 7, part(7, 0), part(7, 1))
	if failed := said(s, (*pb.SinkServiceAttachRequest).GetFailed); failed.GetReason() != "locked" {
		t.Errorf("failed %v", failed)
	}
	for range 2 {
		prepare(s, 7, part(7, 0), part(7, 1))
		said(s, (*pb.SinkServiceAttachRequest).GetPrepared)
	}
	b.mu.Lock()
	if !slices.Equal(b.values, []string{"a", "b"}) {
		t.Errorf("written: %v", b.values)
	}
	b.mu.Unlock()
	s.close(codes.Unavailable, "")
	_, hello := g.attached(0)
	if len(hello.GetCommitted()) != 1 || hello.GetCommitted()[0].GetBatch() != 7 {
		t.Errorf("SinkHello is %v", hello)
	}
}

func TestASinkThatIsStoppedAnswersWhatHasArrived(t *testing.T) {
	g := startGateway(t)
	l := newLedger()
	arrived, release := make(chan struct{}), make(chan struct{})
	l.stage = func(p headrace.Part) {
		if p.Batch == 8 {
			close(arrived)
		}
		<-release
	}
	r := g.start(&headrace.Sink{Name: "ledger", TwoPhase: l}, patiently)
	s, _ := g.attached(0)
	startPart(s, 1, part(7, 0))
	partFrame(s, 1, 0, "a")
	endPart(s, 1, 1)
	prepare(s, 7, part(7, 0))
	startPart(s, 2, part(8, 0)) // Once it is being staged, everything before has arrived. It is dropped.
	<-arrived
	r.stop(nil)
	close(release)
	said(s, (*pb.SinkServiceAttachRequest).GetStaged)
	for {
		if goodbye := s.next().GetGoodbye(); goodbye != nil {
			if goodbye.GetReason() != "stopped" {
				t.Errorf("SinkGoodbye says %q", goodbye.GetReason())
			}
			break
		}
	}
	if err := r.wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("it has ended with %v", err)
	}
}

func TestADrainingGatewayIsLeftByASink(t *testing.T) {
	g := startGateway(t)
	g.start(&headrace.Sink{Name: "ledger", TwoPhase: newLedger()})
	s, _ := g.attached(0)
	s.send(&pb.SinkServiceAttachResponse{Message: &pb.SinkServiceAttachResponse_Drain{Drain: &pb.SinkDrain{DeadlineMs: 60_000}}})
	if reason := said(s, (*pb.SinkServiceAttachRequest).GetGoodbye).GetReason(); reason != "drained" {
		t.Errorf("SinkGoodbye says %q", reason)
	}
	g.attached(0)
}

func TestASinkNeedsOneMode(t *testing.T) {
	for _, sink := range []*headrace.Sink{
		{Name: "x"}, {Name: "x", TwoPhase: newLedger(), AtLeastOnce: &writer{}}, {Name: "a/b", TwoPhase: newLedger()},
		{Name: "x", TwoPhase: newLedger(), Pipelines: func(context.Context) ([]string, error) { return nil, nil }},
	} {
		var wrong *headrace.ConfigError
		if err := headrace.Run(t.Context(), sink, nil); !errors.As(err, &wrong) {
			t.Errorf("%+v: %v", sink, err)
		}
	}
}

func TestRowsForTests(t *testing.T) {
	when := time.UnixMicro(5).UTC()
	rows := headrace.NewRows(headrace.Part{Partition: 3}, 7, headrace.Message{Value: []byte("a"), EventTime: when},
		headrace.Message{Key: []byte{}, ID: "id", Headers: []headrace.Header{{Name: "h"}}})
	var got []headrace.Message
	for m := range rows.Messages() {
		m.Headers = slices.Clone(m.Headers)
		got = append(got, m)
	}
	if rows.Len() != 2 || rows.First() != 7 || rows.Part().Partition != 3 || len(got) != 2 || got[0].Sequence != 7 ||
		!got[0].EventTime.Equal(when) || got[1].Key == nil || got[1].Value != nil || got[1].ID != "id" || len(got[1].Headers) != 1 {
		t.Errorf("rows are %+v", got)
	}
}
