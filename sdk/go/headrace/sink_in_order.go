package headrace

import (
	"fmt"
	"maps"
	"sync"

	"github.com/headrace/headrace/sdk/go/internal/frame"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// inOrder is a handler that handles each message as it is received. While it does, nothing more is received, so that the
// gateway sends no faster than the sink writes.
type inOrder struct {
	s    *sinkSession
	mode partsHandler

	mu       sync.Mutex // held while a message is handled
	finished bool
}

// partsHandler is what differs between the modes that handle messages in order.
type partsHandler interface {
	start(id uint64, part Part)
	rows(id uint64, f *pb.Frame)
	end(id, messages uint64)
	drop(id uint64)
	prepare(t Transaction, parts []Part)
	abort(t Transaction)
	close()
}

func (h *inOrder) take(message *pb.SinkServiceAttachResponse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.finished {
		return
	}
	switch m := message.GetMessage().(type) {
	case *pb.SinkServiceAttachResponse_StartPart:
		h.mode.start(m.StartPart.GetId(), toPart(m.StartPart.GetPart()))
	case *pb.SinkServiceAttachResponse_Frame:
		h.s.received(m.Frame.GetFrame())
		h.mode.rows(m.Frame.GetId(), m.Frame.GetFrame())
	case *pb.SinkServiceAttachResponse_EndPart:
		h.mode.end(m.EndPart.GetId(), m.EndPart.GetMessages())
	case *pb.SinkServiceAttachResponse_DropPart:
		h.mode.drop(m.DropPart.GetId())
	case *pb.SinkServiceAttachResponse_Prepare:
		h.mode.prepare(toTransaction(m.Prepare.GetTransaction()), toParts(m.Prepare.GetParts()))
	case *pb.SinkServiceAttachResponse_Commit:
		h.s.committed(toTransaction(m.Commit.GetTransaction()))
	case *pb.SinkServiceAttachResponse_Abort:
		h.mode.abort(toTransaction(m.Abort.GetTransaction()))
	default:
		h.s.c.log.Debug("a message that this version does not know was ignored")
	}
}

func (h *inOrder) finish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finished = true
}

func (h *inOrder) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finished = true
	h.mode.close()
}

// atLeastOnce writes rows as they arrive.
type atLeastOnce struct {
	s     *sinkSession
	sink  AtLeastOnce
	parts map[uint64]*written
}

// written is a part that is being written.
type written struct {
	part     Part
	messages uint64
	refused  []Refused
}

func newAtLeastOnceHandler(s *sinkSession) sinkHandler {
	return &inOrder{s: s, mode: &atLeastOnce{s, s.c.sink.AtLeastOnce, map[uint64]*written{}}}
}

func (h *atLeastOnce) start(id uint64, part Part) {
	h.parts[id] = &written{part: part}
}

// rows writes rows, and ignores rows of a part that has failed.
func (h *atLeastOnce) rows(id uint64, f *pb.Frame) {
	w := h.parts[id]
	if w == nil {
		return
	}
	refused, err := []Refused(nil), frame.Check(f)
	if err == nil {
		err = h.s.c.options.calls.during("Write", "", func() (err error) {
			refused, err = h.sink.Write(h.s.late, &Rows{w.part, f})
			return err
		})
	}
	if err == nil {
		err = checkRefused(refused, f.GetFirstSequence(), uint64(f.GetCount()))
	}
	if err != nil {
		delete(h.parts, id)
		h.s.partFailed(id, w.part, err)
		return
	}
	w.refused = append(w.refused, refused...)
	w.messages += uint64(f.GetCount())
}

func (h *atLeastOnce) end(id, messages uint64) {
	w := h.parts[id]
	if w == nil {
		return
	}
	delete(h.parts, id)
	err := checkWhole(w.messages, messages)
	if err == nil {
		err = h.s.c.options.calls.during("Flush", "", func() error { return h.sink.Flush(h.s.late) })
	}
	if err != nil {
		h.s.partFailed(id, w.part, err)
		return
	}
	h.s.staged(id, w.refused)
}

// drop forgets a part; what is written stays.
func (h *atLeastOnce) drop(id uint64) {
	delete(h.parts, id)
}

// prepare votes: everything was written before.
func (h *atLeastOnce) prepare(t Transaction, _ []Part) {
	h.s.prepared(t)
}

// abort forgets the parts of a transaction; what is written stays.
func (h *atLeastOnce) abort(t Transaction) {
	maps.DeleteFunc(h.parts, func(_ uint64, w *written) bool { return w.part.Transaction == t })
}

func (h *atLeastOnce) close() {}

// checkWhole checks that a part has arrived completely.
func checkWhole(arrived, messages uint64) error {
	if arrived != messages {
		return fmt.Errorf("messages of a part: %d expected, %d arrived", messages, arrived)
	}
	return nil
}
