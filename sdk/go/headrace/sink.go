package headrace

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Sink is where Spark writes to. Name and exactly one of TwoPhase, Idempotent and AtLeastOnce are required; the latter is the
// sink's mode, which is the same for all instances of a sink.
type Sink struct {
	// Name is the sink's name in Spark: df.writeStream.format("headrace").option("sink", name). ASCII letters, digits and
	// "._-".
	Name string

	// TwoPhase writes exactly once: it stages rows durably, and shows them at a Commit.
	TwoPhase TwoPhase
	// Idempotent writes exactly once, if a batch that runs again has the same rows: it writes a batch together with its name.
	Idempotent Idempotent
	// AtLeastOnce writes what Spark delivers; what is delivered again is written again.
	AtLeastOnce AtLeastOnce

	// Check refuses rows that must not reach Idempotent.Write, as they arrive. Only with Idempotent. Optional.
	Check func(ctx context.Context, rows *Rows) ([]Refused, error)
	// Last returns the last batch of a pipeline that was written, and false if there is none. It is not written again. Only
	// with Idempotent. Optional.
	Last func(ctx context.Context, pipeline string) (batch uint64, ok bool, err error)
	// Pipelines lists the pipelines whose last batch is reported when the connector starts. Only with Idempotent. Optional.
	Pipelines func(ctx context.Context) ([]string, error)

	// Close releases what the sink holds, such as connections. [Run] calls it once at its end, also after an error, and after
	// every other function has returned. Its error is logged. If another function does not return within Options.CloseTimeout,
	// Close is not called; if Close does not, Run returns without it. Optional.
	Close func() error

	// KeepsRuns says that the sink keeps what several runs of a query write of one batch apart, as two drivers on one checkpoint
	// may for a moment: Transaction.Run is then part of what identifies a transaction. Prepare, Commit and Abort concern this
	// run only. Of what several runs have prepared, one is committed, and the others are aborted. Only with TwoPhase.
	KeepsRuns bool

	// Connector is the connector's name, shown with its sessions. Default: Name.
	Connector string
	// Version is the connector's version, shown with its sessions. Default: "0".
	Version string
}

// TwoPhase is a sink that stages the rows of a task durably where nobody sees them, votes for a transaction, and shows it on
// commit, also after a crash. Stage is called concurrently for several parts; the other methods are called one at a time. An
// error is reported to the gateway: the batch runs again, or a commit is repeated.
type TwoPhase interface {
	// Stage stores a part durably, invisibly. It ranges over rows to the end; an error that they yield means that the part is
	// no longer needed, and is to be returned. It returns the messages that it will never accept, which become dead
	// letters, in order. If it returns an error, Drop is called.
	Stage(ctx context.Context, part Part, rows iter.Seq2[*Rows, error]) ([]Refused, error)
	// Drop deletes what is stored of a part; nothing if there is nothing.
	Drop(ctx context.Context, part Part) error
	// Prepare promises to commit these parts, even after a crash, and drops the transaction's other parts. It returns an
	// error if one of them is not staged.
	Prepare(ctx context.Context, transaction Transaction, parts []Part) error
	// Commit makes a prepared transaction visible, durably; nothing if it is visible already. It returns an error if the
	// transaction is neither prepared nor visible.
	Commit(ctx context.Context, transaction Transaction) error
	// Abort deletes what is stored of a transaction that is not committed; nothing if there is nothing.
	Abort(ctx context.Context, transaction Transaction) error
	// Recover completes a commit that a crash has interrupted, and returns what is stored. Called whenever the connector
	// connects.
	Recover(ctx context.Context) (Recovered, error)
}

// Idempotent is a sink that can write many rows and a name in one atomic step. Its methods, and the optional functions of
// Sink, are called one at a time.
type Idempotent interface {
	// Write writes the rows of a transaction and its name, all or nothing; nothing if it finds the name. Called once Spark has
	// chosen the parts that count, and again after an error. It ranges over rows to the end.
	Write(ctx context.Context, transaction Transaction, rows iter.Seq2[*Rows, error]) error
}

// AtLeastOnce is a sink that writes rows as they arrive. Its methods are called one at a time. After an error, Spark delivers
// the part again.
type AtLeastOnce interface {
	// Write writes rows; rows of several parts may be interleaved. It returns the messages that it will never accept, in
	// order.
	Write(ctx context.Context, rows *Rows) ([]Refused, error)
	// Flush makes what was written durable. Called at the end of each part.
	Flush(ctx context.Context) error
}

// Transaction is what one micro-batch of one pipeline writes to a sink.
type Transaction struct {
	// Pipeline is the id of the query, which its checkpoint keeps.
	Pipeline string
	// Batch is the micro-batch, counted from 0.
	Batch uint64
	// Run is the run of the query that writes it, for a sink that keeps runs apart; otherwise empty.
	Run string
}

// Part is the rows of one Spark task.
type Part struct {
	Transaction
	// Partition is the task's partition, counted from 0.
	Partition uint32
	// Attempt says which try to deliver the partition this is; only one will count. It contains a "/": escape it in a file
	// name.
	Attempt string
}

// Recovered is what a two-phase sink has stored.
type Recovered struct {
	// Staged is every staged part, including the parts of prepared transactions.
	Staged []Part
	// Prepared is every transaction that is prepared and neither committed nor aborted.
	Prepared []Transaction
	// Committed is the last committed transaction of each pipeline; its run does not matter. A pipeline that is missing counts
	// as lost.
	Committed []Transaction
}

// Refused is a message that a sink will never accept. It becomes a dead letter.
type Refused struct {
	// Sequence is the message's, which is its place in the part.
	Sequence uint64
	// Reason says why, for people.
	Reason string
}

// ErrDropped is what the rows of a part yield if it is no longer needed: its task has failed, or the session was lost.
var ErrDropped = errors.New("headrace: the part is no longer needed")

// String names the pipeline and the batch.
func (t Transaction) String() string {
	return fmt.Sprintf("batch %d of pipeline %s", t.Batch, t.Pipeline)
}

// String names the partition, the attempt and the transaction.
func (p Part) String() string {
	return fmt.Sprintf("partition %d, attempt %s, of %v", p.Partition, p.Attempt, p.Transaction)
}

func (s *Sink) connector() string {
	return s.Name
}

func (s *Sink) kind() string {
	return "sink"
}

func (s *Sink) closer() func() error {
	return s.Close
}

// check says what is missing or not allowed.
func (s *Sink) check() error {
	if !isName(s.Name) {
		return &ConfigError{"Sink.Name", fmt.Sprintf("%q: 1 to 255 letters, digits and '._-' are allowed", s.Name)}
	}
	modes := 0
	for _, set := range []bool{s.TwoPhase != nil, s.Idempotent != nil, s.AtLeastOnce != nil} {
		if set {
			modes++
		}
	}
	if modes != 1 {
		return &ConfigError{"Sink", fmt.Sprintf(
			"sink %s has %d modes: set exactly one of TwoPhase, Idempotent and AtLeastOnce", s.Name, modes)}
	}
	if s.Idempotent == nil && (s.Check != nil || s.Last != nil || s.Pipelines != nil) {
		return &ConfigError{"Sink", fmt.Sprintf("sink %s: Check, Last and Pipelines are only for Idempotent", s.Name)}
	}
	return nil
}
