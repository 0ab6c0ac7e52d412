package headrace

import (
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// staged answers that a part is staged.
func (s *sinkSession) staged(id uint64, refused []Refused) {
	answer := &pb.Staged{Id: id}
	for _, r := range refused {
		answer.Refused = append(answer.Refused, &pb.Staged_Refused{Sequence: r.Sequence, Reason: truncated(r.Reason, maxReportedBytes)})
	}
	if len(refused) > 0 {
		s.c.log.Info("messages were refused", "sink", s.c.sink.Name, "messages", len(refused), "first_reason", refused[0].Reason)
		s.c.options.Metrics.Add(CounterRefused, s.c.sink.Name, uint64(len(refused)))
	}
	s.c.options.Health.recovered(s.c.sink.Name)
	s.c.options.Metrics.Add(CounterAcknowledgements, s.c.sink.Name, 1)
	s.say(&pb.SinkServiceAttachRequest{Message: &pb.SinkServiceAttachRequest_Staged{Staged: answer}})
}

// partFailed answers that a part cannot be staged.
func (s *sinkSession) partFailed(id uint64, part Part, err error) {
	s.c.log.Error("a part cannot be staged", "sink", s.c.sink.Name, "part", part.String(), "error", err)
	s.c.options.Health.degraded(s.c.sink.Name, "", err)
	s.say(&pb.SinkServiceAttachRequest{Message: &pb.SinkServiceAttachRequest_Failed{Failed: &pb.Failed{
		What: &pb.Failed_PartId{PartId: id}, Reason: truncated(err.Error(), maxReportedBytes),
	}}})
}

// prepared answers with the vote for a transaction.
func (s *sinkSession) prepared(t Transaction) {
	s.say(&pb.SinkServiceAttachRequest{Message: &pb.SinkServiceAttachRequest_Prepared{
		Prepared: &pb.Prepared{Transaction: fromTransaction(t)},
	}})
}

// committed answers that a transaction is visible.
func (s *sinkSession) committed(t Transaction) {
	s.say(&pb.SinkServiceAttachRequest{Message: &pb.SinkServiceAttachRequest_Committed{
		Committed: &pb.Committed{Transaction: fromTransaction(t)},
	}})
}

// transactionFailed answers that a transaction cannot be prepared or committed.
func (s *sinkSession) transactionFailed(t Transaction, doing string, err error) {
	s.logFailure(t, doing, err)
	s.say(&pb.SinkServiceAttachRequest{Message: &pb.SinkServiceAttachRequest_Failed{Failed: &pb.Failed{
		What: &pb.Failed_Transaction{Transaction: fromTransaction(t)}, Reason: truncated(err.Error(), maxReportedBytes),
	}}})
}

// logFailure logs what the gateway expects no answer to.
func (s *sinkSession) logFailure(t Transaction, doing string, err error) {
	s.c.log.Error(doing+" failed", "sink", s.c.sink.Name, "transaction", t.String(), "error", err)
	s.c.options.Health.degraded(s.c.sink.Name, "", err)
}

// received counts a frame of a part.
func (s *sinkSession) received(f *pb.Frame) {
	s.c.options.Metrics.Add(CounterFrames, s.c.sink.Name, 1)
	s.c.options.Metrics.Add(CounterMessages, s.c.sink.Name, uint64(f.GetCount()))
	s.c.options.Metrics.Add(CounterBytes, s.c.sink.Name, uint64(len(f.GetValues())+len(f.GetKeys())))
}
