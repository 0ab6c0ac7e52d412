package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/headrace/headrace/sdk/go/headrace"
)

const (
	// markBytes is how much is read between two cursors: after a restart, at most so much is read again.
	markBytes = 64 << 10
	// tries is how often the file of a position is looked for, since a rotation may be in progress.
	tries = 3
)

// errStopped ends the reading of a log of which no more lines are wanted.
var errStopped = errors.New("stopped")

var (
	// errGone ends a step whose file was removed while it was closed.
	errGone = errors.New("the file was removed")
	// errChanged ends a step whose file lost what was read of it while it was closed.
	errChanged = errors.New("the file was truncated, or replaced")
)

// cursor says where a log is read on.
type cursor struct {
	Line   uint64 `json:"line"`           // the number of the line that was read last
	Inode  uint64 `json:"inode"`          // its file
	Offset int64  `json:"offset"`         // where it ends
	Print  string `json:"print"`          // the fingerprint of the file at this offset
	Seen   []done `json:"seen,omitempty"` // the last files before it
}

// tail reads one log, file by file.
type tail struct {
	logs   *logs
	log    string
	number uint64 // of the last line that was read
	sent   uint64 // of the last line that was passed on, or need not be

	file   member
	opened *file // nil before there is a file
	lines  *lines
	size   int64    // the largest size of it that was seen
	known  []member // the files of the log before the last step, if that has read all of them; else nil
	mark   cursor   // the last one that was made, to notice that the file was truncated
	given  int64    // the offset of the last one that was given away
	seen   []done   // the last files that were read to their ends
}

// resume goes to a position; without one, the oldest file is read from its beginning.
func (t *tail) resume(ctx context.Context, position *headrace.Position) error {
	if position == nil {
		return nil
	}
	if position.Cursor == nil {
		// The lines with a cursor were too large for the gateway, or the checkpoint is from before this program.
		t.number = 0
		return nil
	}
	var c cursor
	if err := json.Unmarshal(position.Cursor, &c); err != nil {
		return fmt.Errorf("the cursor %q is not one of this program: %w", position.Cursor, err)
	}
	for range tries {
		members, err := t.logs.family(t.log, time.Now())
		if err != nil {
			return err
		}
		if found, err := t.find(members, c); found || err != nil {
			return err
		}
		if err := wait(ctx, t.logs.interval); err != nil {
			return err
		}
	}
	return &headrace.PositionLostError{Reason: fmt.Sprintf(
		"the file of %s that had line %d (inode %d) was removed or truncated; keep rotated files until they are read",
		t.log, c.Line, c.Inode)}
}

// find continues at a cursor: in its file, or else in a copy. It returns false if there is neither.
func (t *tail) find(members []member, c cursor) (bool, error) {
	for _, own := range []bool{true, false} {
		for _, m := range members {
			if (m.inode() == c.Inode) != own {
				continue
			}
			if found, err := t.goTo(m, c); found || err != nil {
				return found, err
			}
		}
	}
	return false, nil
}

// goTo continues at a cursor in a file, if that has what is before it.
func (t *tail) goTo(m member, c cursor) (bool, error) {
	opened, err := t.logs.files.open(m)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	print, err := fingerprint(opened, c.Offset)
	if err != nil || print != c.Print {
		return false, errors.Join(err, opened.Close())
	}
	t.begin(m, opened, c.Offset)
	t.number, t.mark, t.seen = c.Line, c, c.Seen
	return true, nil
}

// step passes on what is there, and continues with the next file if the writer did. It returns whether there may be more at once.
func (t *tail) step(to emit) (moved bool, err error) {
	members, err := t.logs.family(t.log, time.Now().Add(-t.logs.interval))
	if err != nil {
		return false, err
	}
	if t.known != nil && slices.EqualFunc(t.known, members, unchanged) {
		return false, nil
	}
	listed := slices.Clone(members)
	t.known = nil
	switch moved, err = t.read(members, to); {
	case errors.Is(err, errGone):
		return true, t.gone(to)
	case errors.Is(err, errChanged):
		return true, t.truncated()
	case err == nil && !moved:
		t.known = listed
	}
	return moved, err
}

// read is a step, unless nothing has changed. The files of the log were listed before.
func (t *tail) read(members []member, to emit) (moved bool, err error) {
	if t.opened == nil {
		members = t.unread(members)
		if len(members) == 0 {
			return false, nil
		}
		sortUnread(members, t.log)
		return true, t.open(members[0])
	}
	for _, m := range members {
		if os.SameFile(m.info, t.file.info) {
			t.size = max(t.size, m.info.Size())
		}
	}
	if intact, err := t.intact(); err != nil {
		return false, err
	} else if !intact {
		return true, t.truncated()
	}
	// The folder was listed before the file is read to its end: once there are lines in the next file, nothing is added here.
	if err := t.lines.read(to); err != nil {
		return false, err
	}
	if intact, err := t.intact(); err != nil {
		return false, err
	} else if !intact {
		return true, t.truncated()
	}
	if err := t.setMark(); err != nil {
		return false, err
	}
	next, err := t.next(members)
	if next == nil || err != nil {
		return false, err
	}
	if err := t.lines.rest(to); err != nil {
		return false, err
	}
	if err := t.setMark(); err != nil {
		return false, err
	}
	t.leave()
	return true, t.open(*next)
}

// leave notes that the present file was read to its end.
func (t *tail) leave() {
	before := append(t.seen, done{t.mark.Inode, t.mark.Offset, t.mark.Print})
	t.seen = before[max(0, len(before)-seenFiles):]
}

// gone continues after the file was removed while it was closed.
func (t *tail) gone(to emit) error {
	if t.mark.Offset > 0 {
		members, err := t.logs.family(t.log, time.Now())
		if err != nil {
			return err
		}
		if found, err := t.find(members, t.mark); found || err != nil {
			return err
		}
	}
	if t.lines.start+t.lines.size < t.size {
		return &headrace.PositionLostError{Reason: fmt.Sprintf(
			"%s was removed before it was read beyond line %d; keep rotated files until they are read",
			filepath.Base(t.file.path), t.number)}
	}
	slog.Warn("a log was removed: lines that were added since the last look are lost", "log", t.log, "line", t.number)
	if err := t.lines.rest(to); err != nil {
		return err
	}
	t.leave()
	t.opened = nil
	return nil
}

// unread leaves out the files that were read.
func (t *tail) unread(members []member) []member {
	return slices.DeleteFunc(members, func(m member) bool { return !m.isLive(t.log) && t.what(m) != isNew })
}

// next returns the file to which the writer moved; nil if there is none with lines.
func (t *tail) next(members []member) (*member, error) {
	own, err := t.opened.Stat()
	if err != nil {
		return nil, err
	}
	members, at, ok := t.sorted(members, own)
	if !ok {
		return nil, &headrace.PositionLostError{Reason: fmt.Sprintf(
			"which file follows %s is unknown: by their names, some that were not read lie before it; move away the files that "+
				"do not belong to %s", filepath.Base(t.file.path), t.log)}
	}
	for _, m := range members[at+1:] {
		if m.info.Size() > 0 {
			return &m, nil
		}
	}
	return nil, nil
}

// intact says whether the file still has what was read of it.
func (t *tail) intact() (bool, error) {
	info, err := t.opened.Stat()
	if err != nil || info.Size() < t.lines.start+t.lines.size {
		return false, err
	}
	if t.mark.Offset == 0 {
		return true, nil
	}
	print, err := fingerprint(t.opened, t.mark.Offset)
	return print == t.mark.Print, err
}

// setMark makes a cursor of the line that was read last.
func (t *tail) setMark() error {
	print, err := fingerprint(t.opened, t.lines.start)
	if err == nil {
		t.mark = cursor{t.number, t.file.inode(), t.lines.start, print, t.seen}
	}
	return err
}

// truncated continues with a copy that was made before, or else at the beginning of the file.
func (t *tail) truncated() error {
	if t.mark.Offset > 0 {
		members, err := t.logs.family(t.log, time.Now())
		if err != nil {
			return err
		}
		if found, err := t.find(members, t.mark); found || err != nil {
			return err
		}
	}
	slog.Warn("a log was truncated: lines that were added since the last look are lost", "log", t.log, "line", t.number)
	t.number = max(t.number, t.sent)
	t.begin(t.file, t.opened, 0)
	return nil
}

// open continues with the beginning of a file. If it was renamed meanwhile, the next step finds it.
func (t *tail) open(m member) error {
	opened, err := t.logs.files.open(m)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		t.begin(m, opened, 0)
	}
	return err
}

// begin reads a file from an offset on.
func (t *tail) begin(m member, opened *file, offset int64) {
	if opened != t.opened {
		t.close()
	}
	slog.Info("reading", "log", t.log, "file", filepath.Base(m.path), "offset", offset)
	opened.owner = t
	t.size = offset
	t.file, t.opened, t.lines = m, opened, newLines(opened, offset, t.logs.limit)
	t.mark, t.given = cursor{Offset: offset}, -markBytes
}

// again finds the file that was closed.
func (t *tail) again() (member, error) {
	members, err := t.logs.family(t.log, time.Now())
	if err != nil {
		return member{}, err
	}
	for _, m := range members {
		if os.SameFile(m.info, t.file.info) {
			return m, nil
		}
	}
	return member{}, errGone
}

// check checks that a file that was closed has what was read of it: another file may have its inode by now.
func (t *tail) check(opened *os.File) error {
	if t.mark.Offset == 0 {
		return nil
	}
	print, err := fingerprint(opened, t.mark.Offset)
	if err == nil && print != t.mark.Print {
		err = errChanged
	}
	return err
}

// cursor returns the cursor of the last line; nil if the one before is near enough.
func (t *tail) cursor() ([]byte, error) {
	if t.lines.start-t.given < markBytes {
		return nil, nil
	}
	if err := t.setMark(); errors.Is(err, errGone) || errors.Is(err, errChanged) {
		return nil, nil // The line was read. The step ends with what is read next.
	} else if err != nil {
		return nil, err
	}
	t.given = t.lines.start
	return json.Marshal(t.mark)
}

func (t *tail) close() {
	if t.opened != nil {
		_ = t.opened.Close() // It was only read.
	}
}
