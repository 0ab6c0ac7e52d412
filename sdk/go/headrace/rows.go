package headrace

import (
	"fmt"
	"iter"
	"time"

	"github.com/headrace/headrace/sdk/go/internal/frame"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// Rows is consecutive messages of one part.
type Rows struct {
	part  Part
	frame *pb.Frame
}

// NewRows makes rows from messages, for tests. Their sequences are their places in the part, counted from first.
func NewRows(part Part, first uint64, messages ...Message) *Rows {
	columns := frame.New(0, 0)
	for i := range messages {
		addRow(columns, first+uint64(i), &messages[i])
	}
	return &Rows{part, columns.Take(1<<62, 1<<31)}
}

// Part is the part of the rows.
func (r *Rows) Part() Part {
	return r.part
}

// Len is the number of messages.
func (r *Rows) Len() int {
	return int(r.frame.GetCount())
}

// First is the place of the first message in the part, counted from 0.
func (r *Rows) First() uint64 {
	return r.frame.GetFirstSequence()
}

// Messages yields the messages, in order. The sequence of each is its place in the part. Values and keys stay valid; the slice
// of headers is reused for the next message.
func (r *Rows) Messages() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		var own []Header
		for row, headers := range frame.Rows(r.frame) {
			m := Message{Sequence: row.Sequence, Key: row.Key, Value: row.Value, ID: row.ID}
			if row.Time != frame.NullTime {
				m.EventTime = time.UnixMicro(row.Time).UTC()
			}
			if len(headers) > 0 {
				own = own[:0]
				for _, header := range headers {
					own = append(own, Header(header))
				}
				m.Headers = own
			}
			if !yield(m) {
				return
			}
		}
	}
}

// without returns the rows that were not refused; nil if none are left.
func (r *Rows) without(refused []Refused) *Rows {
	if len(refused) == 0 {
		return r
	}
	columns := frame.New(0, len(r.frame.GetValues()))
	for m := range r.Messages() {
		if len(refused) > 0 && refused[0].Sequence == m.Sequence {
			refused = refused[1:]
			continue
		}
		addRow(columns, m.Sequence, &m)
	}
	if columns.Rows() == 0 {
		return nil
	}
	return &Rows{r.part, columns.Take(1<<62, 1<<31)}
}

func addRow(columns *frame.Columns, sequence uint64, m *Message) {
	micros, _ := m.micros()
	columns.Add(&frame.Row{Sequence: sequence, Key: m.Key, Value: m.Value, Time: micros, ID: m.ID, HasID: m.ID != ""})
	for i := range m.Headers {
		columns.AddHeader(m.Headers[i].Name, m.Headers[i].Value)
	}
}

// checkRefused checks that refused messages are messages of a range, each once, in order.
func checkRefused(refused []Refused, first, count uint64) error {
	next := first
	for _, r := range refused {
		if r.Sequence < next || r.Sequence >= first+count {
			return fmt.Errorf("message %d was refused: want messages %d to %d, each once, in order",
				r.Sequence, first, first+count-1)
		}
		next = r.Sequence + 1
	}
	return nil
}
