package main

import "time"

// pacer spreads messages over time.
type pacer struct {
	rate      float64 // messages a second; 0 is no limit
	allowance float64 // messages that may be sent now
	filledAt  time.Time
}

func newPacer(rate float64) pacer {
	return pacer{rate: rate, filledAt: time.Now()}
}

// due returns how many messages may be sent now. It rises once a linger, so that they are gathered into frames meanwhile, and
// up to what a second allows.
func (p *pacer) due(now time.Time, linger time.Duration) uint64 {
	if p.rate == 0 {
		return frameMessages
	}
	if since := now.Sub(p.filledAt); since >= linger {
		p.allowance = min(p.allowance+p.rate*since.Seconds(), max(p.rate, 1))
		p.filledAt = now
	}
	return uint64(p.allowance)
}

// spend notes that messages were sent.
func (p *pacer) spend(count uint64) {
	if p.rate > 0 {
		p.allowance -= float64(count)
	}
}

// wait returns how long it takes until more is due.
func (p *pacer) wait(linger time.Duration) time.Duration {
	if p.rate == 0 {
		return reportInterval
	}
	message := time.Duration(float64(time.Second) / p.rate)
	return min(max(linger, message, time.Millisecond), reportInterval)
}
