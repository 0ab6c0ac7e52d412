package main

import (
	"slices"
	"testing"

	"github.com/headrace/headrace/sdk/go/headrace"
)

// read returns the numbers that a partition yields after a position.
func read(t *testing.T, n *numbers, partition string, position *headrace.Position) []uint64 {
	t.Helper()
	var got []uint64
	for m, err := range n.read(t.Context(), &headrace.Partition{Name: partition, Position: position}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Sequence)
	}
	return got
}

func TestPartitionsShareTheNumbers(t *testing.T) {
	n := &numbers{count: 8, partitions: 3}
	for partition, want := range map[string][]uint64{"0": {1, 4, 7}, "1": {2, 5, 8}, "2": {3, 6}} {
		if got := read(t, n, partition, nil); !slices.Equal(got, want) {
			t.Errorf("partition %s has %v, want %v", partition, got, want)
		}
	}
}

func TestAPartitionResumesAfterAnyPosition(t *testing.T) {
	n := &numbers{count: 20, partitions: 4}
	for sequence, want := range map[uint64][]uint64{0: {2, 6, 10, 14, 18}, 2: {6, 10, 14, 18}, 11: {14, 18}, 18: nil, 20: nil} {
		if got := read(t, n, "1", &headrace.Position{Sequence: sequence}); !slices.Equal(got, want) {
			t.Errorf("after %d: %v, want %v", sequence, got, want)
		}
	}
}

func TestWhatIsLeft(t *testing.T) {
	n := &numbers{count: 10, partitions: 3}
	left := n.left(4)
	if *left.Messages != 3 || *left.LatestSequence != 10 {
		t.Errorf("after 4: %d messages up to %d, want 3 up to 10", *left.Messages, *left.LatestSequence)
	}
	if left := n.left(13); *left.Messages != 0 {
		t.Errorf("after the end: %d messages, want 0", *left.Messages)
	}
}
