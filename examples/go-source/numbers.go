package main

import (
	"strconv"
	"time"
)

// keys is how many different keys the messages have.
const keys = 100

// began is when the first message happened; each further one happened a millisecond after the one before.
var began = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// numbers is one partition of the data: first, first+step, and so on up to last. A number is the sequence of its message,
// and always yields the same message, so the source is replayable.
type numbers struct {
	first, step, last uint64
}

// partition deals the numbers 1 to count out to a number of partitions and returns the part of one of them.
func partition(index, partitions, count uint64) numbers {
	part := numbers{first: index + 1, step: partitions}
	if count > index {
		part.last = count - (count-part.first)%partitions
	}
	return part
}

// after returns the first number above the given one, which need not be one of the partition's.
func (p numbers) after(sequence uint64) uint64 {
	if sequence < p.first {
		return p.first
	}
	return sequence + p.step - (sequence-p.first)%p.step
}

// left returns how many numbers there are from the given one on.
func (p numbers) left(from uint64) uint64 {
	if from > p.last {
		return 0
	}
	return (p.last-from)/p.step + 1
}

// message returns the message of a number. Every tenth has a header.
func message(number uint64) Message {
	m := Message{
		Sequence:  number,
		Key:       text("key-", number%keys, ""),
		Value:     text("message ", number, " from the go-source example"),
		EventTime: began.Add(time.Duration(number) * time.Millisecond),
	}
	if number%10 == 0 {
		m.Headers = []Header{{Name: "tens", Value: text("", number/10, "")}}
	}
	return m
}

// text joins its arguments; it is quicker than fmt, which would take most of the time here.
func text(before string, number uint64, after string) []byte {
	const digits = 20
	joined := append(make([]byte, 0, len(before)+digits+len(after)), before...)
	return append(strconv.AppendUint(joined, number, 10), after...)
}
