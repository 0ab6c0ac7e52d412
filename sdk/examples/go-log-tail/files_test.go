package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/sdk/go/headrace"
)

// closeIdle closes all files, as the reading of many others would.
func (f *folder) closeIdle() {
	f.files.mu.Lock()
	defer f.files.mu.Unlock()
	for oldest := f.files.idle.Back(); oldest != nil; oldest = f.files.idle.Back() {
		if err := f.files.close(oldest.Value.(*file)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// limitFiles lets this process have few open files until the test ends.
func limitFiles(t *testing.T, count uint64) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	limit := before
	limit.Cur = count
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	})
}

func TestThousandsOfLogsNeedFewOpenFiles(t *testing.T) {
	const count, rotated = 3000, 100
	f := newFolder(t)
	f.interval = 100 * time.Millisecond
	limitFiles(t, 80)
	var logs []string
	for n := range count {
		logs = append(logs, fmt.Sprintf("%d.log", n))
		f.add(logs[n], fmt.Sprintf("%d: one\n", n))
	}
	var readings []*reading
	for _, log := range logs {
		readings = append(readings, f.readLog(log, nil))
	}
	for n, r := range readings {
		r.want(fmt.Sprintf("%d: one", n))
	}
	for n, log := range logs {
		f.add(log, fmt.Sprintf("%d: two\n", n))
		if n%(count/rotated) == 0 {
			f.rename(log, log+".1", 0)
			f.add(log, fmt.Sprintf("%d: three\n", n))
		}
	}
	for n, r := range readings {
		r.want(fmt.Sprintf("%d: two", n))
		if n%(count/rotated) == 0 {
			r.want(fmt.Sprintf("%d: three", n))
		}
	}
	if f.files.count > maxOpen {
		t.Errorf("%d files are open", f.files.count)
	}
}

func TestAFileThatIsClosedIsReadOnWhateverItsNameIs(t *testing.T) {
	f := newFolder(t)
	f.add("app.log", "one\n")
	r := f.read(nil)
	r.want("one")
	f.closeIdle()
	f.add("app.log", "two\n")
	f.rename("app.log", "app.log.1", 0)
	f.add("app.log.1", "three\n")
	f.add("app.log", "four\n")
	r.want("two", "three", "four")
}

func TestAFileIsClosedAndRenamedBetweenItsParts(t *testing.T) {
	f := newFolder(t)
	var all []string
	for n := range 30_000 {
		all = append(all, fmt.Sprint("line ", n))
	}
	f.add("app.log", strings.Join(all, "\n")+"\n")
	r := f.read(nil)
	for n, line := range all {
		if n%5_000 == 4_000 {
			f.rename("app.log", "app.log.1", 0)
			f.closeIdle()
			f.rename("app.log.1", "app.log", 0)
		}
		r.want(line)
	}
}

func TestAFileThatIsClosedAndTruncatedIsReadFromItsBeginning(t *testing.T) {
	f := newFolder(t)
	f.add("app.log", "one\ntwo\n")
	r := f.read(nil)
	r.want("one", "two")
	f.closeIdle()
	if err := os.Truncate(f.path("app.log"), 0); err != nil {
		t.Fatal(err)
	}
	f.add("app.log", "again, and longer than before\n")
	r.want("again, and longer than before")
}

func TestAFileThatIsClosedCopiedAndTruncatedIsReadOnInTheCopy(t *testing.T) {
	f := newFolder(t)
	f.add("app.log", "one\n")
	r := f.read(nil)
	r.want("one")
	f.closeIdle()
	f.add("app.log.1", "one\ntwo\n")
	if err := os.Truncate(f.path("app.log"), 0); err != nil {
		t.Fatal(err)
	}
	f.add("app.log", "three\n")
	r.want("two", "three")
}

func TestALogWhoseClosedFileWasReadAndRemovedGoesOn(t *testing.T) {
	f := newFolder(t)
	f.add("kept", "") // Its inode is not used again.
	f.add("app.log", "one\n")
	r := f.read(nil)
	r.want("one")
	f.closeIdle()
	f.rename("app.log", "app.log.1", 0)
	f.remove("app.log.1")
	f.add("app.log", "two\n")
	r.want("two")
}

func TestAClosedFileThatIsRemovedBeforeItIsReadIsALostPosition(t *testing.T) {
	f := newFolder(t)
	line := strings.Repeat("x", 99) + "\n"
	f.add("app.log", strings.Repeat(line, 2_000))
	r := f.read(nil)
	r.want(line[:99])
	f.closeIdle() // Its reader waits for the second line to be taken, and has read one part of four.
	f.remove("app.log")
	var lost *headrace.PositionLostError
	for {
		select {
		case <-r.lines:
		case err := <-r.ended:
			r.ended <- err
			if !errors.As(err, &lost) || !strings.Contains(lost.Reason, "app.log was removed before it was read") {
				t.Fatalf("it has ended with %v", err)
			}
			return
		case <-time.After(deadline):
			t.Fatal("it does not end")
		}
	}
}
