package headrace

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

var errIgnoresPosition = errors.New(
	"the source ignores its position: Read yields what was received before; begin after p.Position.Sequence")

const (
	ownedRetry     = time.Second
	firstLostRetry = 500 * time.Millisecond
	maxLostRetry   = 30 * time.Second
)

// open asks for a stream, under a new id.
func (s *sourceSession) open(partition string) {
	name, err := s.c.source.streamName(partition)
	if err != nil {
		s.leaveFor(err, s.c.options.DrainTimeout, true)
		return
	}
	delete(s.paused, partition)
	s.lastID++
	st := &stream{id: s.lastID, partition: partition, name: name}
	// Frames of a quarter of the window: some are sent while others are acknowledged.
	window := s.welcome.GetCredit()
	st.gather = newGather(st.id,
		int(min(uint64(s.c.options.FrameBytes), s.send.maxBytes, window.GetBytes()/4)),
		max(1, int(min(uint64(s.c.options.FrameMessages), uint64(s.send.maxMessages), window.GetMessages()/4))),
		func() { s.lookAt(st, false) })
	s.streams[st.id], s.current[partition] = st, st
	kind := pb.SourceKind_SOURCE_KIND_REPLAYABLE
	if s.c.source.Redelivering {
		kind = pb.SourceKind_SOURCE_KIND_REDELIVERING
	} else if s.c.source.Resumable {
		kind = pb.SourceKind_SOURCE_KIND_RESUMABLE
	}
	s.send.say(&pb.IngestRequest{Message: &pb.IngestRequest_OpenStream{OpenStream: &pb.OpenStream{
		StreamId: st.id, Stream: name, Kind: kind, ChoosesStart: s.c.source.Starts != nil,
	}}})
}

// opened starts to read a stream.
func (s *sourceSession) opened(answer *pb.StreamOpened) {
	st := s.streams[answer.GetStreamId()]
	if st == nil || st.muted || st.reading != nil || s.leaving != nil {
		return
	}
	st.epoch = answer.GetEpoch()
	source := s.c.source
	failed := func(err error) {
		s.mu.Lock()
		s.ackErr = err
		s.mu.Unlock()
		s.post(func() { s.leaveFor(err, s.c.options.DrainTimeout, true) })
	}
	st.acks = startAcknowledger(s.deliver, source, s.c.options.calls, st.name, st.partition, s.workers.Go, failed)
	if position := answer.GetResume(); position != nil && position.GetEpoch() == st.epoch {
		st.resume = new(position.GetSequence())
	}
	if position := answer.GetAcknowledged(); position != nil && st.acknowledge(position) {
		s.c.starts.acknowledged(st.partition, position.GetSequence())
	}
	r := &reader{
		source: source, calls: s.c.options.calls, stream: st.name, gather: st.gather, maxFrameBytes: s.send.maxBytes, next: 1, maxCursor: s.maxCursor(),
		partition: &Partition{
			Name: st.partition, session: st.gather, health: s.c.options.Health, stream: st.name, maxCursor: s.maxCursor(),
		},
		leftOut: func(err *MessageError) {
			s.c.options.Health.Survived(st.name, err)
			s.c.options.Metrics.Add(CounterRefused, st.name, 1)
		},
	}
	r.repeated = func(count uint64, passed bool) { s.repeated(st.name, count, passed) }
	if st.resume != nil && !source.Redelivering {
		r.resume, r.next = st.resume, *st.resume+1
		if answer.GetSkipLost() {
			r.partition.skipped = st.resume
		} else {
			r.partition.Position = toPosition(answer.GetResume())
		}
	}
	if source.Redelivering {
		r.partition.Position = toPosition(answer.GetEarlier())
	}
	if r.partition.Position == nil || r.partition.Position.Cursor == nil {
		st.gather.beginWithoutCursor()
	}
	if source.Redelivering {
		s.c.log.Info("stream opened", "stream", st.name)
	} else if r.partition.Position == nil {
		s.c.log.Info("stream opened, from the start", "stream", st.name)
	} else {
		s.c.log.Info("stream opened", "stream", st.name, "resume", r.partition.Position.Sequence)
	}
	s.c.options.Health.recovered(st.name)
	ctx, cancel := context.WithCancel(s.ctx)
	st.reading, st.readerDone = cancel, make(chan struct{})
	s.workers.Go(func() {
		defer cancel()
		how, err := r.run(ctx)
		close(st.readerDone)
		switch {
		case errors.Is(err, errStopped):
		case err != nil:
			s.post(func() { s.readerFailed(st, err) })
		default:
			st.gather.end(how)
		}
	})
}

// repeated tells that a source yields what was received before the position that it was given, and how much, once it has passed it.
func (s *sourceSession) repeated(stream string, count uint64, passed bool) {
	if passed {
		s.c.log.Warn("messages read again", "stream", stream, "messages", count)
		return
	}
	s.c.log.Warn(errIgnoresPosition.Error(), "stream", stream)
	s.c.options.Health.Survived(stream, errIgnoresPosition)
}

// rejected gives a stream up, or opens it again.
func (s *sourceSession) rejected(reject *pb.Reject) {
	st := s.streams[reject.GetStreamId()]
	if st == nil || st.muted {
		return
	}
	err := &SessionError{
		Gateway: s.c.options.Gateway, Stream: st.name, Code: codes.Aborted, Reason: reject.GetReason().String(),
		Message: reject.GetMessage(),
	}
	retry := time.Duration(reject.GetRetryAfterMs()) * time.Millisecond
	switch reject.GetReason() {
	case pb.RejectReason_REJECT_REASON_REOPEN:
		s.c.log.Info("stream is opened again", "stream", st.name, "reason", reject.GetMessage())
		s.reopen(st, retry)
	case pb.RejectReason_REJECT_REASON_OWNED:
		s.c.log.Warn("stream is owned by another instance", "stream", st.name, "reason", reject.GetMessage())
		s.c.options.Health.degraded(st.name, st.name, err)
		if retry == 0 {
			retry = ownedRetry
		}
		s.reopen(st, retry)
	default:
		err.Code = codes.PermissionDenied
		st.mute()
		s.leaveFor(err, s.c.options.DrainTimeout, true)
	}
}

// reopen stops the reader of a stream, and asks for the stream again, under a new id.
func (s *sourceSession) reopen(st *stream, delay time.Duration) {
	st.mute()
	st.acks.close()
	st.lastSent, st.tokens = nil, nil
	s.send.credit.add(st.lent.take())
	s.workers.Go(func() {
		if st.readerDone != nil {
			<-st.readerDone
		}
		wait(s.ctx, delay)
		s.post(func() {
			delete(s.streams, st.id)
			if s.leaving == nil {
				s.open(st.partition)
			}
		})
	})
}

// readerFailed deals with an error that Read has yielded.
func (s *sourceSession) readerFailed(st *stream, err error) {
	var lost *PositionLostError
	switch {
	case st.muted || s.leaving != nil:
		s.c.log.Debug("a reader failed while it was stopped", "stream", st.name, "error", err)
	case errors.As(err, &lost):
		s.positionLost(st, lost)
	default:
		// The messages before are sound, and are sent first.
		s.leaveFor(err, s.c.options.DrainTimeout, true)
	}
}

// positionLost tells the gateway, and asks for the stream again; ever more rarely if that does not help.
func (s *sourceSession) positionLost(st *stream, lost *PositionLostError) {
	s.c.log.Warn("position lost", "stream", st.name, "reason", lost.Error())
	s.c.options.Health.degraded(st.name, st.name, lost)
	s.send.say(&pb.IngestRequest{Message: &pb.IngestRequest_PositionLost{PositionLost: &pb.PositionLost{
		StreamId: st.id, EarliestSequence: lost.Earliest, Reason: truncated(lost.Error(), maxReasonBytes),
	}}})
	delay := time.Duration(0)
	if times := s.lost[st.partition]; times > 0 {
		delay = min(maxLostRetry, firstLostRetry<<min(times-1, 10))
	}
	s.lost[st.partition]++
	s.reopen(st, delay)
}

// frameSent notes that a frame of a stream, or its end, goes out.
func (s *sourceSession) frameSent(st *stream) {
	if st.unacknowledged() {
		delete(s.lost, st.partition)
	}
	s.forgetIfFinished(st)
}

// forgetIfFinished keeps nothing of a stream that has ended, or was closed for now, once all of it is acknowledged.
func (s *sourceSession) forgetIfFinished(st *stream) {
	if s.leaving != nil || s.streams[st.id] == nil || !st.finished() {
		return
	}
	delete(s.streams, st.id)
	delete(s.current, st.partition)
	st.acks.close()
	switch st.gather.state().ended {
	case endedForNow:
		s.paused[st.partition] = true
	case endedGone:
		s.ended[st.partition], s.gone[st.partition] = true, true
	default:
		s.ended[st.partition], s.some = true, true
	}
	if s.c.source.TakesTurns || s.allFinished() {
		s.pollNow()
	}
}

// outstanding says whether anything that was sent is not acknowledged.
func (s *sourceSession) outstanding() bool {
	for _, st := range s.streams {
		if st.unacknowledged() {
			return true
		}
	}
	return false
}

// allFinished says whether there were partitions, and all of them have ended and are acknowledged.
func (s *sourceSession) allFinished() bool {
	return s.some && len(s.current) == 0 && len(s.paused) == 0
}
