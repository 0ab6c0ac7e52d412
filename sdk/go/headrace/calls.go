package headrace

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// looksInTime is how often calls are looked at within the time after which a function is named.
const looksInTime = 4

// ownPrefix begins the names of the SDK's functions in a stack.
const ownPrefix = "github.com/headrace/headrace/sdk/go/headrace."

// calls are the functions of a connector that have not returned. One that does not return for long is named while the connector
// runs, with the line where its goroutine stands.
type calls struct {
	name   string // such as "source orders"
	limit  time.Duration
	log    *slog.Logger
	health *Health

	mu   sync.Mutex
	open map[*running]struct{}
}

// running is a function that has not returned.
type running struct {
	function, stream, goroutine string
	moves                       atomic.Uint64 // how often it has done something, such as take rows

	seen  bool
	moved uint64
	since time.Time
	due   time.Duration
}

// standing is a function of a stack, and the line where it stands.
type standing struct {
	function, line string
}

func newCalls(name string, o *Options, log *slog.Logger) *calls {
	return &calls{name: name, limit: o.StuckTimeout, log: log, health: o.Health, open: map[*running]struct{}{}}
}

// during calls a function, about a stream if that is not empty.
func (c *calls) during(function, stream string, f func() error) error {
	return c.moving(function, stream, func(*running) error { return f() })
}

// moving calls a function as during does, and gives it the call, whose moves it counts.
func (c *calls) moving(function, stream string, f func(*running) error) error {
	r := &running{function: function, stream: stream, goroutine: goroutine()}
	c.mu.Lock()
	c.open[r] = struct{}{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.open, r)
		c.mu.Unlock()
	}()
	return f(r)
}

// watch looks at the calls until the function that it returns is called.
func (c *calls) watch() func() {
	over, done := make(chan struct{}), make(chan struct{})
	ticker := time.NewTicker(max(c.limit/looksInTime, time.Millisecond))
	go func() {
		defer close(done)
		for {
			select {
			case now := <-ticker.C:
				c.look(now)
			case <-over:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(over)
		<-done
	}
}

// look names the functions that are overdue.
func (c *calls) look(now time.Time) {
	c.mu.Lock()
	calls := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	// Without the lock: neither stacks nor a slow logger may hold up a function that begins or returns.
	for _, r := range calls {
		if !r.mayBeOverdue(now, c.limit) {
			continue
		}
		// Only now, since it stops all goroutines for a moment.
		places := ofConnector(placesOf(stacks(), r.goroutine))
		if !c.isOpen(r) {
			continue // The goroutine may have stood in another function already.
		}
		sentence := r.told(now, c.limit, places)
		if sentence == "" {
			continue
		}
		if r.stream == "" {
			c.log.Warn(c.name + ": " + sentence)
		} else {
			c.log.Warn("stream "+r.stream+": "+sentence, "stream", r.stream)
		}
		c.health.Survived(r.stream, fmt.Errorf("%s", sentence))
	}
}

func (c *calls) isOpen(r *running) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.open[r]
	return open
}

// mayBeOverdue says whether it is time to look where the call stands.
func (r *running) mayBeOverdue(now time.Time, limit time.Duration) bool {
	if moves := r.moves.Load(); !r.seen || moves != r.moved {
		r.seen, r.moved, r.since, r.due = true, moves, now, limit
	}
	return now.Sub(r.since) >= r.due
}

// told returns what to tell of a function that stands at these places, the innermost first; nothing if it waits for the SDK.
func (r *running) told(now time.Time, limit time.Duration, places []standing) string {
	if len(places) == 0 {
		r.since, r.due = now, limit
		return ""
	}
	took := now.Sub(r.since)
	r.due = 2 * took
	outer, inner := places[len(places)-1], places[0]
	stands := outer.line
	if inner != outer {
		stands += ", which waits at " + inner.line
	}
	return fmt.Sprintf("%s (%s) has not returned for %.1f s; it stands at %s", r.function, outer.function, took.Seconds(), stands)
}

// goroutine returns how stacks name this goroutine.
func goroutine() string {
	var head [64]byte
	words := strings.Fields(string(head[:runtime.Stack(head[:], false)]))
	return strings.Join(words[:2], " ") + " "
}

// stacks returns the stacks of all goroutines.
func stacks() []byte {
	for size := 1 << 18; ; size *= 2 {
		text := make([]byte, size)
		if n := runtime.Stack(text, true); n < size {
			return text[:n]
		}
	}
}

// placesOf returns the stack of a goroutine, the innermost place first.
func placesOf(stacks []byte, goroutine string) []standing {
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		text, found := strings.CutPrefix(string(stack), goroutine)
		if !found {
			continue
		}
		lines := strings.Split(text, "\n")[1:]
		var places []standing
		for i := 0; i+1 < len(lines); i += 2 {
			if strings.HasPrefix(lines[i], "created by ") {
				break
			}
			function, line := lines[i], strings.TrimSpace(lines[i+1])
			if at := strings.LastIndexByte(function, '('); at > 0 {
				function = function[:at]
			}
			line, _, _ = strings.Cut(line, " ")
			places = append(places, standing{function, line})
		}
		return places
	}
	return nil
}

// ofConnector returns the places of the connector, the innermost first; none where it waits for the SDK, such as for more rows.
func ofConnector(places []standing) []standing {
	for i, p := range places {
		if strings.HasPrefix(p.function, ownPrefix) {
			places = places[:i]
			break
		}
	}
	for len(places) > 0 && places[len(places)-1].isOfLibrary() {
		places = places[:len(places)-1]
	}
	return places
}

// library is the folder of the standard library, as stacks show it; empty in a program that was built with -trimpath.
var library = func() string {
	f := runtime.FuncForPC(reflect.ValueOf(time.Sleep).Pointer())
	file, _ := f.FileLine(f.Entry())
	return strings.TrimSuffix(file, "time/sleep.go")
}()

// isOfLibrary says whether a function is of the standard library.
func (p standing) isOfLibrary() bool {
	if library != "" {
		return strings.HasPrefix(p.line, library)
	}
	return strings.HasPrefix(p.function, "sync.") || strings.HasPrefix(p.function, "runtime.") || strings.HasPrefix(p.function, "internal/")
}
