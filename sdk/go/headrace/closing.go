package headrace

import (
	"log/slog"
	"sync"
	"time"
)

// closing calls a connector's Close once none of its other functions runs.
type closing struct {
	close   func() error
	timeout time.Duration
	log     *slog.Logger
	// abandoned is the goroutines of sessions in which a function had not returned.
	abandoned []*sync.WaitGroup
}

// run calls Close. It logs what fails or takes too long.
func (c *closing) run() {
	if c.close == nil {
		return
	}
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	idle := make(chan struct{})
	go func() { // It ends with the last function that was abandoned.
		defer close(idle)
		for _, workers := range c.abandoned {
			workers.Wait()
		}
	}()
	select {
	case <-idle:
	case <-timer.C:
		c.log.Error("Close is not called, because another function has not returned", "timeout", c.timeout)
		return
	}
	closed := make(chan error, 1)
	go func() { closed <- c.close() }()
	select {
	case err := <-closed:
		if err != nil {
			c.log.Error("Close has failed", "error", err)
		}
	case <-timer.C:
		c.log.Error("Close has not returned; the connector ends without it", "timeout", c.timeout)
	}
}
