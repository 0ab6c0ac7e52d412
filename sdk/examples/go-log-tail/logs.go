package main

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/sdk/go/headrace"
)

// aName is what the name of a partition may be.
var aName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)

// logs is a folder of logs. Each of them is a partition, over all its rotations, so that its lines stay in order.
type logs struct {
	folder   string
	pattern  string
	limit    int // the longest line, in bytes
	interval time.Duration
	leftOut  func(log string, number uint64, err error)

	listing listing  // of the folder
	files   files    // that are open
	warned  sync.Map // names that no partition can have
}

// source is the source that reads them.
func (l *logs) source(name string) *headrace.Source {
	return &headrace.Source{
		Name: name, Connector: "go-log-tail", Version: headrace.Version, Partitions: l.list, Read: l.read,
		Unsendable: func(_ context.Context, log string, m headrace.Message, err *headrace.MessageError) error {
			l.leftOut(log, m.Sequence, err.Err)
			return nil
		},
	}
}

// list names the logs of the folder.
func (l *logs) list(context.Context) ([]string, error) {
	entries, err := os.ReadDir(l.folder)
	if err != nil {
		return nil, err
	}
	matching := map[string]bool{}
	for _, entry := range entries {
		// A link may be one to a file, or to nothing. Reading it shows which.
		regular := entry.Type().IsRegular() || entry.Type()&fs.ModeSymlink != 0
		if matched, err := filepath.Match(l.pattern, entry.Name()); err == nil && matched && regular {
			matching[entry.Name()] = true
		}
	}
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		// app.2026-11-23.log is an older file of app.log, which the pattern matches, too.
		if !matching[name] || slices.ContainsFunc(bases(name), func(log string) bool { return matching[log] }) {
			continue
		}
		if !aName.MatchString(name) {
			if _, before := l.warned.LoadOrStore(name, true); !before {
				slog.Warn("a log is not read: 1 to 200 letters, digits and '._-' are allowed in its name", "log", name)
			}
			continue
		}
		names = append(names, name)
	}
	return names, nil
}

// read follows a log. The sequence of a line is its number since the log was first read.
func (l *logs) read(ctx context.Context, p *headrace.Partition) iter.Seq2[headrace.Message, error] {
	return func(yield func(headrace.Message, error) bool) {
		sent := p.Next(1) - 1
		t := &tail{logs: l, log: p.Name, number: sent, sent: sent}
		defer t.close()
		send := func(text []byte, leftOut error) error {
			if t.number++; t.number <= t.sent {
				return nil
			}
			t.sent = t.number
			if leftOut != nil {
				l.leftOut(p.Name, t.number, leftOut)
				return ctx.Err()
			}
			cursor, err := t.cursor()
			if err == nil && !yield(headrace.Message{Sequence: t.number, Value: text, Cursor: cursor}, nil) {
				err = errStopped
			}
			return err
		}
		err := t.resume(ctx, p.Position)
		for err == nil {
			var moved bool
			if moved, err = t.step(send); err == nil && !moved {
				p.CaughtUp()
				err = wait(ctx, l.interval)
			}
		}
		if ctx.Err() == nil && !errors.Is(err, errStopped) {
			yield(headrace.Message{}, err)
		}
	}
}

// wait waits for a while. It returns an error once ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
