package application_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/sdk/go/application"
	protocol "github.com/headrace/headrace/sdk/go/internal/protocol/programv1"
)

// count emits the number of messages of a key, with all that a message has. Values are commands, too.
func count(message application.Message, state *application.State, emit func([]byte)) error {
	number := len(state.Get("seen")) + 1
	state.Set("seen", bytes.Repeat([]byte("x"), number))
	emit(fmt.Appendf(nil, "%s %s %d of %s/%d at %d", message.Key, message.Value, number, message.Stream, message.Sequence, message.EventTime.Unix()))
	switch string(message.Value) {
	case "fail":
		return errors.New("it refuses")
	case "twice":
		emit(nil)
	case "last":
		state.Set("last", nil)
	case "unlast":
		state.Delete("last")
	case "clear":
		state.Clear()
	}
	return nil
}

var step = application.Step{Name: "count", State: []string{"seen", "last"}, Process: count}

func hello(change func(*protocol.ProgramHello)) *protocol.ProgramRequest {
	hello := &protocol.ProgramHello{
		ProtocolVersion: 1, Pipeline: "votes", Step: "count", StateFields: []string{"last", "seen"}, MaxMessageBytes: 1 << 20,
	}
	if change != nil {
		change(hello)
	}
	return &protocol.ProgramRequest{Request: &protocol.ProgramRequest_Hello{Hello: hello}}
}

// blockOf makes a block of messages `key=value`, with the states of the keys: the fields in the order of hello.
func blockOf(number uint64, change func(*protocol.ProgramBlock), states map[string][2][]byte, messages ...string) *protocol.ProgramRequest {
	block := &protocol.ProgramBlock{Block: number, Stream: "votes/0"}
	places := map[string]uint32{}
	var columns [2]*protocol.StateColumn
	for field := range columns {
		columns[field] = &protocol.StateColumn{}
	}
	for index, message := range messages {
		key, value, _ := strings.Cut(message, "=")
		if _, known := places[key]; !known {
			places[key] = uint32(len(places))
			block.Keys, block.KeyLengths = add(block.Keys, block.KeyLengths, []byte(key))
			for field, column := range columns {
				column.Values, column.Lengths = add(column.Values, column.Lengths, states[key][field])
			}
		}
		block.KeyIndices = binary.LittleEndian.AppendUint32(block.KeyIndices, places[key])
		block.Sequences = binary.LittleEndian.AppendUint64(block.Sequences, uint64(index+1))
		block.EventTimes = binary.LittleEndian.AppendUint64(block.EventTimes, uint64(index*1_000_000))
		block.Values, block.ValueLengths = add(block.Values, block.ValueLengths, []byte(value))
	}
	block.States = columns[:]
	if change != nil {
		change(block)
	}
	return &protocol.ProgramRequest{Request: &protocol.ProgramRequest_Block{Block: block}}
}

func add(data, lengths, value []byte) ([]byte, []byte) {
	if value == nil {
		return data, binary.LittleEndian.AppendUint32(lengths, math.MaxUint32)
	}
	return append(data, value...), binary.LittleEndian.AppendUint32(lengths, uint32(len(value)))
}

// served returns the responses to requests, and how Serve has ended.
func served(t *testing.T, requests ...*protocol.ProgramRequest) ([]*protocol.ProgramResponse, error) {
	t.Helper()
	var in, out bytes.Buffer
	for _, request := range requests {
		if _, err := protodelim.MarshalTo(&in, request); err != nil {
			t.Fatal(err)
		}
	}
	err := application.Serve(&in, &out, application.Step{Name: "another"}, step)
	var responses []*protocol.ProgramResponse
	for {
		response := &protocol.ProgramResponse{}
		if end := protodelim.UnmarshalFrom(&out, response); errors.Is(end, io.EOF) {
			return responses, err
		} else if end != nil {
			t.Fatal(end)
		}
		responses = append(responses, response)
	}
}

func values(data, lengths []byte) []string {
	var found []string
	for ; len(lengths) > 0; lengths = lengths[4:] {
		length := binary.LittleEndian.Uint32(lengths)
		if length == math.MaxUint32 {
			found = append(found, "-")
			continue
		}
		found, data = append(found, string(data[:length])), data[length:]
	}
	return found
}

func numbers(data []byte) []uint32 {
	var found []uint32
	for ; len(data) > 0; data = data[4:] {
		found = append(found, binary.LittleEndian.Uint32(data))
	}
	return found
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestAStepProcessesMessagesInOrderWithTheStatesOfTheirKeys(t *testing.T) {
	states := map[string][2][]byte{"b": {[]byte("z"), []byte("xx")}}
	responses, err := served(t, hello(nil), blockOf(1, nil, states, "a=1", "b=2", "a=twice", "b=unlast", "c=last"), blockOf(2, nil, nil, "a=1"))
	if err != nil {
		t.Fatal(err)
	}
	ready := responses[0].GetReady()
	equal(t, "version", ready.GetProtocolVersion(), uint32(1))
	equal(t, "fields", ready.GetStateFields(), []string{"seen", "last"})
	results := responses[1].GetResults()
	equal(t, "block", results.GetBlock(), uint64(1))
	equal(t, "results", values(results.GetValues(), results.GetValueLengths()), []string{
		"a 1 1 of votes/0/1 at 0", "b 2 3 of votes/0/2 at 1", "a twice 2 of votes/0/3 at 2", "", "b unlast 4 of votes/0/4 at 3",
		"c last 1 of votes/0/5 at 4",
	})
	equal(t, "messages", numbers(results.GetMessageIndices()), []uint32{0, 1, 2, 2, 3, 4})
	equal(t, "changed", numbers(results.GetChangedKeys()), []uint32{0, 1, 2})
	equal(t, "last", values(results.GetStates()[0].GetValues(), results.GetStates()[0].GetLengths()), []string{"-", "-", ""})
	equal(t, "seen", values(results.GetStates()[1].GetValues(), results.GetStates()[1].GetLengths()), []string{"xx", "xxxx", "x"})
	// It keeps nothing from one block to the next.
	second := responses[2].GetResults()
	equal(t, "second", values(second.GetValues(), second.GetValueLengths()), []string{"a 1 1 of votes/0/1 at 0"})
}

func TestAMessageThatFailsChangesNothing(t *testing.T) {
	responses, err := served(t, hello(nil), blockOf(1, nil, nil, "a=fail", "b=1", "b=fail", "c=clear"))
	if err != nil {
		t.Fatal(err)
	}
	results := responses[1].GetResults()
	equal(t, "messages", numbers(results.GetMessageIndices()), []uint32{1, 3})
	equal(t, "changed", numbers(results.GetChangedKeys()), []uint32{1, 2})
	equal(t, "seen", values(results.GetStates()[1].GetValues(), results.GetStates()[1].GetLengths()), []string{"x", "-"})
	var failed []string
	for _, message := range results.GetFailed() {
		failed = append(failed, fmt.Sprint(message.GetMessage(), " ", message.GetReason()))
	}
	equal(t, "failed", failed, []string{"0 it refuses", "2 it refuses"})
}

func TestAMessageWithoutATimeHasTheZeroTime(t *testing.T) {
	var times []bool
	known := step
	known.Process = func(message application.Message, _ *application.State, _ func([]byte)) error {
		times = append(times, message.EventTime.IsZero(), message.EventTime.Equal(time.UnixMicro(7)))
		return nil
	}
	var in bytes.Buffer
	requests := []*protocol.ProgramRequest{
		hello(nil),
		blockOf(1, func(b *protocol.ProgramBlock) { b.EventTimes = nil }, nil, "a=1"),
		blockOf(2, func(b *protocol.ProgramBlock) {
			unknown := int64(math.MinInt64)
			b.EventTimes = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(unknown)), 7)
		}, nil, "a=1", "a=2"),
	}
	for _, request := range requests {
		if _, err := protodelim.MarshalTo(&in, request); err != nil {
			t.Fatal(err)
		}
	}
	if err := application.Serve(&in, io.Discard, known); err != nil {
		t.Fatal(err)
	}
	equal(t, "times", times, []bool{true, false, true, false, false, true})
}

func TestWhatIsWrongEndsTheProgramWithAnErrorThatSaysSo(t *testing.T) {
	for name, wrong := range map[string]struct {
		requests []*protocol.ProgramRequest
		said     string
	}{
		"another version": {
			[]*protocol.ProgramRequest{hello(func(h *protocol.ProgramHello) { h.ProtocolVersion = 2 })},
			"the worker speaks version 2 of the protocol for programs, and this program version 1",
		},
		"another step": {
			[]*protocol.ProgramRequest{hello(func(h *protocol.ProgramHello) { h.Step = "sum" })},
			`pipeline votes has a step sum, and this program has the steps ["another" "count"]`,
		},
		"other fields": {
			[]*protocol.ProgramRequest{hello(func(h *protocol.ProgramHello) { h.StateFields = []string{"seen"} })},
			`the step count names the fields ["seen"] in the pipeline, and ["seen" "last"] in this program`,
		},
		"no hello":      {[]*protocol.ProgramRequest{blockOf(1, nil, nil, "a=1")}, "the first request is not ProgramHello"},
		"a second one":  {[]*protocol.ProgramRequest{hello(nil), hello(nil)}, "a request is not ProgramBlock"},
		"no such key":   {[]*protocol.ProgramRequest{hello(nil), blockOf(1, func(b *protocol.ProgramBlock) { b.KeyIndices[0] = 9 }, nil, "a=1")}, "has key 9"},
		"more lengths":  {[]*protocol.ProgramRequest{hello(nil), blockOf(1, func(b *protocol.ProgramBlock) { b.ValueLengths[0] = 9 }, nil, "a=1")}, "more than the size of the column, 1"},
		"less lengths":  {[]*protocol.ProgramRequest{hello(nil), blockOf(1, func(b *protocol.ProgramBlock) { b.ValueLengths[0] = 0 }, nil, "a=1")}, "add up to 0"},
		"no sequence":   {[]*protocol.ProgramRequest{hello(nil), blockOf(1, func(b *protocol.ProgramBlock) { b.Sequences = nil }, nil, "a=1")}, "different numbers"},
		"no states":     {[]*protocol.ProgramRequest{hello(nil), blockOf(1, func(b *protocol.ProgramBlock) { b.States = nil }, nil, "a=1")}, "2 expected, 0 arrived"},
		"a short state": {[]*protocol.ProgramRequest{hello(nil), blockOf(1, func(b *protocol.ProgramBlock) { b.States[1].Lengths = nil }, nil, "a=1")}, "bytes expected, 0 arrived"},
		"too much": {
			[]*protocol.ProgramRequest{hello(func(h *protocol.ProgramHello) { h.MaxMessageBytes = 20 }), blockOf(1, nil, nil, "a=1")},
			"the results and states of block 1 have",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := served(t, wrong.requests...)
			if err == nil || !strings.Contains(err.Error(), wrong.said) {
				t.Errorf("got %v, want %s", err, wrong.said)
			}
		})
	}
}

func TestARequestThatIsCutOffIsAnError(t *testing.T) {
	data, err := proto.Marshal(hello(nil))
	if err != nil {
		t.Fatal(err)
	}
	err = application.Serve(bytes.NewReader(append([]byte{byte(len(data) + 5)}, data...)), io.Discard, step)
	if err == nil || !strings.Contains(err.Error(), "reading standard input") {
		t.Errorf("got %v", err)
	}
	if err := application.Serve(bytes.NewReader(nil), io.Discard, step); err != nil {
		t.Errorf("no request at all: got %v", err)
	}
}

func TestAFieldThatTheStepDoesNotNamePanics(t *testing.T) {
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, `the state has no field "sum"`) {
			t.Errorf("got %s", said)
		}
	}()
	unknown := step
	unknown.Process = func(_ application.Message, state *application.State, _ func([]byte)) error {
		state.Set("sum", nil)
		return nil
	}
	var in bytes.Buffer
	for _, request := range []*protocol.ProgramRequest{hello(nil), blockOf(1, nil, nil, "a=1")} {
		if _, err := protodelim.MarshalTo(&in, request); err != nil {
			t.Fatal(err)
		}
	}
	_ = application.Serve(&in, io.Discard, unknown)
}
