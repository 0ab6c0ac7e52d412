package headrace

import (
	"cmp"
	"context"
	"slices"

	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// hello returns the Hello of a session, with what the sink has stored.
func (c *sinkConnector) hello(ctx context.Context) (*pb.SinkHello, error) {
	sink := c.sink
	hello := &pb.SinkHello{
		ProtocolVersion:  protocolVersion,
		Connector:        cmp.Or(sink.Connector, sink.Name),
		ConnectorVersion: cmp.Or(sink.Version, "0"),
		Sink:             sink.Name,
		Instance:         c.options.Instance,
		Mode:             pb.SinkMode_SINK_MODE_AT_LEAST_ONCE,
		Capabilities:     []pb.Capability{pb.Capability_CAPABILITY_HEARTBEAT},
		Sdk:              sdk(),
	}
	switch {
	case sink.TwoPhase != nil:
		hello.Mode = pb.SinkMode_SINK_MODE_TWO_PHASE
		if sink.KeepsRuns {
			hello.Capabilities = append(hello.Capabilities, pb.Capability_CAPABILITY_RUNS)
		}
		var found Recovered
		err := c.options.calls.during("Recover", "", func() (err error) {
			found, err = sink.TwoPhase.Recover(ctx)
			return err
		})
		if err != nil {
			return nil, &SinkError{sink.Name, "Recover", err}
		}
		for _, part := range found.Staged {
			hello.Staged = append(hello.Staged, fromPart(part))
		}
		hello.Prepared, hello.Committed = fromTransactions(found.Prepared), fromTransactions(found.Committed)
	case sink.Idempotent != nil:
		hello.Mode = pb.SinkMode_SINK_MODE_BATCH_IDEMPOTENT
		committed, err := c.written(ctx)
		if err != nil {
			return nil, err
		}
		hello.Committed = fromTransactions(committed)
	}
	return hello, nil
}

// written asks an idempotent sink for the last batch of each pipeline.
func (c *sinkConnector) written(ctx context.Context) ([]Transaction, error) {
	if c.sink.Pipelines != nil {
		var pipelines []string
		err := c.options.calls.during("Pipelines", "", func() (err error) {
			pipelines, err = c.sink.Pipelines(ctx)
			return err
		})
		if err != nil {
			return nil, &SinkError{c.sink.Name, "Pipelines", err}
		}
		for _, pipeline := range pipelines {
			c.seen[pipeline] = true
		}
	}
	if c.sink.Last == nil {
		return nil, nil
	}
	var last []Transaction
	for pipeline := range c.seen {
		batch, ok, err := c.last(ctx, pipeline)
		if err != nil {
			return nil, &SinkError{c.sink.Name, "Last", err}
		}
		if ok {
			last = append(last, Transaction{Pipeline: pipeline, Batch: batch})
		}
	}
	slices.SortFunc(last, func(a, b Transaction) int { return cmp.Compare(a.Pipeline, b.Pipeline) })
	return last, nil
}

// last asks an idempotent sink for the last batch of a pipeline; false if there is none.
func (c *sinkConnector) last(ctx context.Context, pipeline string) (batch uint64, ok bool, err error) {
	err = c.options.calls.during("Last", "", func() (err error) {
		batch, ok, err = c.sink.Last(ctx, pipeline)
		return err
	})
	return batch, ok, err
}

func fromTransaction(t Transaction) *pb.Transaction {
	return &pb.Transaction{Pipeline: t.Pipeline, Batch: t.Batch, Run: t.Run}
}

func fromTransactions(transactions []Transaction) []*pb.Transaction {
	var all []*pb.Transaction
	for _, t := range transactions {
		all = append(all, fromTransaction(t))
	}
	return all
}

func fromPart(p Part) *pb.Part {
	return &pb.Part{Transaction: fromTransaction(p.Transaction), Partition: p.Partition, Attempt: p.Attempt}
}

func toTransaction(t *pb.Transaction) Transaction {
	return Transaction{t.GetPipeline(), t.GetBatch(), t.GetRun()}
}

func toPart(p *pb.Part) Part {
	return Part{toTransaction(p.GetTransaction()), p.GetPartition(), p.GetAttempt()}
}

func toParts(parts []*pb.Part) []Part {
	all := make([]Part, 0, len(parts))
	for _, p := range parts {
		all = append(all, toPart(p))
	}
	return all
}
