package headrace

import (
	"context"
	"fmt"
	"slices"
	"sync"

	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// maxDecisions is how many decisions may wait for the sink before nothing more is received.
const maxDecisions = 1000

// twoPhase stages each part on a goroutine of its own, and carries out decisions in order on another one. A decision waits for
// the parts of its transaction that began before it; parts that begin after it wait for it.
type twoPhase struct {
	s         *sinkSession
	sink      TwoPhase
	taking    sync.Mutex // held while a message is taken
	calls     sync.Mutex // one method at a time, besides Stage
	decisions chan *decision
	stagings  sync.WaitGroup
	decided   chan struct{} // closed once no more decisions are carried out

	mu       sync.Mutex
	moved    *sync.Cond // something has changed: signals every waiter
	parts    map[uint64]*staging
	last     map[Transaction]*decision // the last decision of each transaction that is not carried out
	finished bool
}

// decision is a message of the gateway about parts or a transaction.
type decision struct {
	message     *pb.SinkServiceAttachResponse
	transaction Transaction
	before      []*staging
	done        chan struct{}
}

func newTwoPhaseHandler(s *sinkSession, sink TwoPhase) *twoPhase {
	h := &twoPhase{
		s: s, sink: sink, decisions: make(chan *decision, maxDecisions), decided: make(chan struct{}),
		parts: map[uint64]*staging{}, last: map[Transaction]*decision{},
	}
	h.moved = sync.NewCond(&h.mu)
	s.workers.Go(h.decide)
	return h
}

func (h *twoPhase) take(message *pb.SinkServiceAttachResponse) {
	h.taking.Lock()
	defer h.taking.Unlock()
	if h.finished {
		return
	}
	switch m := message.GetMessage().(type) {
	case *pb.SinkServiceAttachResponse_StartPart:
		h.start(m.StartPart.GetId(), toPart(m.StartPart.GetPart()))
	case *pb.SinkServiceAttachResponse_Frame:
		h.s.received(m.Frame.GetFrame())
		h.rows(m.Frame.GetId(), m.Frame.GetFrame())
	case *pb.SinkServiceAttachResponse_EndPart:
		h.end(m.EndPart.GetId(), m.EndPart.GetMessages())
	case *pb.SinkServiceAttachResponse_DropPart:
		h.mu.Lock()
		p := h.parts[m.DropPart.GetId()]
		h.mu.Unlock()
		if p != nil {
			h.enqueue(message, p.part.Transaction, []*staging{p}, nil)
		}
	case *pb.SinkServiceAttachResponse_Prepare:
		t := toTransaction(m.Prepare.GetTransaction())
		h.enqueue(message, t, h.of(t), toParts(m.Prepare.GetParts()))
	case *pb.SinkServiceAttachResponse_Commit:
		t := toTransaction(m.Commit.GetTransaction())
		h.enqueue(message, t, h.of(t), nil)
	case *pb.SinkServiceAttachResponse_Abort:
		t := toTransaction(m.Abort.GetTransaction())
		h.enqueue(message, t, h.of(t), nil)
	default:
		h.s.c.log.Debug("a message that this version does not know was ignored")
	}
}

// finish has parts that have arrived completely staged, and decisions that have arrived carried out.
func (h *twoPhase) finish() {
	h.mu.Lock()
	for _, p := range h.parts {
		if !p.ended {
			h.drop(p)
		}
	}
	h.mu.Unlock()
	h.taking.Lock()
	closed := h.finished
	h.finished = true
	h.taking.Unlock()
	h.stagings.Wait()
	if !closed {
		close(h.decisions)
	}
	<-h.decided
}

// close drops what is not staged, and waits until no method runs. The session's context is done.
func (h *twoPhase) close() {
	h.mu.Lock()
	for _, p := range h.parts {
		h.drop(p)
	}
	h.moved.Broadcast()
	h.mu.Unlock()
	h.stagings.Wait()
	<-h.decided
}

// of returns the parts of a transaction.
func (h *twoPhase) of(t Transaction) []*staging {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []*staging
	for _, p := range h.parts {
		if p.part.Transaction == t {
			found = append(found, p)
		}
	}
	return found
}

// enqueue queues a decision. Parts that it concerns and that do not count are dropped.
func (h *twoPhase) enqueue(message *pb.SinkServiceAttachResponse, t Transaction, before []*staging, counting []Part) {
	d := &decision{message: message, transaction: t, before: before, done: make(chan struct{})}
	h.mu.Lock()
	for _, p := range before {
		delete(h.parts, p.id)
		if !p.ended || !slices.Contains(counting, p.part) {
			h.drop(p)
		}
	}
	h.last[t] = d
	h.mu.Unlock()
	select {
	case h.decisions <- d:
	case <-h.s.ctx.Done():
	}
}

// decide carries out one decision after the other.
func (h *twoPhase) decide() {
	defer close(h.decided)
	for {
		var d *decision
		select {
		case d = <-h.decisions:
		case <-h.s.ctx.Done():
		}
		if d == nil || h.s.ctx.Err() != nil {
			return
		}
		for _, p := range d.before {
			<-p.done
		}
		h.carryOut(d)
		h.mu.Lock()
		if h.last[d.transaction] == d {
			delete(h.last, d.transaction)
		}
		h.mu.Unlock()
		close(d.done)
	}
}

// carryOut calls the sink for a decision, and answers.
func (h *twoPhase) carryOut(d *decision) {
	t := d.transaction
	switch m := d.message.GetMessage().(type) {
	case *pb.SinkServiceAttachResponse_DropPart:
		for _, p := range d.before {
			if p.staged {
				h.dropStored(p.part)
			}
		}
	case *pb.SinkServiceAttachResponse_Prepare:
		parts := toParts(m.Prepare.GetParts())
		if err := h.inTurn("Prepare", func(ctx context.Context) error { return h.sink.Prepare(ctx, t, parts) }); err != nil {
			h.s.transactionFailed(t, "preparing", err)
			return
		}
		h.s.prepared(t)
	case *pb.SinkServiceAttachResponse_Commit:
		if err := h.inTurn("Commit", func(ctx context.Context) error { return h.sink.Commit(ctx, t) }); err != nil {
			h.s.transactionFailed(t, "committing", err)
			return
		}
		h.s.committed(t)
	case *pb.SinkServiceAttachResponse_Abort:
		if err := h.inTurn("Abort", func(ctx context.Context) error { return h.sink.Abort(ctx, t) }); err != nil {
			h.s.logFailure(t, "aborting", err)
		}
	}
}

// dropStored lets the sink drop a part.
func (h *twoPhase) dropStored(part Part) {
	if err := h.inTurn("Drop", func(ctx context.Context) error { return h.sink.Drop(ctx, part) }); err != nil {
		h.s.logFailure(part.Transaction, fmt.Sprintf("dropping partition %d", part.Partition), err)
	}
}

// inTurn calls a method while no other one runs, besides Stage.
func (h *twoPhase) inTurn(name string, method func(context.Context) error) error {
	h.calls.Lock()
	defer h.calls.Unlock()
	return h.s.c.options.calls.during(name, "", func() error { return method(h.s.late) })
}
