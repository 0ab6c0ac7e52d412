package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"iter"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/headrace/headrace/sdk/go/headrace"
	_ "github.com/ncruces/go-sqlite3/driver"
)

// database is a batch-idempotent sink. A batch is one transaction: its rows, and the number of the batch as the last one of its
// pipeline. So a batch that comes again is found, whatever was killed in between.
type database struct {
	*sql.DB
	insert string
}

// openDatabase opens a database, and creates it and its tables where they are missing.
func openDatabase(ctx context.Context, path, table string) (*database, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	settings := url.Values{
		"_txlock": {"immediate"}, // A transaction waits for its turn when it begins, and not halfway.
		// With the log, others can read meanwhile. Each transaction is on the disk before it is acknowledged.
		"_pragma": {"busy_timeout(10000)", "journal_mode(wal)", "synchronous(full)"},
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: settings.Encode()}
	db, err := sql.Open("sqlite3", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer.
	table = `"` + strings.ReplaceAll(table, `"`, `""`) + `"`
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS headrace_batches (pipeline TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID`,
		`CREATE TABLE IF NOT EXISTS ` + table + ` (key, value, event_time_us INTEGER, message_id TEXT, headers TEXT)`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return &database{db, `INSERT INTO ` + table + ` (key, value, event_time_us, message_id, headers) VALUES (?, ?, ?, ?, ?)`}, nil
}

// sink is the sink that writes to the database.
func (db *database) sink(name string, onlyJSON bool) *headrace.Sink {
	found := &headrace.Sink{
		Name: name, Connector: "go-sqlite-sink", Version: headrace.Version, Idempotent: db, Last: db.last, Pipelines: db.pipelines,
	}
	if onlyJSON {
		found.Check = refuseOthers
	}
	return found
}

// refuseOthers refuses messages whose value is not JSON.
func refuseOthers(_ context.Context, rows *headrace.Rows) ([]headrace.Refused, error) {
	var refused []headrace.Refused
	for m := range rows.Messages() {
		if !json.Valid(m.Value) {
			refused = append(refused, headrace.Refused{Sequence: m.Sequence, Reason: "the value is not JSON"})
		}
	}
	return refused, nil
}

// Write writes a batch, unless it is written already.
func (db *database) Write(ctx context.Context, t headrace.Transaction, rows iter.Seq2[*headrace.Rows, error]) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // It has no effect after Commit.
	result, err := tx.ExecContext(ctx, `INSERT INTO headrace_batches VALUES (?, ?)
		ON CONFLICT (pipeline) DO UPDATE SET last = excluded.last WHERE excluded.last > last`, t.Pipeline, int64(t.Batch))
	if err != nil {
		return err
	}
	changed, err := result.RowsAffected()
	if err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, db.insert)
	if err != nil {
		return err
	}
	defer insert.Close()
	for some, err := range rows {
		if err != nil {
			return err
		}
		if changed == 0 {
			continue // A batch that is not later than the last one was written before.
		}
		for m := range some.Messages() {
			if _, err := insert.ExecContext(ctx, columns(&m)...); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

// last returns the last batch of a pipeline.
func (db *database) last(ctx context.Context, pipeline string) (uint64, bool, error) {
	var batch int64
	err := db.QueryRowContext(ctx, `SELECT last FROM headrace_batches WHERE pipeline = ?`, pipeline).Scan(&batch)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return uint64(batch), err == nil, err
}

// pipelines lists the pipelines that have written something.
func (db *database) pipelines(ctx context.Context) ([]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT pipeline FROM headrace_batches`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var pipeline string
		if err := rows.Scan(&pipeline); err != nil {
			return nil, err
		}
		all = append(all, pipeline)
	}
	return all, rows.Err()
}
