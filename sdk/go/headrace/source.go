package headrace

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// Source is where messages come from, in one or more partitions, each of which is a stream. Name and Read are required.
//
// A source is replayable, unless Redelivering is set: the same position always yields the same messages, as in a file or a
// log. The functions of one partition are never called concurrently with themselves, but Acknowledged and Settle run on
// another goroutine than Read. An error that a function returns ends the connector, as a [SourceError].
//
// A growing key of a table is no position where several writers commit out of order: row 42 may be visible before row 41, and a
// source that has passed 42 never reads 41. Stop at a missing key until all transactions that were open when the gap was met
// have ended, or read only rows that are older than the longest transaction.
type Source struct {
	// Name is the source part of stream names: partition "0" of "orders" is the stream "orders/0". ASCII letters, digits and
	// "._-".
	Name string

	// Read yields the messages of a partition after p.Position, in order; from the first one that exists if that is nil. It
	// is called when a query waits for the stream, and again after each reconnect.
	//
	// Returning means that the partition has ended for ever. Yielding [ErrPaused] or [ErrGone] ends it in another way, a
	// [PositionLostError] says that the source no longer has what follows the position, and any other error ends the
	// connector. A source that does not end waits for its next message, until ctx is done. It should call p.CaughtUp before
	// it waits.
	Read func(ctx context.Context, p *Partition) iter.Seq2[Message, error]

	// Partitions lists the partitions that exist now. It is called at the start of a session, and every few seconds after
	// that, so that partitions may appear. One that is no longer listed continues until its Read ends. The connector ends once
	// all have ended and are acknowledged. Optional: without it, there is one, named "0".
	Partitions func(ctx context.Context) ([]string, error)

	// Acknowledged tells that everything up to a position is in the checkpoint of every query that reads the stream. Only now
	// may the source delete it. Called at most once for a position and never with an older one in the same session; it may
	// skip positions. Also called when a stream is opened, with what was acknowledged before. Optional.
	Acknowledged func(ctx context.Context, partition string, position Position) error

	// Settle acknowledges messages at the system behind the source, by their tokens, in the order in which they were yielded,
	// each once. Called before Acknowledged. Tokens of a lost session are never given: its messages are redelivered. Optional.
	Settle func(ctx context.Context, partition string, tokens []any) error

	// Unsendable decides about a message that the gateway cannot take: one above its size limit, with an event time beyond 64
	// bits, or with an id or a header name that is not UTF-8. It returns nil to leave the message out, after having kept or
	// counted it. Called on the goroutine of Read; perhaps again for the same message after a restart. Its token is not given
	// to Settle. Optional: without it, such a message ends the connector.
	Unsendable func(ctx context.Context, partition string, message Message, err *MessageError) error

	// Starts says where partitions begin for a query that is new to the source, if not with their first message: each begins
	// after its position, and missing ones with their first message. Called once for all partitions; the answer is kept until a
	// checkpoint contains it. Partitions that appear later begin with their first message. Only for replayable sources. Optional.
	Starts func(ctx context.Context, partitions []string) (map[string]Position, error)

	// Close releases what the source holds, such as connections. [Run] calls it once at its end, also after an error, and after
	// every other function has returned. Its error is logged. If another function does not return within Options.CloseTimeout,
	// Close is not called; if Close does not, Run returns without it. Optional.
	Close func() error

	// Redelivering is set for a source that delivers unacknowledged messages again, in no guaranteed order, as a classic queue
	// does. p.Position is then always nil, the SDK counts sequences, and Settle acknowledges.
	Redelivering bool

	// Resumable is set for a source in which everything follows a cursor, but not the same messages again, nor the same
	// boundaries, as in a change feed. Read continues after the cursor of p.Position, or from the first message if that is nil. The
	// SDK counts sequences. The bytes of cursors must have the order of their places. A message may come again after a fault.
	Resumable bool

	// Counted has the SDK count sequences, one more than the one before, beginning after p.Position, or with 1. It is correct
	// only for a source that begins exactly after the position.
	Counted bool

	// TakesTurns is set for a source whose partitions end or pause, so that more of them than the gateway allows a session
	// streams can take turns. Without it, too many partitions end the connector.
	TakesTurns bool

	// Connector is the connector's name, shown with its sessions. Default: Name.
	Connector string
	// Version is the connector's version, shown with its sessions. Default: "0".
	Version string
}

var (
	// ErrPaused is what Read yields last to close the stream for now. It is opened again once it is acknowledged and Partitions
	// lists it.
	ErrPaused = errors.New("headrace: the partition is paused")
	// ErrGone is what Read yields last if the partition has ended and will never be listed again, since what it was read from
	// was removed. Once all of it is committed, every checkpoint forgets it.
	ErrGone = errors.New("headrace: the partition is gone")
)

// Partition is a partition that is being read. Its methods may be called from any goroutine. A test may create one to call
// Read.
type Partition struct {
	// Name is a name that Source.Partitions lists.
	Name string
	// Position is where to continue: after it. Nil is from the first message that exists. A redelivering source sends what is not
	// acknowledged, whatever the position: it is the last one in a checkpoint, of an earlier epoch, and nil if no checkpoint
	// has one. Its cursor can tell whether the system behind the source is still the same.
	Position *Position

	skipped *uint64 // the sequence of the position that was lost, if that is accepted
	stream  string
	session *gather
	health  *Health

	maxCursor int // the largest cursor, in bytes
}

// Next returns the sequence that follows the position, or first without a position. Where a lost position is skipped, it is at
// least the one that follows that: what has a smaller sequence is not sent.
func (p *Partition) Next(first uint64) uint64 {
	switch {
	case p.Position != nil:
		return p.Position.Sequence + 1
	case p.skipped != nil:
		return max(first, *p.skipped+1)
	}
	return first
}

// CaughtUp tells that there is nothing more at the moment: what was gathered is sent without waiting for more, and queries that
// read what is available now can end.
func (p *Partition) CaughtUp() {
	if g := p.session; g != nil {
		g.setCaughtUp()
	}
}

// Report tells what is left after the messages that were yielded, for people who watch lag. Call it about once a second.
func (p *Partition) Report(left Backlog) {
	if g := p.session; g != nil {
		g.setBacklog(left)
	}
}

// MoveCursor says where to seek for what follows the message that was yielded last, or, before the first one, the position: for
// instance past messages that the source leaves out, or in quiet times. Queries record it with their next messages, or every ten
// seconds, and Source.Acknowledged gets it then. The next message needs a sequence above 0. Only for replayable sources; it returns
// an error if the cursor is larger than the gateway allows.
func (p *Partition) MoveCursor(cursor []byte) error {
	g := p.session
	if g == nil {
		return nil
	}
	if err := checkCursor(cursor, p.maxCursor); err != nil {
		return &MessageError{p.stream, p.Next(0), "Cursor", err}
	}
	g.moveCursor(cursor)
	return nil
}

// Degraded tells operators that the partition's system makes trouble, which the source survives, for instance by trying again.
// Nil tells that it has recovered.
func (p *Partition) Degraded(err error) {
	switch {
	case p.health == nil:
	case err == nil:
		p.health.recovered(p.stream)
	default:
		p.health.degraded(p.stream, p.stream, err)
	}
}

// connector is implemented by Source and Sink.
func (s *Source) connector() string {
	return s.Name
}

func (s *Source) kind() string {
	return "source"
}

func (s *Source) closer() func() error {
	return s.Close
}

// check says what is missing or not allowed.
func (s *Source) check() error {
	switch {
	case !isName(s.Name):
		return &ConfigError{"Source.Name", fmt.Sprintf("%q: 1 to 255 letters, digits and '._-' are allowed", s.Name)}
	case s.Read == nil:
		return &ConfigError{"Source.Read", fmt.Sprintf("it is missing: source %s has nothing to read with", s.Name)}
	case s.Redelivering && s.Starts != nil:
		return &ConfigError{"Source.Starts", fmt.Sprintf("it is for replayable sources, and source %s redelivers", s.Name)}
	case s.Resumable && s.Starts != nil:
		return &ConfigError{"Source.Starts", fmt.Sprintf("it is for replayable sources, and source %s is resumable", s.Name)}
	case s.Resumable && s.Redelivering:
		return &ConfigError{"Source.Resumable", fmt.Sprintf("source %s is Redelivering already: choose one", s.Name)}
	}
	return nil
}

// counts says whether the SDK counts sequences.
func (s *Source) counts() bool {
	return s.Counted || s.Redelivering || s.Resumable
}

// streamName returns the name of a partition's stream.
func (s *Source) streamName(partition string) (string, error) {
	name := s.Name + "/" + partition
	if !isName(partition) || len(name) > maxNameBytes {
		return "", &ConfigError{"Source.Partitions", fmt.Sprintf(
			"partition %q of source %s: letters, digits and '._-' are allowed, and %d bytes with the source's name",
			partition, s.Name, maxNameBytes)}
	}
	return name, nil
}

const maxNameBytes = 255

// isName says whether a text is a name, or a part of a stream's name.
func isName(text string) bool {
	return text != "" && len(text) <= maxNameBytes && strings.IndexFunc(text, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("._-", r)
	}) < 0
}
