package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// listing is what was found in a folder, for all logs that are read.
type listing struct {
	mu          sync.Mutex
	began       time.Time // when the last look began
	before, now map[string]found
}

// found is the files of a log, by name, or why they are not known.
type found struct {
	members []member
	err     error
}

// family returns the files of a log, by name, as they were at a moment or later. All logs share what one look finds. It is
// looked again until two looks agree, since a folder in which files are renamed meanwhile may be listed without some of them.
func (l *logs) family(log string, since time.Time) ([]member, error) {
	l.listing.mu.Lock()
	defer l.listing.mu.Unlock()
	for l.listing.before == nil || l.listing.began.Before(since) || !agree(l.listing.before[log], l.listing.now[log]) {
		began := time.Now()
		now, err := look(l.folder, l.pattern)
		if err != nil {
			return nil, err
		}
		l.listing.before, l.listing.now, l.listing.began = l.listing.now, now, began
	}
	files := l.listing.now[log]
	return slices.Clone(files.members), files.err
}

func agree(before, now found) bool {
	return now.err != nil || before.err == nil && slices.EqualFunc(before.members, now.members, same)
}

// look lists the files of all logs once.
func look(folder, pattern string) (map[string]found, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	logs := make(map[string]found, len(entries))
	for _, entry := range entries {
		owners := owners(entry.Name(), pattern)
		if len(owners) == 0 {
			continue
		}
		// A log may be a link to a file.
		path := filepath.Join(folder, entry.Name())
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue // It was renamed or removed meanwhile, or is something else.
		}
		for _, log := range owners {
			files := logs[log]
			if err == nil {
				files.members = append(files.members, member{path, info})
			}
			logs[log] = found{files.members, errors.Join(files.err, err)}
		}
	}
	return logs, nil
}

// owners names the logs of which a file may be one: itself, or what it was before a rotation, such as app.log.1,
// app.log-20261123 or app.2026-11-23.log.
func owners(name, pattern string) []string {
	names := []string{name}
	if !slices.Contains(compressed, filepath.Ext(name)) {
		for at := 1; at < len(name); at++ {
			if strings.ContainsRune(".-", rune(name[at])) {
				names = append(names, name[:at])
			}
		}
		for _, base := range bases(name) {
			if !slices.Contains(names, base) {
				names = append(names, base)
			}
		}
	}
	return slices.DeleteFunc(names, func(log string) bool {
		matched, err := filepath.Match(pattern, log)
		return err != nil || !matched
	})
}
