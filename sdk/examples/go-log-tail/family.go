package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// printBytes is how much of a file's beginning, and of what is before a position, its fingerprint is made of.
const printBytes = 256

// compressed are the ends of names of copies that cannot be read on.
var compressed = []string{".gz", ".bz2", ".xz", ".zst"}

// member is one of a log's files: the one that is being written, which is the last, or one that it was before a rotation.
type member struct {
	path string
	info fs.FileInfo
}

func same(a, b member) bool {
	return a.path == b.path && os.SameFile(a.info, b.info)
}

// unchanged says whether nobody has written to a file.
func unchanged(a, b member) bool {
	return same(a, b) && a.info.Size() == b.info.Size() && a.info.ModTime().Equal(b.info.ModTime())
}

// open opens the file, unless its path leads to another one by now.
func (m member) open() (*os.File, error) {
	// Something else may be there by now, such as a pipe, which would not be opened before somebody writes to it.
	file, err := os.OpenFile(m.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !os.SameFile(info, m.info) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// isLive says whether the file is the one that is being written.
func (m member) isLive(log string) bool {
	return filepath.Base(m.path) == log
}

// inode is the file's number in its file system.
func (m member) inode() uint64 {
	return m.info.Sys().(*syscall.Stat_t).Ino
}

// fingerprint tells a file by what is before a position: its beginning, and the end of that.
func fingerprint(file io.ReaderAt, position int64) (string, error) {
	head := make([]byte, min(position, printBytes))
	tail := make([]byte, min(position, printBytes))
	if _, err := file.ReadAt(head, 0); err != nil && !(errors.Is(err, io.EOF)) {
		return "", err
	}
	if _, err := file.ReadAt(tail, position-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	sum := sha256.Sum256(append(head, tail...))
	return hex.EncodeToString(sum[:16]), nil
}
