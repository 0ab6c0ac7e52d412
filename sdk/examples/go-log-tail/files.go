package main

import (
	"container/list"
	"errors"
	"io/fs"
	"os"
	"sync"
)

// maxOpen is how many files are open at once, however many logs there are.
const maxOpen = 32

// files opens files when they are read, and closes the one that was not read for longest when there are too many.
type files struct {
	mu    sync.Mutex
	freed *sync.Cond
	count int       // open files, also while they are read
	idle  list.List // open files that nobody is reading; the one that was read last is first
}

// file is a file that is open while it is read, and afterwards as long as there is room. One goroutine uses it.
type file struct {
	files *files
	found member
	owner *tail // whose file it is; nil for one that is only looked into

	opened *os.File      // nil while it is closed
	place  *list.Element // among the idle ones; nil while it is read, or closed
}

// open returns a file, which is opened at once.
func (f *files) open(m member) (*file, error) {
	opened := &file{files: f, found: m}
	return opened, opened.use(func(*os.File) error { return nil })
}

// ReadAt reads as an os.File does.
func (f *file) ReadAt(to []byte, at int64) (n int, err error) {
	err = f.use(func(opened *os.File) error {
		n, err = opened.ReadAt(to, at)
		return err
	})
	return n, err
}

// Stat tells as an os.File does.
func (f *file) Stat() (info fs.FileInfo, err error) {
	err = f.use(func(opened *os.File) error {
		info, err = opened.Stat()
		return err
	})
	return info, err
}

// Close closes it.
func (f *file) Close() error {
	f.files.mu.Lock()
	defer f.files.mu.Unlock()
	return f.files.close(f)
}

// use opens the file if it is closed, and keeps it open meanwhile.
func (f *file) use(do func(*os.File) error) error {
	if f.files.take(f) {
		if err := f.reopen(); err != nil {
			f.files.giveUp()
			return err
		}
	}
	defer f.files.leave(f)
	return do(f.opened)
}

// reopen opens the file, wherever it is by now. It returns errGone if it was removed meanwhile, or errChanged if it is no longer
// the same.
func (f *file) reopen() error {
	opened, err := f.found.open()
	for errors.Is(err, fs.ErrNotExist) && f.owner != nil {
		var found member
		if found, err = f.owner.again(); err == nil {
			f.found = found
			opened, err = found.open()
		}
	}
	if err != nil {
		return err
	}
	if f.owner != nil {
		if err := f.owner.check(opened); err != nil {
			return errors.Join(err, opened.Close())
		}
	}
	f.opened = opened
	return nil
}

// take keeps a file open, or makes room for it. It returns whether the file has to be opened.
func (f *files) take(wanted *file) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.freed == nil {
		f.freed = sync.NewCond(&f.mu)
	}
	if wanted.opened != nil {
		f.idle.Remove(wanted.place)
		wanted.place = nil
		return false
	}
	for f.count >= maxOpen {
		if oldest := f.idle.Back(); oldest != nil {
			_ = f.close(oldest.Value.(*file)) // It was only read.
		} else {
			f.freed.Wait()
		}
	}
	f.count++
	return true
}

// leave makes a file one that may be closed.
func (f *files) leave(left *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left.place = f.idle.PushFront(left)
	f.freed.Signal()
}

// giveUp leaves the room of a file that could not be opened.
func (f *files) giveUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count--
	f.freed.Signal()
}

// close closes a file that nobody is reading. The lock is held.
func (f *files) close(idle *file) error {
	if idle.opened == nil {
		return nil
	}
	f.idle.Remove(idle.place)
	opened := idle.opened
	idle.opened, idle.place = nil, nil
	f.count--
	f.freed.Signal()
	return opened.Close()
}
