package headrace

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/sdk/go/internal/frame"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// staging is a part that is being staged, or is staged. The handler's mutex guards the fields up to the blank line.
type staging struct {
	queue    []item
	bytes    int  // in memory
	ended    bool // all of it has arrived
	messages uint64
	dropped  bool
	waiting  bool // the sink waits for rows

	id     uint64
	part   Part
	file   spill // for rows that do not fit into memory, so that other parts need not wait for them
	cancel context.CancelFunc
	done   chan struct{} // closed once Stage has returned
	staged bool          // valid once done is closed
}

// item is a frame, in memory or in the file.
type item struct {
	frame *pb.Frame
	size  int
	place place
}

// start begins to stage a part, after the decisions about its transaction that came before it.
func (h *twoPhase) start(id uint64, part Part) {
	ctx, cancel := context.WithCancel(h.s.ctx)
	p := &staging{id: id, part: part, cancel: cancel, done: make(chan struct{})}
	h.mu.Lock()
	h.parts[id] = p
	before := h.last[part.Transaction]
	h.mu.Unlock()
	h.stagings.Add(1)
	h.s.workers.Go(func() {
		defer h.stagings.Done()
		defer close(p.done)
		defer cancel()
		defer p.file.close()
		if before != nil {
			select {
			case <-before.done:
			case <-ctx.Done():
				return
			}
		}
		h.stage(ctx, p)
	})
}

// stage lets the sink stage a part, and answers.
func (h *twoPhase) stage(ctx context.Context, p *staging) {
	if h.isDropped(p) {
		return
	}
	var taken uint64
	exhausted := false
	var refused []Refused
	err := h.s.c.options.calls.moving("Stage", "", func(r *running) (err error) {
		refused, err = h.sink.Stage(ctx, p.part, h.rowsOf(p, r, &taken, &exhausted))
		return err
	})
	if err == nil && !exhausted {
		err = fmt.Errorf("the sink returned from Stage before the end of the part: it took %d of its messages", taken)
	}
	if err == nil {
		err = checkRefused(refused, 0, taken)
	}
	if err != nil {
		h.dropStored(p.part)
		h.mu.Lock()
		dropped := p.dropped
		h.drop(p) // The rest of it is ignored.
		h.mu.Unlock()
		if !dropped {
			h.s.partFailed(p.id, p.part, err)
		}
		return
	}
	p.staged = true
	if !h.isDropped(p) {
		h.s.staged(p.id, refused)
	}
}

// rows queues rows of a part. It waits until there is room for more, or until another part waits for rows: a sink may stage one
// part only after another one.
func (h *twoPhase) rows(id uint64, f *pb.Frame) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.parts[id]
	if p == nil || p.dropped {
		return
	}
	next := item{frame: f, size: proto.Size(f)}
	if p.bytes >= h.s.c.options.QueueBytes {
		h.mu.Unlock()
		at, err := p.file.write(f)
		h.mu.Lock()
		if err != nil {
			h.drop(p)
			h.s.partFailed(p.id, p.part, err)
			return
		}
		next = item{place: at}
	}
	p.queue = append(p.queue, next)
	p.bytes += next.size
	h.moved.Broadcast()
	for p.bytes >= h.s.c.options.QueueBytes && !p.dropped && !h.starving() && h.s.ctx.Err() == nil {
		h.moved.Wait()
	}
}

// end notes that all of a part has arrived.
func (h *twoPhase) end(id, messages uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.parts[id]; p != nil {
		p.ended, p.messages = true, messages
		h.moved.Broadcast()
	}
}

// drop has a part take no more rows, and its Stage return; the mutex is held.
func (h *twoPhase) drop(p *staging) {
	p.dropped = true
	p.queue, p.bytes = nil, 0
	p.cancel()
	h.moved.Broadcast()
}

func (h *twoPhase) isDropped(p *staging) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return p.dropped
}

// starving says whether the sink waits for rows of some part; the mutex is held.
func (h *twoPhase) starving() bool {
	for _, p := range h.parts {
		if p.waiting {
			return true
		}
	}
	return false
}

// rowsOf yields the rows of a part as they arrive.
func (h *twoPhase) rowsOf(p *staging, r *running, taken *uint64, exhausted *bool) iter.Seq2[*Rows, error] {
	return func(yield func(*Rows, error) bool) {
		for {
			next, err := h.nextRows(p)
			if err == nil && next == nil {
				if err = checkWhole(*taken, p.messages); err == nil {
					*exhausted = true
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			*taken += uint64(next.GetCount())
			r.moves.Add(1)
			if !yield(&Rows{p.part, next}, nil) {
				return
			}
		}
	}
}

// nextRows waits for the next rows of a part; nil at its end.
func (h *twoPhase) nextRows(p *staging) (*pb.Frame, error) {
	h.mu.Lock()
	for len(p.queue) == 0 && !p.ended && !p.dropped {
		p.waiting = true
		h.moved.Broadcast()
		h.moved.Wait()
	}
	p.waiting = false
	if p.dropped || len(p.queue) == 0 {
		defer h.mu.Unlock()
		if p.dropped {
			return nil, ErrDropped
		}
		return nil, nil
	}
	next := p.queue[0]
	p.queue = p.queue[1:]
	p.bytes -= next.size
	h.moved.Broadcast()
	h.mu.Unlock()
	f := next.frame
	if f == nil {
		var err error
		if f, err = p.file.read(next.place); err != nil {
			return nil, err
		}
	}
	return f, frame.Check(f)
}
