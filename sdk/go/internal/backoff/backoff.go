// Package backoff spreads the attempts of clients to reach a server that is away.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff is exponential, with full jitter: each wait is between 0 and a bound that doubles.
type Backoff struct {
	// First is the bound of the first wait.
	First time.Duration
	// Longest is the bound of all waits.
	Longest time.Duration
	// Random returns a number of [0, 1); nil is math/rand.
	Random func() float64

	attempts int
}

// Next returns how long to wait now.
func (b *Backoff) Next() time.Duration {
	bound := b.Bound(b.attempts)
	b.attempts++
	random := rand.Float64
	if b.Random != nil {
		random = b.Random
	}
	return time.Duration(float64(bound) * random())
}

// Bound returns the longest wait after this many failed attempts.
func (b *Backoff) Bound(attempts int) time.Duration {
	bound := b.First
	for range attempts {
		if bound >= b.Longest/2 {
			return b.Longest
		}
		bound *= 2
	}
	return min(bound, b.Longest)
}

// Reset starts again with the first wait: an attempt has succeeded.
func (b *Backoff) Reset() {
	b.attempts = 0
}
