// Command numbers sends messages of 61 bytes for `headrace bench sdks`: numbers COUNT [RATE]. Without a rate, it sends them as
// fast as they are accepted. It prints one JSON object with what it measured.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/headrace/headrace/sdk/go/headrace"
)

const (
	messageBytes = 61
	kept         = 8192 // the number of messages whose times are kept
)

// numbers sends the messages 1 to count.
type numbers struct {
	count uint64
	rate  float64 // messages per second; 0 for as many as possible
	value []byte
	began time.Time

	mu      sync.Mutex
	settled uint64
	sent    [kept]time.Time
	latency [kept]float64 // milliseconds
}

func (s *numbers) read(ctx context.Context, p *headrace.Partition) iter.Seq2[headrace.Message, error] {
	return func(yield func(headrace.Message, error) bool) {
		first := p.Next(1)
		s.began = time.Now()
		for n := first; n <= s.count; n++ {
			if s.rate > 0 && !s.pace(ctx, p, n, s.began.Add(time.Duration(float64(n-first)/s.rate*1e9))) {
				return
			}
			if !yield(headrace.Message{Value: s.value, Sequence: n}, nil) {
				return
			}
		}
	}
}

// pace waits until a message is due, and notes when it is sent.
func (s *numbers) pace(ctx context.Context, p *headrace.Partition, n uint64, due time.Time) bool {
	if wait := time.Until(due); wait > 0 {
		p.CaughtUp()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[n%kept] = time.Now()
	return true
}

func (s *numbers) acknowledged(_ context.Context, _ string, position headrace.Position) error {
	if s.rate == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; s.settled < position.Sequence; s.settled++ {
		at := (s.settled + 1) % kept
		s.latency[at] = time.Since(s.sent[at]).Seconds() * 1000
	}
	return nil
}

func main() {
	count, rate, err := arguments()
	if err != nil {
		fmt.Fprintln(os.Stderr, "usage: numbers COUNT [RATE]:", err)
		os.Exit(2)
	}
	value := make([]byte, messageBytes)
	for at := range value {
		value[at] = 'm'
	}
	s := &numbers{count: count, rate: rate, value: value}
	source := &headrace.Source{Name: "numbers-go", Read: s.read, Acknowledged: s.acknowledged}
	if err := headrace.Run(context.Background(), source, nil); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	measured := map[string]any{"messages": count, "seconds": time.Since(s.began).Seconds()}
	if rate > 0 {
		latencies := slices.Sorted(slices.Values(s.latency[:min(count, kept)]))
		measured["ack_p50_ms"] = latencies[len(latencies)/2]
	}
	if err := json.NewEncoder(os.Stdout).Encode(measured); err != nil {
		os.Exit(1)
	}
}

func arguments() (count uint64, rate float64, err error) {
	if len(os.Args) < 2 {
		return 0, 0, fmt.Errorf("the count is missing")
	}
	if count, err = strconv.ParseUint(os.Args[1], 10, 63); err != nil {
		return 0, 0, err
	}
	if len(os.Args) > 2 {
		rate, err = strconv.ParseFloat(os.Args[2], 64)
	}
	return count, rate, err
}
