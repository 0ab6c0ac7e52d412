package headrace

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/sdk/go/internal/frame"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// turnInterval is how soon partitions are listed again while they take turns.
const turnInterval = 50 * time.Millisecond

// listPartitions asks the source for its partitions, now, every few seconds, and when something has ended.
func (s *sourceSession) listPartitions() {
	ticker := time.NewTicker(s.c.options.PartitionInterval)
	defer ticker.Stop()
	for {
		partitions, err := s.c.partitions(s.ctx)
		if s.ctx.Err() != nil {
			return
		}
		next := make(chan bool, 1)
		s.post(func() { next <- s.partitionsListed(partitions, err) })
		select {
		case more := <-next:
			if !more {
				return
			}
		case <-s.ctx.Done():
			return
		}
		select {
		case <-ticker.C:
		case <-s.poll:
			if s.c.source.TakesTurns {
				// One that has ended is seldom the only one.
				wait(s.ctx, turnInterval)
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// partitionsListed opens a stream for each partition that is new, and ends the session if all have ended. It returns whether to
// list them again.
func (s *sourceSession) partitionsListed(partitions []string, err error) bool {
	if s.leaving != nil || s.result != nil {
		return false
	}
	if err == nil {
		err = s.checkPartitions(partitions)
	}
	if err != nil {
		s.leaveFor(err, s.c.options.DrainTimeout, true)
		return false
	}
	s.c.starts.listed(partitions)
	// Those that were gone and are listed later are new ones.
	for partition := range s.gone {
		if !slices.Contains(partitions, partition) {
			delete(s.gone, partition)
			delete(s.ended, partition)
		}
	}
	opened := false
	for _, partition := range partitions {
		if s.current[partition] == nil && !s.ended[partition] && len(s.current) < int(s.welcome.GetMaxStreams()) {
			s.open(partition)
			opened = true
		}
	}
	for partition := range s.paused {
		if !slices.Contains(partitions, partition) {
			delete(s.paused, partition)
		}
	}
	if !opened && s.allFinished() {
		s.finish(errEnded)
		return false
	}
	return true
}

// checkPartitions refuses a listing that cannot be meant.
func (s *sourceSession) checkPartitions(partitions []string) error {
	seen := make(map[string]bool, len(partitions))
	count := 0
	for _, partition := range partitions {
		if _, err := s.c.source.streamName(partition); err != nil {
			return err
		}
		if seen[partition] {
			return &ConfigError{"Source.Partitions", fmt.Sprintf("source %s: partition %q is listed twice", s.c.source.Name, partition)}
		}
		seen[partition] = true
		if !s.ended[partition] {
			count++
		}
	}
	if limit := int(s.welcome.GetMaxStreams()); count > limit && !s.c.source.TakesTurns {
		return &ConfigError{"Source.Partitions", fmt.Sprintf(
			"source %s has %d partitions, but the gateway limits a session to %d: split them over several instances, or set "+
				"Source.TakesTurns if they end or pause", s.c.source.Name, count, limit)}
	}
	return nil
}

// pollNow has the partitions listed soon.
func (s *sourceSession) pollNow() {
	select {
	case s.poll <- struct{}{}:
	default:
	}
}

// answerStarts says where all streams begin.
func (s *sourceSession) answerStarts() {
	if s.leaving != nil {
		return
	}
	var partitions []string
	for partition := range s.current {
		partitions = append(partitions, partition)
	}
	slices.Sort(partitions)
	s.workers.Go(func() {
		starts, err := s.c.starts.of(s.ctx, partitions)
		s.post(func() {
			if err != nil {
				s.leaveFor(err, s.c.options.DrainTimeout, true)
				return
			}
			answer := &pb.Starts{}
			for _, partition := range partitions {
				st := s.current[partition]
				if st == nil {
					continue // It has ended meanwhile.
				}
				start := &pb.Starts_Stream{StreamId: st.id}
				if position := starts[partition]; position != nil {
					if err := checkCursor(position.Cursor, s.maxCursor()); err != nil {
						err = &MessageError{st.name, position.Sequence, "Cursor", err}
						s.leaveFor(&SourceError{st.name, "Starts", err}, s.c.options.DrainTimeout, true)
						return
					}
					start.Position = fromPosition(*position)
				}
				answer.Streams = append(answer.Streams, start)
			}
			s.send.say(&pb.IngestRequest{Message: &pb.IngestRequest_Starts{Starts: answer}})
		})
	})
}

// starts is where partitions begin that no checkpoint has yet. It outlives sessions: a gateway that was restarted asks again, and
// must be told the same, or what arrived meanwhile would be left out.
type starts struct {
	source *Source
	calls  *calls

	asking sync.Mutex // one question at a time

	mu    sync.Mutex
	known map[string]*Position // nil for the first message
	seen  map[string]bool      // partitions that were listed; nil before the first listing
}

func newStarts(source *Source, calls *calls) *starts {
	return &starts{source: source, calls: calls, known: map[string]*Position{}}
}

// listed notes which partitions there are. Those that appear later begin with their first message.
func (k *starts) listed(partitions []string) {
	if k.source.Starts == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	first := k.seen == nil
	if first {
		k.seen = map[string]bool{}
	}
	for _, partition := range partitions {
		if !first && !k.seen[partition] {
			k.known[partition] = nil
		}
		k.seen[partition] = true
	}
}

// acknowledged notes that a checkpoint has a position: a query that is new after that begins elsewhere.
func (k *starts) acknowledged(partition string, sequence uint64) {
	if k.source.Starts == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if start := k.known[partition]; start == nil || sequence >= start.Sequence {
		delete(k.known, partition)
	}
}

// of returns where partitions begin, and asks the source for unknown ones.
func (k *starts) of(ctx context.Context, partitions []string) (map[string]*Position, error) {
	k.asking.Lock()
	defer k.asking.Unlock()
	var unknown []string
	k.mu.Lock()
	for _, partition := range partitions {
		if _, ok := k.known[partition]; !ok {
			unknown = append(unknown, partition)
		}
	}
	k.mu.Unlock()
	var told map[string]Position
	if len(unknown) > 0 {
		err := k.calls.during("Starts", "", func() (err error) {
			told, err = k.source.Starts(ctx, unknown)
			return err
		})
		if err != nil {
			return nil, &SourceError{k.source.Name, "Starts", err}
		}
		for partition, position := range told {
			if !slices.Contains(unknown, partition) || position.Epoch != 0 || position.Sequence > frame.MaxSequence {
				return nil, &ConfigError{"Source.Starts", fmt.Sprintf(
					"source %s: %+v for partition %q: it was not asked for, or has an epoch, or a sequence above 2^63 - 1",
					k.source.Name, position, partition)}
			}
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, partition := range unknown {
		k.known[partition] = nil
		if position, ok := told[partition]; ok {
			k.known[partition] = &position
		}
	}
	answer := make(map[string]*Position, len(partitions))
	for _, partition := range partitions {
		answer[partition] = k.known[partition]
	}
	return answer, nil
}
