package main

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/sdk/go/headrace"
)

var batch = headrace.Transaction{Pipeline: "query", Batch: 7}

// opened opens a database that is closed at the end of the test.
func opened(t *testing.T, path, table string) *database {
	t.Helper()
	db, err := openDatabase(t.Context(), path, table)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// rows yields a message for each value, then perhaps an error.
func rows(failed error, values ...string) iter.Seq2[*headrace.Rows, error] {
	return func(yield func(*headrace.Rows, error) bool) {
		for i, value := range values {
			part := headrace.NewRows(headrace.Part{Transaction: batch}, uint64(i), headrace.Message{Value: []byte(value)})
			if !yield(part, nil) {
				return
			}
		}
		if failed != nil {
			yield(nil, failed)
		}
	}
}

// values returns what is in a column.
func values(t *testing.T, db *database, query string) []string {
	t.Helper()
	found, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	var all []string
	for found.Next() {
		var value any
		if err := found.Scan(&value); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%T %v", value, value))
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestABatchIsWrittenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%?#.db")
	db := opened(t, path, "messages")
	for range 2 {
		if err := db.Write(t.Context(), batch, rows(nil, "a", "b")); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = opened(t, path, "messages") // as after a crash
	if err := db.Write(t.Context(), batch, rows(nil, "a", "b")); err != nil {
		t.Fatal(err)
	}
	later, other := batch, batch
	later.Batch, other.Pipeline = 8, "other"
	if err := errors.Join(db.Write(t.Context(), later, rows(nil, "c")), db.Write(t.Context(), other, rows(nil, "d"))); err != nil {
		t.Fatal(err)
	}
	if got := values(t, db, "SELECT value FROM messages"); !slices.Equal(got, []string{"string a", "string b", "string c", "string d"}) {
		t.Errorf("the table has %q", got)
	}
	pipelines, err := db.pipelines(t.Context())
	if err != nil || !slices.Equal(pipelines, []string{"other", "query"}) {
		t.Errorf("pipelines are %q, %v", pipelines, err)
	}
	if last, ok, err := db.last(t.Context(), "query"); last != 8 || !ok || err != nil {
		t.Errorf("the last batch is %d, %v, %v", last, ok, err)
	}
	if _, ok, err := db.last(t.Context(), "unknown"); ok || err != nil {
		t.Errorf("an unknown pipeline has a last batch: %v, %v", ok, err)
	}
}

func TestABatchIsWrittenAsAWholeOrNotAtAll(t *testing.T) {
	db := opened(t, filepath.Join(t.TempDir(), "a.db"), "messages")
	lost := errors.New("the rest is lost")
	if err := db.Write(t.Context(), batch, rows(lost, "a", "b")); !errors.Is(err, lost) {
		t.Errorf("it has ended with %v", err)
	}
	if got := values(t, db, "SELECT value FROM messages"); len(got) != 0 {
		t.Errorf("the table has %q", got)
	}
	if err := db.Write(t.Context(), batch, rows(nil, "a", "b")); err != nil {
		t.Fatal(err)
	}
	if got := values(t, db, "SELECT value FROM messages"); len(got) != 2 {
		t.Errorf("the table has %q", got)
	}
}

func TestColumnsKeepWhatTheyGet(t *testing.T) {
	db := opened(t, filepath.Join(t.TempDir(), "a.db"), `a "table"`)
	all := []headrace.Message{
		{Key: []byte("k"), Value: []byte(`{"n": 1}`), EventTime: time.UnixMicro(5), ID: "id", Headers: []headrace.Header{
			{Name: "a", Value: []byte("1")}, {Name: "b"}, {Name: "c", Value: []byte{255}},
		}},
		{Key: []byte{}, Value: []byte{255}},
		{Value: []byte("a\x00b")},
		{},
	}
	err := db.Write(t.Context(), batch, func(yield func(*headrace.Rows, error) bool) {
		yield(headrace.NewRows(headrace.Part{Transaction: batch}, 0, all...), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	for column, want := range map[string][]string{
		"key":           {"string k", "string ", "<nil> <nil>", "<nil> <nil>"},
		"value":         {`string {"n": 1}`, "[]uint8 [255]", "[]uint8 [97 0 98]", "<nil> <nil>"},
		"event_time_us": {"int64 5", "<nil> <nil>", "<nil> <nil>", "<nil> <nil>"},
		"message_id":    {"string id", "<nil> <nil>", "<nil> <nil>", "<nil> <nil>"},
		"headers": {
			`string [{"name":"a","value":"1"},{"name":"b","value":null},{"name":"c","value":null,"base64":"/w=="}]`,
			"<nil> <nil>", "<nil> <nil>", "<nil> <nil>",
		},
		"json_extract(iif(json_valid(value), value, '{}'), '$.n')": {"int64 1", "<nil> <nil>", "<nil> <nil>", "<nil> <nil>"},
	} {
		if got := values(t, db, "SELECT "+column+` FROM "a ""table"""`); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", column, got, want)
		}
	}
}

func TestWhatIsNotJSONIsRefusedIfThatIsWanted(t *testing.T) {
	some := headrace.NewRows(headrace.Part{}, 3, headrace.Message{Value: []byte("{}")}, headrace.Message{Value: []byte("{")},
		headrace.Message{})
	refused, err := refuseOthers(t.Context(), some)
	if err != nil || len(refused) != 2 || refused[0].Sequence != 4 || refused[1].Sequence != 5 {
		t.Errorf("refused %v, %v", refused, err)
	}
	db := opened(t, filepath.Join(t.TempDir(), "a.db"), "messages")
	if db.sink("s", true).Check == nil || db.sink("s", false).Check != nil {
		t.Error("--json does not decide what is checked")
	}
}

func TestAFileThatIsNoDatabaseIsAnError(t *testing.T) {
	if _, err := openDatabase(t.Context(), t.TempDir(), "messages"); err == nil {
		t.Error("a folder is opened as a database")
	}
	if _, err := openDatabase(t.Context(), filepath.Join(t.TempDir(), strings.Repeat("x", 300)), "messages"); err == nil {
		t.Error("a file is created that cannot be")
	}
}
