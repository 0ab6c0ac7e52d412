package backoff_test

import (
	"testing"
	"time"

	"github.com/headrace/headrace/sdk/go/internal/backoff"
	"github.com/headrace/headrace/sdk/go/internal/vectors"
)

func TestWaitsAreWithinTheirBounds(t *testing.T) {
	var found struct {
		Cases []struct {
			First   int `json:"first_ms"`
			Longest int `json:"max_ms"`
			Bounds  []struct {
				Attempt int `json:"attempt"`
				Bound   int `json:"bound_ms"`
			} `json:"bounds"`
		} `json:"cases"`
	}
	vectors.Read(t, "backoff.json", &found)
	for _, test := range found.Cases {
		random := 0.0
		b := backoff.Backoff{
			First: milliseconds(test.First), Longest: milliseconds(test.Longest), Random: func() float64 { return random },
		}
		for _, want := range test.Bounds {
			for _, share := range []float64{0, 0.5, 1} {
				random = share
				b.Reset()
				for range want.Attempt - 1 {
					b.Next()
				}
				if got := b.Next(); got != time.Duration(share*float64(milliseconds(want.Bound))) {
					t.Errorf("attempt %d of %d to %d ms: waits %v of %d ms", want.Attempt, test.First, test.Longest, got, want.Bound)
				}
			}
		}
	}
}

func TestTheDefaultIsRandom(t *testing.T) {
	lowest, highest := time.Hour, time.Duration(0)
	for range 10_000 {
		b := backoff.Backoff{First: time.Second, Longest: time.Second}
		wait := b.Next()
		lowest, highest = min(lowest, wait), max(highest, wait)
	}
	if lowest > 10*time.Millisecond || highest < 990*time.Millisecond || highest > time.Second {
		t.Errorf("waits are from %v to %v", lowest, highest)
	}
}

func milliseconds(number int) time.Duration {
	return time.Duration(number) * time.Millisecond
}
