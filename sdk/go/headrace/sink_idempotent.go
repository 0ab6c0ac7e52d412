package headrace

import (
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/sdk/go/internal/frame"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// idempotent holds parts until Spark has chosen the ones that count, and then writes them in one step.
type idempotent struct {
	s     *sinkSession
	parts map[uint64]*held
	bytes int               // in memory, of all parts
	voted map[string]uint64 // the last batch of each pipeline that this session has voted for
}

// held is a part, and what has arrived of it: the first frames in memory, the rest in a file.
type held struct {
	part     Part
	frames   []*pb.Frame
	bytes    int
	file     spill
	places   []place
	messages uint64
	refused  []Refused
	whole    bool
}

func newIdempotentHandler(s *sinkSession) sinkHandler {
	return &inOrder{s: s, mode: &idempotent{s: s, parts: map[uint64]*held{}, voted: map[string]uint64{}}}
}

func (h *idempotent) start(id uint64, part Part) {
	h.s.c.seen[part.Pipeline] = true
	h.parts[id] = &held{part: part}
}

func (h *idempotent) rows(id uint64, f *pb.Frame) {
	p := h.parts[id]
	if p == nil {
		return
	}
	if err := h.hold(p, f); err != nil {
		h.drop(id)
		h.s.partFailed(id, p.part, err)
	}
}

// hold keeps the rows of a part that are not refused.
func (h *idempotent) hold(p *held, f *pb.Frame) error {
	if err := frame.Check(f); err != nil {
		return err
	}
	rows := &Rows{p.part, f}
	if check := h.s.c.sink.Check; check != nil {
		var refused []Refused
		err := h.s.c.options.calls.during("Check", "", func() (err error) {
			refused, err = check(h.s.late, rows)
			return err
		})
		if err == nil {
			err = checkRefused(refused, rows.First(), uint64(rows.Len()))
		}
		if err != nil {
			return err
		}
		p.refused = append(p.refused, refused...)
		rows = rows.without(refused)
	}
	p.messages += uint64(f.GetCount())
	if rows == nil {
		return nil
	}
	size := proto.Size(rows.frame)
	if len(p.places) == 0 && h.bytes+size <= h.s.c.options.HoldBytes {
		p.frames = append(p.frames, rows.frame)
		p.bytes += size
		h.bytes += size
		return nil
	}
	at, err := p.file.write(rows.frame)
	p.places = append(p.places, at)
	return err
}

func (h *idempotent) end(id, messages uint64) {
	p := h.parts[id]
	if p == nil {
		return
	}
	if err := checkWhole(p.messages, messages); err != nil {
		h.drop(id)
		h.s.partFailed(id, p.part, err)
		return
	}
	p.whole = true
	h.s.staged(id, p.refused)
}

func (h *idempotent) drop(id uint64) {
	if p := h.parts[id]; p != nil {
		h.bytes -= p.bytes
		p.file.close()
		delete(h.parts, id)
	}
}

// prepare writes a transaction, unless it is written already. If that fails, the parts are kept for another attempt.
func (h *idempotent) prepare(t Transaction, parts []Part) {
	if last, ok := h.voted[t.Pipeline]; !ok || last != t.Batch {
		if err := h.write(t, parts); err != nil {
			h.s.transactionFailed(t, "writing", err)
			return
		}
	}
	h.voted[t.Pipeline] = t.Batch
	h.abort(t)
	h.s.prepared(t)
}

func (h *idempotent) write(t Transaction, parts []Part) error {
	if h.s.c.sink.Last != nil {
		if batch, ok, err := h.s.c.last(h.s.late, t.Pipeline); err != nil || ok && batch == t.Batch {
			return err
		}
	}
	whole := map[Part]*held{}
	for _, p := range h.parts {
		if p.whole {
			whole[p.part] = p
		}
	}
	var counting []*held
	for _, part := range parts {
		p := whole[part]
		if p == nil {
			return fmt.Errorf("%v is no longer here", part)
		}
		counting = append(counting, p)
	}
	exhausted := false
	write := func() error { return h.s.c.sink.Idempotent.Write(h.s.late, t, rowsOf(counting, &exhausted)) }
	if err := h.s.c.options.calls.during("Write", "", write); err != nil {
		return err
	}
	if !exhausted {
		return fmt.Errorf("the sink returned before the end of the rows of %v", t)
	}
	return nil
}

// abort forgets the parts of a transaction; what is written stays.
func (h *idempotent) abort(t Transaction) {
	for id, p := range h.parts {
		if p.part.Transaction == t {
			h.drop(id)
		}
	}
}

func (h *idempotent) close() {
	for id := range h.parts {
		h.drop(id)
	}
}

// rowsOf yields the rows of parts.
func rowsOf(parts []*held, exhausted *bool) iter.Seq2[*Rows, error] {
	return func(yield func(*Rows, error) bool) {
		for _, p := range parts {
			for _, f := range p.frames {
				if !yield(&Rows{p.part, f}, nil) {
					return
				}
			}
			for _, at := range p.places {
				f, err := p.file.read(at)
				if !yield(&Rows{p.part, f}, err) || err != nil {
					return
				}
			}
		}
		*exhausted = true
	}
}
