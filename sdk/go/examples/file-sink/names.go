package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

const (
	// maxName is how long an escaped id may be, so that the name of a file has room for more.
	maxName = 200
	// hashed is the beginning of the names that are hashes: no escaped id begins like that.
	hashed = "%-"
)

// nameOf returns what stands for an id in the name of a file: the id itself, escaped, or its hash if that is too long.
func nameOf(id string) string {
	if name := url.PathEscape(id); len(name) <= maxName {
		return name
	}
	return fmt.Sprintf("%s%x", hashed, sha256.Sum256([]byte(id)))
}

// idOf returns the id that a name stands for.
func (f folder) idOf(name string) (string, error) {
	if !strings.HasPrefix(name, hashed) {
		return url.PathUnescape(name)
	}
	id, err := os.ReadFile(filepath.Join(string(f), names, name))
	return string(id), err
}

// keep keeps an id whose name does not tell it, before the name is used.
func (f folder) keep(id string) error {
	name := nameOf(id)
	if !strings.HasPrefix(name, hashed) {
		return nil
	}
	finished := filepath.Join(string(f), names, name)
	if exists(finished) {
		return sync(filepath.Dir(finished)) // Another part may have been quicker, and may not be that far yet.
	}
	// Another part may have the same id: each writes a file of its own.
	file, err := os.CreateTemp(filepath.Dir(finished), "*"+unfinished)
	if err != nil {
		return err
	}
	_, err = file.WriteString(id)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(file.Name(), finished), sync(filepath.Dir(finished)))
}
