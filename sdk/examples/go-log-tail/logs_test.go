package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/sdk/go/headrace"
)

// deadline is how long a test waits for anything.
const deadline = 120 * time.Second

// folder is a folder of logs, and what was left out of them.
type folder struct {
	*logs
	t       *testing.T
	leftOut []uint64
}

func newFolder(t *testing.T) *folder {
	f := &folder{t: t, logs: &logs{folder: t.TempDir(), pattern: "*.log", limit: 100, interval: time.Millisecond}}
	f.logs.leftOut = func(_ string, number uint64, _ error) { f.leftOut = append(f.leftOut, number) }
	return f
}

func (f *folder) path(name string) string {
	return filepath.Join(f.folder, name)
}

// add adds to a file, as its writer would.
func (f *folder) add(name string, text string) {
	f.t.Helper()
	file, err := os.OpenFile(f.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		f.t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		f.t.Fatal(err)
	}
}

// rename rotates a file. The clock of the file system may be coarse: the file is as old as its number says.
func (f *folder) rename(from, to string, age time.Duration) {
	f.t.Helper()
	when := time.Now().Add(-age)
	if err := errors.Join(os.Chtimes(f.path(from), when, when), os.Rename(f.path(from), f.path(to))); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) remove(name string) {
	f.t.Helper()
	if err := os.Remove(f.path(name)); err != nil {
		f.t.Fatal(err)
	}
}

// reading is a log that is being read. The goroutine that reads waits for each line to be taken.
type reading struct {
	t     *testing.T
	lines chan headrace.Message
	ended chan error
	stop  context.CancelFunc
	last  headrace.Message // with the cursor of it or of one before
}

// read reads app.log after a position, until the test ends.
func (f *folder) read(position *headrace.Position) *reading {
	return f.readLog("app.log", position)
}

// readLog reads a log after a position, until the test ends.
func (f *folder) readLog(log string, position *headrace.Position) *reading {
	ctx, stop := context.WithCancel(f.t.Context())
	r := &reading{t: f.t, lines: make(chan headrace.Message), ended: make(chan error, 1), stop: stop}
	go func() {
		var found error
		for m, err := range f.logs.read(ctx, &headrace.Partition{Name: log, Position: position}) {
			if found = err; err != nil {
				break
			}
			m.Value = slices.Clone(m.Value)
			select {
			case r.lines <- m:
			case <-ctx.Done():
			}
		}
		r.ended <- found
	}()
	f.t.Cleanup(func() { r.end() })
	return r
}

// end ends the reading, and returns where it was.
func (r *reading) end() *headrace.Position {
	r.t.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		r.ended <- err
	case <-time.After(deadline):
		r.t.Fatal("it does not end")
	}
	return &headrace.Position{Sequence: r.last.Sequence, Cursor: r.last.Cursor}
}

// want takes lines, which must be these.
func (r *reading) want(lines ...string) {
	r.t.Helper()
	for _, line := range lines {
		select {
		case m := <-r.lines:
			if string(m.Value) != line {
				r.t.Fatalf("line %d is %q, want %q", m.Sequence, m.Value, line)
			}
			if m.Sequence != r.last.Sequence+1 && r.last.Sequence != 0 {
				r.t.Fatalf("line %d follows line %d", m.Sequence, r.last.Sequence)
			}
			if m.Cursor == nil {
				m.Cursor = r.last.Cursor
			}
			r.last = m
		case err := <-r.ended:
			r.t.Fatalf("it has ended with %v before %q", err, line)
		case <-time.After(deadline):
			r.t.Fatalf("no line, want %q", line)
		}
	}
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	m.Run()
}

func TestAPartialLineWaitsForItsEnd(t *testing.T) {
	f := newFolder(t)
	f.add("app.log", "one\ntw")
	r := f.read(nil)
	r.want("one")
	f.add("app.log", "o\n\nthree\n")
	r.want("two", "", "three")
}

func TestALogMayAppearLater(t *testing.T) {
	f := newFolder(t)
	r := f.read(nil)
	f.add("app.log", "one\n")
	r.want("one")
}

func TestRotationByRenameKeepsTheOrder(t *testing.T) {
	f := newFolder(t)
	f.add("app.log.2", "one\n")
	f.rename("app.log.2", "app.log.2", 2*time.Hour)
	f.add("app.log.1", "two\n")
	f.rename("app.log.1", "app.log.1", time.Hour)
	f.add("app.log.3.gz", "compressed\n")
	f.add("app.logs", "another\n")
	f.add("app.log", "three\n")
	r := f.read(nil)
	r.want("one", "two", "three")
	f.rename("app.log.1", "app.log.2", time.Hour)
	f.rename("app.log", "app.log.1", time.Minute)
	f.add("app.log", "") // The writer has not gone on to it.
	f.add("app.log.1", "four\nfi")
	r.want("four")
	f.add("app.log.1", "ve")
	f.add("app.log", "six\n")
	r.want("five", "six")
}

func TestNamesDecideWhateverTheTimesAre(t *testing.T) {
	for _, names := range [][]string{
		{"app.log.2", "app.log.1"}, {"app.2.log", "app.1.log"}, {"app.2026-01-31.log", "app.2026-02-01.log"},
		{"app.log-20260131", "app.log-20260201"},
	} {
		t.Run(names[0], func(t *testing.T) {
			f := newFolder(t)
			f.add("app.log", "one\n")
			r := f.read(nil)
			r.want("one")
			position := r.end()
			f.add("app.log", "two\n")
			f.rename("app.log", names[0], 0)
			f.add(names[1], "three\n")
			f.rename(names[1], names[1], time.Hour)
			f.add("app.log", "four\n")
			r = f.read(position)
			r.want("two", "three", "four")
			if logs, err := f.list(t.Context()); err != nil || !slices.Equal(logs, []string{"app.log"}) {
				t.Fatalf("the logs are %v, %v", logs, err)
			}
		})
	}
}

func TestNumbersMayCountUp(t *testing.T) {
	f := newFolder(t)
	var position *headrace.Position
	for n := 1; n < 12; n++ {
		f.add("app.log", fmt.Sprintf("%d a\n", n))
		r := f.read(position)
		if n > 1 {
			r.want(fmt.Sprintf("%d b", n-1))
		}
		r.want(fmt.Sprintf("%d a", n))
		position = r.end()
		f.add("app.log", fmt.Sprintf("%d b\n", n))
		f.rename("app.log", fmt.Sprintf("app-%d.log", n), 0)
	}
}

func TestAnOrderThatCannotBeToldIsALostPosition(t *testing.T) {
	f := newFolder(t)
	f.add("app.log", "one\n")
	r := f.read(nil)
	r.want("one")
	position := r.end()
	f.rename("app.log", "app.log.2", 0)
	f.add("app.log.1", "newer\n")
	f.add("app.log.3", "or this\n")
	f.add("app.log", "last\n")
	var lost *headrace.PositionLostError
	r = f.read(position)
	err := <-r.ended
	r.ended <- err
	if !errors.As(err, &lost) {
		t.Fatalf("it has ended with %v", err)
	}
}

func TestALogMayBeALink(t *testing.T) {
	f := newFolder(t)
	f.add("target", "one\n")
	if err := os.Symlink("target", f.path("app.log")); err != nil {
		t.Fatal(err)
	}
	f.read(nil).want("one")
}

func TestAFileThatIsRemovedIsReadToItsEnd(t *testing.T) {
	f := newFolder(t)
	f.add("app.log", "one\n")
	r := f.read(nil)
	r.want("one")
	f.add("app.log", "two\n")
	f.remove("app.log")
	f.add("app.log", "three\n")
	r.want("two", "three")
}

func TestATruncatedFileIsReadFromItsBeginning(t *testing.T) {
	f := newFolder(t)
	f.add("app.log", "one\ntwo\n")
	r := f.read(nil)
	r.want("one", "two")
	for n := range 3 {
		if err := os.Truncate(f.path("app.log"), 0); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("again %d, and longer than before\n", n)
		f.add("app.log", text)
		r.want(strings.TrimSpace(text))
	}
}

func TestALogThatIsCopiedAndTruncatedIsReadOnInTheCopy(t *testing.T) {
	f := newFolder(t)
	f.add("app.log", "one\n")
	r := f.read(nil)
	r.want("one")
	position := r.end()
	f.add("app.log", "two\n")
	text, err := os.ReadFile(f.path("app.log"))
	if err != nil {
		t.Fatal(err)
	}
	f.add("app.log.1", string(text))
	if err := os.Truncate(f.path("app.log"), 0); err != nil {
		t.Fatal(err)
	}
	f.add("app.log", "three\n")
	f.read(position).want("two", "three")
}

func TestReadingGoesOnAfterAnyPosition(t *testing.T) {
	f := newFolder(t)
	var all []string
	for n := range 6 {
		all = append(all, fmt.Sprint("line ", n))
	}
	f.add("app.log", strings.Join(all[:3], "\n")+"\n")
	f.rename("app.log", "app.log.1", time.Hour)
	f.add("app.log", strings.Join(all[3:], "\n")+"\n")
	r := f.read(nil)
	var positions []*headrace.Position
	for _, line := range all {
		r.want(line)
		positions = append(positions, &headrace.Position{Sequence: r.last.Sequence, Cursor: r.last.Cursor})
	}
	r.end()
	f.rename("app.log.1", "app.log.2", time.Hour)
	f.rename("app.log", "app.log.1", time.Minute)
	f.add("app.log", "more\n")
	for n, position := range positions {
		again := f.read(position)
		again.want(append(slices.Clone(all[n+1:]), "more")...)
		again.end()
	}
}

func TestAPositionWhoseFileIsGoneIsLost(t *testing.T) {
	f := newFolder(t)
	f.add("app.log", "one\ntwo\n")
	r := f.read(nil)
	r.want("one", "two")
	position := r.end()
	f.remove("app.log")
	f.add("app.log", "another\n")
	lost := f.read(position)
	var gone *headrace.PositionLostError
	if err := <-lost.ended; !errors.As(err, &gone) || !strings.Contains(gone.Reason, "app.log") {
		t.Errorf("it has ended with %v", err)
	}
	lost.ended <- nil
}

func TestACursorOfAnotherProgramIsAnError(t *testing.T) {
	f := newFolder(t)
	r := f.read(&headrace.Position{Sequence: 2, Cursor: []byte("?")})
	var gone *headrace.PositionLostError
	if err := <-r.ended; err == nil || errors.As(err, &gone) {
		t.Errorf("it has ended with %v", err)
	}
	r.ended <- nil
}

func TestACopyIsReadOnWhereTheFileWasTruncatedMeanwhile(t *testing.T) {
	f := newFolder(t)
	var all []string
	for n := range 20_000 {
		all = append(all, fmt.Sprint("line ", n))
	}
	text := strings.Join(all, "\n") + "\n"
	f.add("app.log", text)
	r := f.read(nil)
	r.want(all[:15_000]...) // Two cursors were given.
	f.add("app.log.1", text)
	if err := os.Truncate(f.path("app.log"), 0); err != nil {
		t.Fatal(err)
	}
	f.add("app.log", "more\n")
	r.want(append(all[15_000:], "more")...)
}

func TestALineThatIsTooLongIsLeftOut(t *testing.T) {
	f := newFolder(t)
	f.add("app.log", strings.Repeat("x", 100)+"\n"+strings.Repeat("y", 101)+"\n"+strings.Repeat("z", 200_000))
	r := f.read(nil)
	r.want(strings.Repeat("x", 100))
	f.add("app.log", "\nshort\n")
	m := <-r.lines
	if string(m.Value) != "short" || m.Sequence != 4 || !slices.Equal(f.leftOut, []uint64{2, 3}) {
		t.Errorf("line %d is %q, and %v were left out", m.Sequence, m.Value, f.leftOut)
	}
}

func TestLogsAreListedWithoutTheirCopies(t *testing.T) {
	f := newFolder(t)
	for _, name := range []string{"app.log", "app.log.1", "db.log", "db.log-20261123", "ünnamed.log", "notes.txt"} {
		f.add(name, "x\n")
	}
	if err := os.Mkdir(f.path("folder.log"), 0o755); err != nil {
		t.Fatal(err)
	}
	names, err := f.list(t.Context())
	if err != nil || !slices.Equal(names, []string{"app.log", "db.log"}) {
		t.Errorf("listed %v, %v", names, err)
	}
}
