package headrace

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// told says at which seconds a function that may take ten is named.
func told(r *running, places []standing, seconds ...int) []bool {
	var named []bool
	for _, second := range seconds {
		now := time.Unix(int64(second), 0)
		named = append(named, r.mayBeOverdue(now, 10*time.Second) && r.told(now, 10*time.Second, places) != "")
	}
	return named
}

func TestAFunctionIsNamedAgainAfterTwiceTheTimeAndNotWhileItDoesSomething(t *testing.T) {
	r, places := &running{function: "Stage"}, []standing{{"main.stage", "main.go:7"}}
	if named := told(r, places, 0, 9, 11, 21, 23, 45, 47); !slices.Equal(named, []bool{false, false, true, false, true, false, true}) {
		t.Error(named)
	}
	r.moves.Add(1)
	if named := told(r, places, 48, 57, 59); !slices.Equal(named, []bool{false, false, true}) {
		t.Error(named)
	}
	if named := told(r, nil, 100, 112); slices.Contains(named, true) {
		t.Errorf("it waits for the SDK: %v", named)
	}
	if named := told(r, places, 113, 121); !slices.Equal(named, []bool{false, false}) {
		t.Error(named)
	}
}

func TestTheSentenceHasTheFunctionAndBothLines(t *testing.T) {
	r := &running{function: "Commit", since: time.Unix(0, 0)}
	sentence := r.told(time.Unix(12, 0), time.Second, []standing{{"disk.Sync", "disk.go:3"}, {"main.commit", "main.go:7"}})
	if sentence != "Commit (main.commit) has not returned for 12.0 s; it stands at main.go:7, which waits at disk.go:3" {
		t.Error(sentence)
	}
}

func TestAGoroutineThatWaitsInTheSDKStandsNowhereInTheConnector(t *testing.T) {
	var waits sync.Mutex
	waits.Lock()
	name, done := make(chan string), make(chan struct{})
	go func() {
		defer close(done)
		name <- goroutine()
		waits.Lock()
	}()
	found := placesOf(stacks(), <-name)
	if len(found) == 0 || !strings.HasPrefix(found[len(found)-1].function, ownPrefix) {
		t.Errorf("the stack is %v", found)
	}
	if places := ofConnector(found); len(places) > 0 {
		t.Errorf("it stands at %v", places)
	}
	waits.Unlock()
	<-done
}
