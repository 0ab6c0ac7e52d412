package main

import (
	"context"
	"iter"
	"log/slog"
	"strconv"
	"time"

	"github.com/headrace/headrace/sdk/go/headrace"
)

const (
	// keys is how many different keys the messages have.
	keys = 100
	// reportEvery is how many messages there are between two reports of what is left.
	reportEvery = 10_000
)

// began is when the first message happened; each further one happened a millisecond after the one before.
var began = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// numbers is the data: the numbers 1 to count, dealt out to partitions. A number is the sequence of its message, and always
// yields the same message, so the source is replayable.
type numbers struct {
	count, partitions uint64
	rate              float64 // messages a second, over all partitions; 0 is no limit
}

// list names the partitions.
func (n *numbers) list(context.Context) ([]string, error) {
	names := make([]string, n.partitions)
	for index := range names {
		names[index] = strconv.Itoa(index)
	}
	return names, nil
}

// read yields every number of a partition that follows the position.
func (n *numbers) read(ctx context.Context, p *headrace.Partition) iter.Seq2[headrace.Message, error] {
	return func(yield func(headrace.Message, error) bool) {
		index, err := strconv.ParseUint(p.Name, 10, 64)
		if err != nil {
			yield(headrace.Message{}, err)
			return
		}
		next := n.after(index, p.Next(0))
		slog.Info("reading", "partition", p.Name, "next", next)
		pace := newPacer(n.rate / float64(n.partitions))
		for yielded := 0; next <= n.count; yielded++ {
			if yielded%reportEvery == 0 {
				p.Report(n.left(next))
			}
			if !pace.wait(ctx) || !yield(message(next), nil) {
				return
			}
			next += n.partitions
		}
	}
}

// after returns the first number of a partition that is at least `from`.
func (n *numbers) after(index, from uint64) uint64 {
	first := index + 1
	if from <= first {
		return first
	}
	return first + (from-first+n.partitions-1)/n.partitions*n.partitions
}

// left says what there is from a number of a partition on.
func (n *numbers) left(from uint64) headrace.Backlog {
	if from > n.count {
		return headrace.Backlog{Messages: new(uint64)}
	}
	steps := (n.count - from) / n.partitions
	return headrace.Backlog{Messages: new(steps + 1), LatestSequence: new(from + steps*n.partitions)}
}

// message returns the message of a number. Every tenth has a header.
func message(number uint64) headrace.Message {
	m := headrace.Message{
		Sequence:  number,
		Key:       text("key-", number%keys, ""),
		Value:     text("message ", number, " from the go-source example"),
		EventTime: began.Add(time.Duration(number) * time.Millisecond),
	}
	if number%10 == 0 {
		m.Headers = []headrace.Header{{Name: "tens", Value: text("", number/10, "")}}
	}
	return m
}

// text joins its arguments; it is quicker than fmt, which would take most of the time here.
func text(before string, number uint64, after string) []byte {
	const digits = 20
	joined := append(make([]byte, 0, len(before)+digits+len(after)), before...)
	return append(strconv.AppendUint(joined, number, 10), after...)
}

// pacer spreads messages evenly over time.
type pacer struct {
	interval time.Duration // 0 is no limit
	next     time.Time
}

func newPacer(rate float64) *pacer {
	if rate == 0 {
		return &pacer{}
	}
	return &pacer{interval: time.Duration(float64(time.Second) / rate), next: time.Now()}
}

// wait waits until the next message is due; it returns false once ctx is done.
func (p *pacer) wait(ctx context.Context) bool {
	if p.interval == 0 {
		return true
	}
	p.next = p.next.Add(p.interval)
	timer := time.NewTimer(time.Until(p.next))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
