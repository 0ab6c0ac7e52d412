package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/headrace/headrace/sdk/go/headrace"
)

// folder is a two-phase sink. The rows of a transaction become visible by one rename, of a folder with a file for each part.
// Folders that are not visible yet are in .staged and .prepared. Keep the newest folder of each pipeline: it tells what was
// committed last. An id that is too long for the name of a file is replaced by its hash, and is in .names.
type folder string

const (
	staged   = ".staged"
	prepared = ".prepared"
	visible  = "."
	names    = ".names"

	extension  = ".txt"
	unfinished = ".unfinished" // the end of the name of a file that is being written
)

// openFolder creates the folders where they are missing.
func openFolder(path string) (folder, error) {
	for _, state := range []string{staged, prepared, names} {
		if err := os.MkdirAll(filepath.Join(path, state), 0o755); err != nil {
			return "", err
		}
	}
	return folder(path), nil
}

// Stage writes a part to a file of its own, which survives a crash.
func (f folder) Stage(
	_ context.Context, part headrace.Part, rows iter.Seq2[*headrace.Rows, error],
) ([]headrace.Refused, error) {
	at := f.of(staged, part.Transaction)
	finished := filepath.Join(at, fileOf(part))
	if err := errors.Join(f.keep(part.Pipeline), f.keep(part.Attempt), os.MkdirAll(at, 0o755)); err != nil {
		return nil, err
	}
	file, err := os.Create(finished + unfinished)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	writer := bufio.NewWriter(file) // It keeps an error until Flush.
	var refused []headrace.Refused
	for some, err := range rows {
		if err != nil {
			return nil, err
		}
		for m := range some.Messages() {
			if m.Value == nil {
				refused = append(refused, headrace.Refused{Sequence: m.Sequence, Reason: "it has no value"})
				continue
			}
			writer.Write(m.Value)
			writer.WriteByte('\n')
		}
	}
	if err := errors.Join(writer.Flush(), file.Sync()); err != nil {
		return nil, err
	}
	if err := os.Rename(file.Name(), finished); err != nil {
		return nil, err
	}
	return refused, errors.Join(sync(at), sync(filepath.Dir(at)))
}

// Drop removes a part.
func (f folder) Drop(_ context.Context, part headrace.Part) error {
	file := filepath.Join(f.of(staged, part.Transaction), fileOf(part))
	return errors.Join(remove(file), remove(file+unfinished))
}

// Prepare moves the folder of a transaction, which then has the parts that count and no others.
func (f folder) Prepare(_ context.Context, t headrace.Transaction, parts []headrace.Part) error {
	from := f.of(staged, t)
	if exists(f.of(prepared, t)) {
		from = f.of(prepared, t) // It was asked for its vote before.
	}
	keep := map[string]bool{}
	for _, part := range parts {
		keep[fileOf(part)] = true
		if !exists(filepath.Join(from, fileOf(part))) {
			return fmt.Errorf("%v is not staged in %s", part, f)
		}
	}
	files, err := filesIn(from)
	if err != nil {
		return err
	}
	for _, file := range files {
		if !keep[file] {
			if err := remove(filepath.Join(from, file)); err != nil {
				return err
			}
		}
	}
	return f.move(t, from, prepared)
}

// Commit makes a transaction visible, unless it is.
func (f folder) Commit(_ context.Context, t headrace.Transaction) error {
	if exists(f.of(visible, t)) {
		return nil
	}
	if !exists(f.of(prepared, t)) {
		return fmt.Errorf("%v was never prepared in %s", t, f)
	}
	return f.move(t, f.of(prepared, t), visible)
}

// Abort removes what is not visible of a transaction.
func (f folder) Abort(_ context.Context, t headrace.Transaction) error {
	return errors.Join(os.RemoveAll(f.of(staged, t)), os.RemoveAll(f.of(prepared, t)))
}

// Recover lists the folders.
func (f folder) Recover(context.Context) (headrace.Recovered, error) {
	var found headrace.Recovered
	last := map[string]uint64{}
	for _, state := range []string{staged, prepared, visible} {
		folders, err := os.ReadDir(filepath.Join(string(f), state))
		if err != nil {
			return found, err
		}
		for _, entry := range folders {
			t, ok, err := f.transactionOf(entry.Name())
			if err != nil {
				return found, err
			}
			if !ok {
				continue
			}
			if state == visible {
				last[t.Pipeline] = max(last[t.Pipeline], t.Batch)
				continue
			}
			parts, err := f.parts(state, t)
			if err != nil {
				return found, err
			}
			found.Staged = append(found.Staged, parts...)
			if state == prepared {
				found.Prepared = append(found.Prepared, t)
			}
		}
	}
	for pipeline, batch := range last {
		found.Committed = append(found.Committed, headrace.Transaction{Pipeline: pipeline, Batch: batch})
	}
	return found, nil
}

// parts lists the parts of a transaction, and removes unfinished ones.
func (f folder) parts(state string, t headrace.Transaction) ([]headrace.Part, error) {
	var parts []headrace.Part
	files, err := filesIn(f.of(state, t))
	for _, file := range files {
		if strings.HasSuffix(file, unfinished) {
			err = errors.Join(err, remove(filepath.Join(f.of(state, t), file)))
			continue
		}
		part, ok, wrong := f.partOf(t, file)
		err = errors.Join(err, wrong)
		if ok {
			parts = append(parts, part)
		}
	}
	return parts, err
}

// move moves the folder of a transaction to another state, so that it survives a crash.
func (f folder) move(t headrace.Transaction, from, state string) error {
	to := f.of(state, t)
	if from == to {
		return nil
	}
	if err := errors.Join(sync(from), os.Rename(from, to)); err != nil {
		return err
	}
	return errors.Join(sync(filepath.Dir(to)), sync(filepath.Dir(from)))
}

// of is the folder of a transaction in a state.
func (f folder) of(state string, t headrace.Transaction) string {
	return filepath.Join(string(f), state, fmt.Sprintf("batch-%d-of-%s", t.Batch, nameOf(t.Pipeline)))
}

// transactionOf reads the name of a folder; false if it is none of a transaction.
func (f folder) transactionOf(name string) (headrace.Transaction, bool, error) {
	number, name, found := strings.Cut(strings.TrimPrefix(name, "batch-"), "-of-")
	batch, wrong := strconv.ParseUint(number, 10, 64)
	if !found || wrong != nil {
		return headrace.Transaction{}, false, nil
	}
	pipeline, err := f.idOf(name)
	return headrace.Transaction{Pipeline: pipeline, Batch: batch}, err == nil, err
}

// fileOf is the name of the file of a part, in the folder of its transaction.
func fileOf(part headrace.Part) string {
	return fmt.Sprintf("%d~%s%s", part.Partition, nameOf(part.Attempt), extension)
}

// partOf reads the name of a file; false if it is none of a part.
func (f folder) partOf(t headrace.Transaction, file string) (headrace.Part, bool, error) {
	number, name, found := strings.Cut(strings.TrimSuffix(file, extension), "~")
	partition, wrong := strconv.ParseUint(number, 10, 32)
	if !found || wrong != nil {
		return headrace.Part{}, false, nil
	}
	attempt, err := f.idOf(name)
	return headrace.Part{Transaction: t, Partition: uint32(partition), Attempt: attempt}, err == nil, err
}

// filesIn lists the files in a folder.
func filesIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	files := make([]string, 0, len(entries))
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	return files, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// remove removes a file, if there is one.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sync makes the entries of a folder durable.
func sync(path string) error {
	opened, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
