package application

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	protocol "github.com/headrace/headrace/sdk/go/internal/protocol/programv1"
)

// noTime stands for an unknown event time.
const noTime = math.MinInt64

// results gathers what a step makes of a block.
type results struct {
	messages []byte
	values   column
	changed  []uint32
	failed   []*protocol.FailedMessage
}

// process runs a step on a block.
func process(step *Step, block *protocol.ProgramBlock) (*protocol.ProgramResults, error) {
	messages, indices, err := messagesOf(block)
	if err != nil {
		return nil, err
	}
	states, err := statesOf(step, block)
	if err != nil {
		return nil, err
	}
	var made results
	for number := range messages {
		key := indices[number]
		made.process(step, uint32(number), messages[number], key, &states[key])
	}
	return made.response(step, block.GetBlock(), states), nil
}

// process runs the step on one message.
func (r *results) process(step *Step, number uint32, message Message, key uint32, state *State) {
	entries, size := r.values.len(), len(r.values.data)
	err := step.Process(message, state, func(result []byte) {
		if result == nil {
			result = []byte{}
		}
		r.values.add(result)
		r.messages = binary.LittleEndian.AppendUint32(r.messages, number)
	})
	if err != nil {
		r.values.cut(entries, size)
		r.messages = r.messages[:4*entries]
		r.failed = append(r.failed, &protocol.FailedMessage{Message: number, Reason: err.Error()})
	}
	if state.settle(err != nil) {
		r.changed = append(r.changed, key)
	}
}

// response returns the results as a message.
func (r *results) response(step *Step, block uint64, states []State) *protocol.ProgramResults {
	response := &protocol.ProgramResults{
		Block:          block,
		MessageIndices: r.messages,
		Values:         r.values.data,
		ValueLengths:   r.values.lengths,
		Failed:         r.failed,
	}
	for field := range step.State {
		var values column
		for _, key := range r.changed {
			values.add(states[key].fields[field])
		}
		response.States = append(response.States, &protocol.StateColumn{Values: values.data, Lengths: values.lengths})
	}
	for _, key := range r.changed {
		response.ChangedKeys = binary.LittleEndian.AppendUint32(response.ChangedKeys, key)
	}
	return response
}

// messagesOf returns the messages of a block, and the index of each one's key.
func messagesOf(block *protocol.ProgramBlock) ([]Message, []uint32, error) {
	count := len(block.GetKeyIndices()) / 4
	times := block.GetEventTimes()
	if len(block.GetKeyIndices())%4 != 0 || len(block.GetSequences()) != 8*count || (len(times) != 0 && len(times) != 8*count) {
		return nil, nil, fmt.Errorf("the columns of block %d have different numbers of messages", block.GetBlock())
	}
	values, err := split("values", block.GetValues(), block.GetValueLengths(), count)
	if err != nil {
		return nil, nil, err
	}
	keys, err := split("keys", block.GetKeys(), block.GetKeyLengths(), len(block.GetKeyLengths())/4)
	if err != nil {
		return nil, nil, err
	}
	messages, indices := make([]Message, count), make([]uint32, count)
	for number := range messages {
		key := binary.LittleEndian.Uint32(block.GetKeyIndices()[4*number:])
		if int(key) >= len(keys) {
			return nil, nil, fmt.Errorf("message %d has key %d, but the keys of the block are 0 to %d", number, key, len(keys)-1)
		}
		indices[number] = key
		messages[number] = Message{
			Key:      keys[key],
			Value:    values[number],
			Stream:   block.GetStream(),
			Sequence: binary.LittleEndian.Uint64(block.GetSequences()[8*number:]),
		}
		if len(times) != 0 {
			if micros := int64(binary.LittleEndian.Uint64(times[8*number:])); micros != noTime {
				messages[number].EventTime = time.UnixMicro(micros).UTC()
			}
		}
	}
	return messages, indices, nil
}

// statesOf returns the states of the keys of a block.
func statesOf(step *Step, block *protocol.ProgramBlock) ([]State, error) {
	if len(block.GetStates()) != len(step.State) {
		return nil, fmt.Errorf("block %d: fields of states: %d expected, %d arrived", block.GetBlock(), len(step.State), len(block.GetStates()))
	}
	count, width := len(block.GetKeyLengths())/4, len(step.State)
	states, fields := make([]State, count), make([][]byte, count*width)
	for index := range states {
		states[index] = State{names: step.State, fields: fields[index*width : (index+1)*width : (index+1)*width]}
	}
	for field, name := range step.State {
		column := block.GetStates()[field]
		values, err := split("the field "+name, column.GetValues(), column.GetLengths(), count)
		if err != nil {
			return nil, err
		}
		for index, value := range values {
			states[index].fields[field] = value
		}
	}
	return states, nil
}
