package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "example.com/go-source/internal/protocol/v1"
)

func frameOf(messages ...Message) *pb.Frame {
	var columns Columns
	for _, m := range messages {
		columns.Add(&m)
	}
	return columns.Frame(7)
}

func uint32s(values ...uint32) []byte {
	var column []byte
	for _, value := range values {
		column = binary.LittleEndian.AppendUint32(column, value)
	}
	return column
}

func TestAFrameHasEveryColumn(t *testing.T) {
	micro := time.UnixMicro(1).UTC()
	got := frameOf(
		Message{Sequence: 5, Key: []byte("k"), Value: []byte("first"), EventTime: micro, Headers: []Header{{"a", []byte("1")}, {"bb", nil}}},
		Message{Sequence: 6, Value: []byte{}},
		Message{Sequence: 9, Key: []byte{}, Headers: []Header{{"c", []byte{}}}},
	)
	null := int64(math.MinInt64)
	var times []byte
	for _, value := range []int64{1, null, null} {
		times = binary.LittleEndian.AppendUint64(times, uint64(value))
	}
	want := &pb.Frame{
		StreamId:           7,
		FirstSequence:      5,
		Count:              3,
		SequenceDeltas:     uint32s(1, 3),
		Keys:               []byte("k"),
		KeyLengths:         uint32s(1, nullLength, 0),
		Values:             []byte("first"),
		ValueLengths:       uint32s(5, 0, nullLength),
		EventTimes:         times,
		HeaderCounts:       uint32s(2, 0, 1),
		HeaderNames:        []byte("abbc"),
		HeaderNameLengths:  uint32s(1, 2, 1),
		HeaderValues:       []byte("1"),
		HeaderValueLengths: uint32s(1, nullLength, 0),
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestColumnsThatSayNothingAreLeftOut(t *testing.T) {
	got := frameOf(Message{Sequence: 1, Value: []byte("v")}, Message{Sequence: 2, Value: []byte("w")})
	want := &pb.Frame{StreamId: 7, FirstSequence: 1, Count: 2, Values: []byte("vw"), ValueLengths: uint32s(1, 1)}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestValuesThatAreAllNullKeepTheirLengths(t *testing.T) {
	got := frameOf(Message{Sequence: 1}, Message{Sequence: 2})
	if !bytes.Equal(got.GetValueLengths(), uint32s(nullLength, nullLength)) {
		t.Errorf("got value lengths %x", got.GetValueLengths())
	}
}

func TestAFrameIsNoLargerThanItsMessagesSay(t *testing.T) {
	for _, count := range []uint64{1, 2, 10, 1000, 5000} {
		part := numbers{first: math.MaxInt64 - 5000*3, step: 3, last: math.MaxInt64}
		st := &stream{id: math.MaxUint32, numbers: part, next: part.first}
		bound := uint64(frameOverhead)
		for i := range count {
			m := message(part.first + i*part.step)
			bound += m.size()
		}
		frame, _ := pack(st, count, math.MaxUint64)
		if size := uint64(proto.Size(frame)); uint64(frame.GetCount()) != count || size > bound {
			t.Errorf("%d messages: a frame of %d messages and %d bytes, bound %d", count, frame.GetCount(), size, bound)
		}
	}
}

func TestPackKeepsItsLimitsAndGoesOnWhereItStopped(t *testing.T) {
	st := &stream{id: 1, numbers: partition(1, 3, 1000)}
	st.next = st.numbers.after(0)
	want := st.next
	for st.next <= st.numbers.last {
		frame, next := pack(st, 50, 2000)
		if frame.GetFirstSequence() != want || frame.GetCount() > 50 || proto.Size(frame) > 2000 {
			t.Fatalf("frame at %d (want %d) of %d messages, %d bytes", frame.GetFirstSequence(), want, frame.GetCount(), proto.Size(frame))
		}
		want += 3 * uint64(frame.GetCount())
		st.next = next
	}
	if want != 1001 { // 998 is the last of the partition, and what follows it would be 1001.
		t.Errorf("ended before %d", want)
	}
	if frame, _ := pack(&stream{numbers: st.numbers, next: 2}, 50, 1); frame.GetCount() != 1 {
		t.Errorf("a message above the limit was packed as %d", frame.GetCount())
	}
}
