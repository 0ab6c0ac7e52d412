package headrace

import (
	"testing"

	"github.com/headrace/headrace/sdk/go/internal/frame"
)

func TestASourceThatHadCaughtUpAndYieldsMoreHasNoBacklogToTell(t *testing.T) {
	g := newGather(1, 1024, 10, func() {})
	g.setCaughtUp()
	m := &Message{Value: []byte("more"), Sequence: 1}
	if !g.add(t.Context(), m, &frame.Row{Sequence: m.Sequence, Value: m.Value, Time: frame.NullTime}) {
		t.Fatal("the message was not added")
	}
	if left := g.tellBacklog(); left != nil {
		t.Fatalf("told %+v", left)
	}
}
