package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// family lists the files of a log, by name. It looks twice, since a folder in which files are renamed meanwhile may be
// listed without some of them.
func family(folder, log string) ([]member, error) {
	before, err := look(folder, log)
	for err == nil {
		var now []member
		if now, err = look(folder, log); err == nil && slices.EqualFunc(before, now, same) {
			return now, nil
		}
		before = now
	}
	return nil, err
}

// look lists the files of a log once.
func look(folder, log string) ([]member, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var found []member
	for _, entry := range entries {
		if name := entry.Name(); name != log && !isRotated(name, log) {
			continue
		}
		// A log may be a link to a file.
		info, err := os.Stat(filepath.Join(folder, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // It was renamed or removed meanwhile.
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			found = append(found, member{filepath.Join(folder, entry.Name()), info})
		}
	}
	slices.SortFunc(found, func(a, b member) int { return strings.Compare(a.path, b.path) })
	return found, nil
}

// isRotated says whether a file was a log before a rotation, such as app.log.1, app.log-20261123 or app.2026-11-23.log.
func isRotated(name, log string) bool {
	if slices.Contains(compressed, filepath.Ext(name)) {
		return false
	}
	rest, ok := strings.CutPrefix(name, log)
	return ok && rest != "" && strings.ContainsAny(rest[:1], ".-") || slices.Contains(bases(name), log)
}

func same(a, b member) bool {
	return a.path == b.path && os.SameFile(a.info, b.info)
}

// open opens the file, unless its path is that of another one by now.
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
