package main

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/sdk/go/headrace"
)

var (
	batch = headrace.Transaction{Pipeline: "a/b query", Batch: 7}
	first = headrace.Part{Transaction: batch, Partition: 0, Attempt: "1/x"}
	other = headrace.Part{Transaction: batch, Partition: 1, Attempt: "../1/" + strings.Repeat("y", 250)}
)

func rows(part headrace.Part, values ...string) iter.Seq2[*headrace.Rows, error] {
	return func(yield func(*headrace.Rows, error) bool) {
		for i, value := range values {
			if !yield(headrace.NewRows(part, uint64(i), headrace.Message{Value: []byte(value)}), nil) {
				return
			}
		}
	}
}

// opened returns a folder with two parts that are staged.
func opened(t *testing.T) folder {
	t.Helper()
	f, err := openFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []headrace.Part{first, other} {
		if _, err := f.Stage(t.Context(), part, rows(part, "a", "b")); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// shown returns everything that is visible.
func shown(t *testing.T, f folder) string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(string(f), "batch-*"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, folder := range folders {
		files, err := filesIn(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(folder, file))
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	return all.String()
}

func TestACommitShowsThePartsThatCountOnce(t *testing.T) {
	f := opened(t)
	for range 2 {
		if err := f.Prepare(t.Context(), batch, []headrace.Part{first}); err != nil {
			t.Fatal(err)
		}
	}
	if got := shown(t, f); got != "" {
		t.Errorf("visible before the commit: %q", got)
	}
	for range 2 {
		if err := f.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Abort(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, f); got != "a\nb\n" {
		t.Errorf("visible: %q", got)
	}
}

func TestWhatIsStoredIsListed(t *testing.T) {
	f := opened(t)
	stored, err := f.Recover(t.Context())
	if err != nil || len(stored.Staged) != 2 || !slices.Contains(stored.Staged, other) || len(stored.Prepared) != 0 {
		t.Errorf("staged: %+v, %v", stored, err)
	}
	if err := f.Prepare(t.Context(), batch, []headrace.Part{first}); err != nil {
		t.Fatal(err)
	}
	stored, err = f.Recover(t.Context())
	if err != nil || !slices.Equal(stored.Staged, []headrace.Part{first}) || !slices.Equal(stored.Prepared, []headrace.Transaction{batch}) {
		t.Errorf("prepared: %+v, %v", stored, err)
	}
	if err := f.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	stored, err = f.Recover(t.Context())
	if err != nil || len(stored.Staged) != 0 || !slices.Equal(stored.Committed, []headrace.Transaction{batch}) {
		t.Errorf("committed: %+v, %v", stored, err)
	}
}

func TestIdsOfAnyLengthAreListed(t *testing.T) {
	for _, id := range []string{"%-x", "batch-1-of-2~3", strings.Repeat("/", 255), strings.Repeat("p", 255), "ünï"} {
		f, err := openFolder(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		stored := headrace.Part{Transaction: headrace.Transaction{Pipeline: id, Batch: 1<<63 - 1}, Partition: 1<<32 - 1, Attempt: id}
		if _, err := f.Stage(t.Context(), stored, rows(stored, "a")); err != nil {
			t.Fatal(err)
		}
		found, err := f.Recover(t.Context())
		if err != nil || !slices.Equal(found.Staged, []headrace.Part{stored}) {
			t.Errorf("%q: staged %+v, %v", id, found, err)
		}
		if err := errors.Join(f.Prepare(t.Context(), stored.Transaction, found.Staged), f.Commit(t.Context(), stored.Transaction)); err != nil {
			t.Fatal(err)
		}
		found, err = f.Recover(t.Context())
		if err != nil || !slices.Equal(found.Committed, []headrace.Transaction{stored.Transaction}) || shown(t, f) != "a\n" {
			t.Errorf("%q: committed %+v, %v", id, found, err)
		}
	}
}

func TestALongIdThatIsMissingIsAnError(t *testing.T) {
	f := opened(t)
	if err := os.RemoveAll(filepath.Join(string(f), names)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Recover(t.Context()); err == nil {
		t.Error("a part is listed though its attempt is not known")
	}
}

func TestWhatIsNotThereCannotBePreparedOrCommitted(t *testing.T) {
	f := opened(t)
	if err := f.Drop(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := f.Prepare(t.Context(), batch, []headrace.Part{first, other}); err == nil {
		t.Error("a part that was dropped is prepared")
	}
	if err := f.Commit(t.Context(), batch); err == nil {
		t.Error("a transaction that was not prepared is committed")
	}
}

func TestAMessageWithoutAValueIsRefused(t *testing.T) {
	f := opened(t)
	part := headrace.Part{Transaction: batch, Partition: 2}
	refused, err := f.Stage(t.Context(), part, func(yield func(*headrace.Rows, error) bool) {
		yield(headrace.NewRows(part, 0, headrace.Message{Value: []byte("a")}, headrace.Message{}), nil)
	})
	if err != nil || len(refused) != 1 || refused[0].Sequence != 1 {
		t.Errorf("refused %v, %v", refused, err)
	}
}
