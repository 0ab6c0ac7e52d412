package application

import (
	"fmt"
	"slices"
	"time"
)

// Step is a keyed step of an application.
type Step struct {
	// Name is the name of the step in the pipeline.
	Name string
	// State has the names of the fields of a state, the same as in the pipeline.
	State []string
	// Process is called with the messages of each key in order. If it returns an error, its results and its changes of the
	// state are dropped, and the policy of the step decides what becomes of the message. A panic ends the program, and with it
	// the query.
	Process func(message Message, state *State, emit func(result []byte)) error
}

// Message is a message for a step. Its slices are valid until Process returns.
type Message struct {
	// Key is the key: bytes as they are, text in UTF-8, anything else as Python writes it; nil is null.
	Key []byte
	// Value is the payload; nil is null.
	Value []byte
	// EventTime is when it happened, to the microsecond, in UTC; the zero time is unknown.
	EventTime time.Time
	// Stream is the stream that it comes from, and Sequence its sequence there.
	Stream   string
	Sequence uint64
}

// State is the state of a key: bytes by field. It is valid until Process returns.
type State struct {
	names  []string
	fields [][]byte // nil is absent
	before [][]byte // the fields before the present message; nil if it has not changed them
	// changed says whether an earlier message of the block has changed them.
	changed bool
}

// Get returns a field, or nil if the state lacks it. It must not be modified, and is valid until Process returns.
func (s *State) Get(field string) []byte {
	return s.fields[s.index(field)]
}

// Set sets a field to a copy of value; nil is the same as empty.
func (s *State) Set(field string, value []byte) {
	index := s.index(field)
	s.remember()
	s.fields[index] = append(make([]byte, 0, len(value)), value...)
}

// Delete removes a field. A state without fields is not stored.
func (s *State) Delete(field string) {
	index := s.index(field)
	s.remember()
	s.fields[index] = nil
}

// Clear removes all fields.
func (s *State) Clear() {
	s.remember()
	clear(s.fields)
}

// index returns where a field is.
func (s *State) index(field string) int {
	index := slices.Index(s.names, field)
	if index < 0 {
		panic(fmt.Sprintf("the state has no field %q: Step.State names %q", field, s.names))
	}
	return index
}

// remember keeps the fields for the case that Process returns an error.
func (s *State) remember() {
	if s.before == nil {
		s.before = slices.Clone(s.fields)
	}
}

// settle ends the present message. It returns whether the message is the first one of the block that has changed the state.
func (s *State) settle(failed bool) bool {
	before := s.before
	s.before = nil
	if before == nil {
		return false
	}
	if failed {
		s.fields = before
		return false
	}
	first := !s.changed
	s.changed = true
	return first
}
