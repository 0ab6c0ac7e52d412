// Package frame turns messages into the packed columns of a frame, and reads them back.
package frame

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/proto"

	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

const (
	// NullTime is the event time of a message that has none.
	NullTime = math.MinInt64
	// MinTime is the first microsecond of the year 1, the earliest event time of a source.
	MinTime = -62_135_596_800_000_000
	// MaxTime is the last microsecond of the year 9999, the latest event time of a source.
	MaxTime = 253_402_300_799_999_999
	// MaxDelta is the largest distance between the sequences of two neighbours in a frame.
	MaxDelta = math.MaxUint32
	// UnannouncedCursorBytes is the size of the largest cursor at a gateway that announces none.
	UnannouncedCursorBytes = 4096
	// MaxSequence is the largest sequence.
	MaxSequence = math.MaxInt64

	// envelope is at least what a frame needs besides the bytes of its columns: tags, lengths, id, sequence and count.
	envelope = 128
)

// Row is one message without its headers.
type Row struct {
	Sequence uint64
	Key      []byte // nil is null
	Value    []byte // nil is null
	Time     int64  // microseconds since 1970-01-01 UTC, or NullTime
	ID       string
	HasID    bool // without it, the id is null
}

// mark is a place between two rows, and where it is in each column.
type mark struct {
	row, key, value, id      int
	header, name, headerData int
	sequence                 uint64 // of the row that follows
}

// Columns holds consecutive messages of one stream in columns. Messages are added at its end and taken from its front, as
// frames. The zero value is not ready to use: see New.
type Columns struct {
	stream uint32
	rows   int
	last   uint64
	deltas []byte // empty as long as every distance is 1
	gaps   bool

	keys, values, ids         column
	times                     []byte
	timed                     bool
	headerCounts              []byte
	headers                   int
	headerNames, headerValues column

	cursor   []byte
	cursorAt int // the number of rows at or before the cursor

	taken mark
}

// New returns empty columns of a stream, by its id, with room for this many bytes of values.
func New(stream uint32, capacity int) *Columns {
	c := &Columns{stream: stream}
	c.values = column{data: make([]byte, 0, capacity), present: true}
	c.headerNames.present = true
	return c
}

// Add appends a message. Its sequence is larger than the one before, by at most MaxDelta.
func (c *Columns) Add(row *Row) {
	if c.rows == 0 {
		c.taken.sequence = row.Sequence
	} else if delta := row.Sequence - c.last; delta != 1 || c.gaps {
		c.addDelta(uint32(delta))
	}
	c.last = row.Sequence
	c.keys.add(row.Key, c.rows)
	if row.Value == nil {
		c.values.lengths = binary.LittleEndian.AppendUint32(c.values.lengths, nullLength)
	} else {
		c.values.add(row.Value, c.rows)
	}
	if row.Time != NullTime || c.timed {
		c.addTime(row.Time)
	}
	if row.HasID {
		c.ids.addText(row.ID, c.rows)
	} else {
		c.ids.add(nil, c.rows)
	}
	if c.headers > 0 {
		c.headerCounts = binary.LittleEndian.AppendUint32(c.headerCounts, 0)
	}
	c.rows++
}

// AddHeader appends a header to the last message; a nil value is null.
func (c *Columns) AddHeader(name string, value []byte) {
	if c.headers == 0 {
		c.headerCounts = make([]byte, 4*c.rows)
	}
	count := c.headerCounts[4*(c.rows-1):]
	binary.LittleEndian.PutUint32(count, binary.LittleEndian.Uint32(count)+1)
	c.headerNames.addText(name, c.headers)
	c.headerValues.fill(c.headers)
	c.headerValues.add(value, c.headers)
	c.headers++
}

// SetCursor says where to seek for what follows the last message.
func (c *Columns) SetCursor(cursor []byte) {
	c.cursor = append(make([]byte, 0, len(cursor)), cursor...)
	c.cursorAt = c.rows
}

// Rows is how many messages are left to take.
func (c *Columns) Rows() int {
	return c.rows - c.taken.row
}

// ValueBytes is the size of all values, in bytes.
func (c *Columns) ValueBytes() int {
	return len(c.values.data)
}

// Last is the sequence of the last message.
func (c *Columns) Last() uint64 {
	return c.last
}

// Size is at least the size of a frame with everything that was added, in bytes.
func (c *Columns) Size() int {
	return envelope + len(c.deltas) + c.keys.size() + c.values.size() + len(c.times) + c.ids.size() + len(c.headerCounts) +
		c.headerNames.size() + c.headerValues.size() + len(c.cursor)
}

// Take takes the next messages as a frame within limits of bytes and messages; nil if not even one fits. The frame refers to
// the memory of the columns.
func (c *Columns) Take(maxBytes uint64, maxMessages int) *pb.Frame {
	to := c.fit(maxBytes, maxMessages)
	if to.row == c.taken.row {
		return nil
	}
	frame := c.frame(to)
	c.taken = to
	return frame
}

// NextSize is the size of a frame with the next message alone, in bytes.
func (c *Columns) NextSize() uint64 {
	return uint64(proto.Size(c.frame(c.after(c.taken))))
}

// Ready is the size of the largest frame within these limits that could be taken now, in bytes and messages.
func (c *Columns) Ready(maxBytes uint64, maxMessages int) (bytes, messages uint64) {
	frame := c.frame(c.fit(maxBytes, maxMessages))
	return uint64(proto.Size(frame)), uint64(frame.GetCount())
}

func (c *Columns) addDelta(delta uint32) {
	if !c.gaps {
		c.gaps = true
		for range c.rows - 1 {
			c.deltas = binary.LittleEndian.AppendUint32(c.deltas, 1)
		}
	}
	c.deltas = binary.LittleEndian.AppendUint32(c.deltas, delta)
}

func (c *Columns) addTime(micros int64) {
	if !c.timed {
		c.timed = true
		unknown := int64(NullTime)
		for range c.rows {
			c.times = binary.LittleEndian.AppendUint64(c.times, uint64(unknown))
		}
	}
	c.times = binary.LittleEndian.AppendUint64(c.times, uint64(micros))
}

// fit returns the place up to which the next messages make a frame within the limits.
func (c *Columns) fit(maxBytes uint64, maxMessages int) mark {
	if c.taken.row == 0 && c.rows <= maxMessages && uint64(c.Size()) <= maxBytes {
		return c.end()
	}
	// The bound is a little above the size of the frame, except for a single message, which must not fail by it.
	to, size := c.taken, uint64(envelope+len(c.cursor))
	for to.row < c.rows && to.row-c.taken.row < maxMessages {
		next := c.after(to)
		size += c.between(to, next)
		if size > maxBytes && (to.row > c.taken.row || uint64(proto.Size(c.frame(next))) > maxBytes) {
			break
		}
		to = next
	}
	return to
}

// after returns the place one row further.
func (c *Columns) after(from mark) mark {
	to := from
	to.key += c.keys.at(from.row)
	to.value += c.values.at(from.row)
	to.id += c.ids.at(from.row)
	if c.headers > 0 {
		for range binary.LittleEndian.Uint32(c.headerCounts[4*from.row:]) {
			to.name += c.headerNames.at(to.header)
			to.headerData += c.headerValues.at(to.header)
			to.header++
		}
	}
	switch {
	case !c.gaps:
		to.sequence++
	case from.row < c.rows-1:
		to.sequence += uint64(binary.LittleEndian.Uint32(c.deltas[4*from.row:]))
	}
	to.row++
	return to
}

// end returns the place behind the last row.
func (c *Columns) end() mark {
	return mark{
		row: c.rows, key: len(c.keys.data), value: len(c.values.data), id: len(c.ids.data),
		header: c.headers, name: len(c.headerNames.data), headerData: len(c.headerValues.data),
	}
}

// between returns how many bytes of columns there are between two places.
func (c *Columns) between(from, to mark) uint64 {
	rows, headers := to.row-from.row, to.header-from.header
	size := to.key - from.key + to.value - from.value + to.id - from.id + to.name - from.name + to.headerData - from.headerData
	perRow := 4
	for _, present := range [...]bool{c.gaps, c.keys.present, c.ids.present, c.headers > 0} {
		if present {
			perRow += 4
		}
	}
	if c.timed {
		perRow += 8
	}
	return uint64(size + rows*perRow + headers*8)
}

// frame returns the messages up to a place as a frame.
func (c *Columns) frame(to mark) *pb.Frame {
	from := c.taken
	frame := &pb.Frame{StreamId: c.stream, FirstSequence: from.sequence, Count: uint32(to.row - from.row)}
	if c.gaps && frame.Count > 1 {
		frame.SequenceDeltas = c.deltas[4*from.row : 4*(to.row-1)]
	}
	frame.Keys, frame.KeyLengths = c.keys.slice(from.row, to.row, from.key, to.key)
	frame.Values, frame.ValueLengths = c.values.slice(from.row, to.row, from.value, to.value)
	frame.MessageIds, frame.MessageIdLengths = c.ids.slice(from.row, to.row, from.id, to.id)
	if c.timed {
		frame.EventTimes = c.times[8*from.row : 8*to.row]
	}
	if c.headers > 0 && to.header > from.header {
		frame.HeaderCounts = c.headerCounts[4*from.row : 4*to.row]
		frame.HeaderNames, frame.HeaderNameLengths = c.headerNames.slice(from.header, to.header, from.name, to.name)
		frame.HeaderValues, frame.HeaderValueLengths =
			c.headerValues.slice(from.header, to.header, from.headerData, to.headerData)
	}
	if c.cursorAt > from.row && c.cursorAt <= to.row {
		frame.Cursor = c.cursor
	}
	return frame
}
