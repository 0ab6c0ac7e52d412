package frame

import (
	"encoding/binary"
	"fmt"
	"iter"
	"unicode/utf8"

	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// Header is a named value that goes with a message.
type Header struct {
	Name  string
	Value []byte // nil is null
}

// Lengths returns the entries of a column of u32.
func Lengths(packed []byte) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for ; len(packed) >= 4; packed = packed[4:] {
			if !yield(binary.LittleEndian.Uint32(packed)) {
				return
			}
		}
	}
}

// Sequences yields the sequence of each message of a frame.
func Sequences(f *pb.Frame) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		sequence, deltas := f.GetFirstSequence(), f.GetSequenceDeltas()
		for index := range int(f.GetCount()) {
			if index > 0 && len(deltas) > 0 {
				sequence += uint64(binary.LittleEndian.Uint32(deltas[4*(index-1):]))
			} else if index > 0 {
				sequence++
			}
			if !yield(sequence) {
				return
			}
		}
	}
}

// LastSequence is the sequence of the last message of a frame.
func LastSequence(f *pb.Frame) uint64 {
	if len(f.GetSequenceDeltas()) == 0 {
		return f.GetFirstSequence() + uint64(f.GetCount()) - 1
	}
	last := f.GetFirstSequence()
	for delta := range Lengths(f.GetSequenceDeltas()) {
		last += uint64(delta)
	}
	return last
}

// Check says what is wrong with the columns of a frame; nil if they add up.
func Check(f *pb.Frame) error {
	count := int(f.GetCount())
	if count == 0 {
		return fmt.Errorf("a frame without messages")
	}
	if deltas := len(f.GetSequenceDeltas()); deltas != 0 && deltas != 4*(count-1) {
		return fmt.Errorf("sequence_deltas: %d bytes expected, %d arrived", 4*(count-1), deltas)
	}
	sequence := f.GetFirstSequence()
	for delta := range Lengths(f.GetSequenceDeltas()) {
		if delta == 0 {
			return fmt.Errorf("sequence %d comes twice", sequence)
		}
		sequence += uint64(delta)
	}
	// The distances of a frame cannot add up to 2^63, so that nothing wraps around unnoticed.
	if f.GetFirstSequence() > MaxSequence || LastSequence(f) > MaxSequence {
		return fmt.Errorf("sequences from %d to %d: 2^63 - 1 is the largest", f.GetFirstSequence(), LastSequence(f))
	}
	if times := len(f.GetEventTimes()); times != 0 && times != 8*count {
		return fmt.Errorf("event_times: %d bytes expected, %d arrived", 8*count, times)
	}
	headers := 0
	if counts := f.GetHeaderCounts(); len(counts) != 0 {
		if len(counts) != 4*count {
			return fmt.Errorf("header_counts: %d bytes expected, %d arrived", 4*count, len(counts))
		}
		for number := range Lengths(counts) {
			headers += int(number)
		}
	}
	for _, column := range [...]struct {
		name          string
		data, lengths []byte
		entries       int
		required      bool
	}{
		{"key", f.GetKeys(), f.GetKeyLengths(), count, false},
		{"value", f.GetValues(), f.GetValueLengths(), count, true},
		{"message_id", f.GetMessageIds(), f.GetMessageIdLengths(), count, false},
		{"header_name", f.GetHeaderNames(), f.GetHeaderNameLengths(), headers, headers > 0},
		{"header_value", f.GetHeaderValues(), f.GetHeaderValueLengths(), headers, headers > 0},
	} {
		if len(column.lengths) != 4*column.entries && (column.required || len(column.lengths) != 0) {
			return fmt.Errorf("%s_lengths: %d bytes expected, %d arrived", column.name, 4*column.entries, len(column.lengths))
		}
		sum := 0
		for length := range Lengths(column.lengths) {
			if length != nullLength {
				sum += int(length)
			} else if column.name == "header_name" {
				return fmt.Errorf("a header without a name")
			}
		}
		if sum != len(column.data) {
			return fmt.Errorf("%s_lengths add up to %d, and the size of the column is %d", column.name, sum, len(column.data))
		}
	}
	return checkTexts(f)
}

// checkTexts says which id or header name is not UTF-8, each by itself.
func checkTexts(f *pb.Frame) error {
	for _, column := range [...]struct {
		name string
		left entries
	}{
		{"message_id", entries{f.GetMessageIds(), f.GetMessageIdLengths()}},
		{"header_name", entries{f.GetHeaderNames(), f.GetHeaderNameLengths()}},
	} {
		for len(column.left.lengths) > 0 {
			if text := column.left.next(); !utf8.Valid(text) {
				return fmt.Errorf("a %s is not UTF-8: %q", column.name, text)
			}
		}
	}
	return nil
}

// Rows yields the messages of a frame that Check accepts, with their headers. They refer to the memory of the frame; the slice
// of headers is reused for the next message.
func Rows(f *pb.Frame) iter.Seq2[Row, []Header] {
	return func(yield func(Row, []Header) bool) {
		keys := entries{f.GetKeys(), f.GetKeyLengths()}
		values := entries{f.GetValues(), f.GetValueLengths()}
		ids := entries{f.GetMessageIds(), f.GetMessageIdLengths()}
		names := entries{f.GetHeaderNames(), f.GetHeaderNameLengths()}
		headerValues := entries{f.GetHeaderValues(), f.GetHeaderValueLengths()}
		times, counts := f.GetEventTimes(), f.GetHeaderCounts()
		var row Row
		var headers []Header
		index := -1
		for row.Sequence = range Sequences(f) {
			index++
			id := ids.next()
			row.Key, row.Value, row.ID, row.HasID, row.Time = keys.next(), values.next(), string(id), id != nil, NullTime
			if len(times) > 0 {
				row.Time = int64(binary.LittleEndian.Uint64(times[8*index:]))
			}
			headers = headers[:0]
			if len(counts) > 0 {
				for range binary.LittleEndian.Uint32(counts[4*index:]) {
					headers = append(headers, Header{string(names.next()), headerValues.next()})
				}
			}
			if !yield(row, headers) {
				return
			}
		}
	}
}

// entries is what is left of a column.
type entries struct {
	data, lengths []byte
}

// next takes the next entry; nil is null, also where the column is absent.
func (e *entries) next() []byte {
	if len(e.lengths) == 0 {
		return nil
	}
	length := binary.LittleEndian.Uint32(e.lengths)
	e.lengths = e.lengths[4:]
	if length == nullLength {
		return nil
	}
	if length == 0 {
		return []byte{}
	}
	entry := e.data[:length:length]
	e.data = e.data[length:]
	return entry
}
