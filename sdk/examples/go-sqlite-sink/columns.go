package main

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/headrace/headrace/sdk/go/headrace"
)

// header is a header in the column: a value that is not text is in base64.
type header struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Base64 []byte  `json:"base64,omitempty"`
}

// columns returns the columns of a message.
func columns(m *headrace.Message) []any {
	var eventTime, id any
	if !m.EventTime.IsZero() {
		eventTime = m.EventTime.UnixMicro()
	}
	if m.ID != "" {
		id = m.ID
	}
	return []any{stored(m.Key), stored(m.Value), eventTime, id, headers(m.Headers)}
}

// stored returns bytes as text if they are text, so that SQL can compare them with text, and else as they are. Nil is NULL.
func stored(b []byte) any {
	switch {
	case b == nil:
		return nil
	case isText(b):
		return string(b)
	}
	return b
}

// isText says whether SQLite can store bytes as text: functions of SQL take a zero for its end.
func isText(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}

// headers returns headers as JSON; NULL if there are none.
func headers(all []headrace.Header) any {
	if len(all) == 0 {
		return nil
	}
	found := make([]header, 0, len(all))
	for _, h := range all {
		switch {
		case h.Value == nil:
			found = append(found, header{Name: h.Name})
		case isText(h.Value):
			found = append(found, header{Name: h.Name, Value: new(string(h.Value))})
		default:
			found = append(found, header{Name: h.Name, Base64: h.Value})
		}
	}
	text, err := json.Marshal(found)
	if err != nil {
		panic(err) // Texts and bytes can always be encoded.
	}
	return string(text)
}
