package main

import (
	"encoding/binary"
	"math"
	"time"

	pb "example.com/go-source/internal/protocol/v1"
)

const (
	nullLength = math.MaxUint32
	nullTime   = math.MinInt64

	// frameOverhead is more than a frame needs beside its columns: tags, lengths, sequence and count.
	frameOverhead = 128
)

// Message is one message of a stream.
type Message struct {
	Sequence  uint64
	Key       []byte    // nil is null
	Value     []byte    // nil is null
	EventTime time.Time // zero is null
	Headers   []Header
}

// Header is a named value that goes with a message.
type Header struct {
	Name  string
	Value []byte // nil is null
}

// size returns the most bytes that the message adds to a frame.
func (m *Message) size() uint64 {
	size := 4 + 4 + len(m.Key) + 4 + len(m.Value) + 8 + 4 // delta, key, value, event time, header count
	for _, header := range m.Headers {
		size += 4 + len(header.Name) + 4 + len(header.Value)
	}
	return uint64(size)
}

// Columns gathers the messages of a frame. The zero value is empty and ready to use.
type Columns struct {
	count       uint32
	first, last uint64
	deltas      []byte
	gaps        bool // some delta is not 1

	keys, values              column
	times                     []byte
	timed                     bool // some event time is not null
	headerCounts              []byte
	headerNames, headerValues column
}

// Add appends a message, whose sequence must be larger than the one before.
func (c *Columns) Add(m *Message) {
	if c.count == 0 {
		c.first = m.Sequence
	} else {
		delta := uint32(m.Sequence - c.last)
		c.deltas = binary.LittleEndian.AppendUint32(c.deltas, delta)
		c.gaps = c.gaps || delta != 1
	}
	c.last = m.Sequence
	c.count++
	c.keys.add(m.Key)
	c.values.add(m.Value)
	micros := int64(nullTime)
	if !m.EventTime.IsZero() {
		micros = m.EventTime.UnixMicro()
		c.timed = true
	}
	c.times = binary.LittleEndian.AppendUint64(c.times, uint64(micros))
	c.headerCounts = binary.LittleEndian.AppendUint32(c.headerCounts, uint32(len(m.Headers)))
	for _, header := range m.Headers {
		c.headerNames.add([]byte(header.Name))
		c.headerValues.add(header.Value)
	}
}

// Frame returns the messages as a frame of a stream. Columns that say nothing are left out. The frame takes over the memory
// of the columns, which must not be used again.
func (c *Columns) Frame(streamID uint32) *pb.Frame {
	frame := &pb.Frame{
		StreamId:      streamID,
		FirstSequence: c.first,
		Count:         c.count,
		Values:        c.values.bytes,
		ValueLengths:  c.values.lengths,
	}
	if c.gaps {
		frame.SequenceDeltas = c.deltas
	}
	if c.keys.filled {
		frame.Keys, frame.KeyLengths = c.keys.bytes, c.keys.lengths
	}
	if c.timed {
		frame.EventTimes = c.times
	}
	if len(c.headerNames.lengths) > 0 {
		frame.HeaderCounts = c.headerCounts
		frame.HeaderNames, frame.HeaderNameLengths = c.headerNames.bytes, c.headerNames.lengths
		frame.HeaderValues, frame.HeaderValueLengths = c.headerValues.bytes, c.headerValues.lengths
	}
	return frame
}

// column is the entries of one column, joined, and the length of each.
type column struct {
	bytes, lengths []byte
	filled         bool // some entry is not null
}

func (c *column) add(entry []byte) {
	length := uint32(nullLength)
	if entry != nil {
		length = uint32(len(entry))
		c.bytes = append(c.bytes, entry...)
		c.filled = true
	}
	c.lengths = binary.LittleEndian.AppendUint32(c.lengths, length)
}
