package main

import (
	"slices"
	"testing"
)

func TestPartitionsHoldEveryNumberOnce(t *testing.T) {
	for _, count := range []uint64{0, 1, 2, 3, 10, 11, 12} {
		for _, partitions := range []uint64{1, 2, 3, 5} {
			var all []uint64
			for index := range partitions {
				part := partition(index, partitions, count)
				left := part.left(part.after(0))
				for number := part.after(0); number <= part.last; number = part.after(number) {
					all = append(all, number)
					left--
				}
				if left != 0 {
					t.Errorf("%d numbers in %d partitions: partition %d is off by %d", count, partitions, index, int64(left))
				}
			}
			slices.Sort(all)
			if uint64(len(all)) != count || count > 0 && (all[0] != 1 || all[count-1] != count) {
				t.Errorf("%d numbers in %d partitions gave %v", count, partitions, all)
			}
		}
	}
}

func TestAfterIsTheNextNumberOfThePartition(t *testing.T) {
	part := partition(1, 4, 100) // 2, 6, 10, ...
	for sequence, want := range map[uint64]uint64{0: 2, 1: 2, 2: 6, 3: 6, 5: 6, 6: 10, 98: 102} {
		if got := part.after(sequence); got != want {
			t.Errorf("after %d: got %d, want %d", sequence, got, want)
		}
	}
}
