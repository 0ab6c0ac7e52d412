package frame_test

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/sdk/go/internal/frame"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
	"github.com/headrace/headrace/sdk/go/internal/vectors"
)

// frames is the content of conformance/vectors/frames.json.
type frames struct {
	Valid []struct {
		Name       string  `json:"name"`
		Message    string  `json:"message"`
		DecodeOnly bool    `json:"decode_only"`
		Hex        string  `json:"hex"`
		Size       int     `json:"size"`
		Columns    columns `json:"columns"`
	} `json:"valid"`
	Invalid []struct {
		Name string `json:"name"`
		Rule string `json:"rule"`
		Hex  string `json:"hex"`
	} `json:"invalid"`
}

type columns struct {
	StreamID   uint32         `json:"stream_id"`
	Sequences  []string       `json:"sequences"`
	Keys       []*string      `json:"keys"`
	Values     []*string      `json:"values"`
	EventTimes []*string      `json:"event_times"`
	MessageIDs []*string      `json:"message_ids"`
	Headers    [][][2]*string `json:"headers"`
	Cursor     *string        `json:"cursor"`
}

func read(t *testing.T) frames {
	t.Helper()
	var found frames
	vectors.Read(t, "frames.json", &found)
	return found
}

func bytesOf(t *testing.T, text *string) []byte {
	t.Helper()
	if text == nil {
		return nil
	}
	found, err := hex.DecodeString(*text)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func parse(t *testing.T, text, message string) *pb.Frame {
	t.Helper()
	if message == "PartFrame" {
		part := &pb.PartFrame{}
		if err := proto.Unmarshal(bytesOf(t, &text), part); err != nil {
			t.Fatal(err)
		}
		return part.GetFrame()
	}
	f := &pb.Frame{}
	if err := proto.Unmarshal(bytesOf(t, &text), f); err != nil {
		t.Fatal(err)
	}
	return f
}

// encode packs columns as an SDK does.
func encode(t *testing.T, c *columns) *pb.Frame {
	t.Helper()
	packed := frame.New(c.StreamID, 0)
	for i, text := range c.Sequences {
		row := frame.Row{Key: bytesOf(t, c.Keys[i]), Value: bytesOf(t, c.Values[i]), Time: frame.NullTime}
		var err error
		if row.Sequence, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
		if when := c.EventTimes[i]; when != nil {
			if row.Time, err = strconv.ParseInt(*when, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		if id := c.MessageIDs[i]; id != nil {
			row.ID, row.HasID = *id, true
		}
		packed.Add(&row)
		for _, header := range c.Headers[i] {
			packed.AddHeader(*header[0], bytesOf(t, header[1]))
		}
	}
	if c.Cursor != nil {
		packed.SetCursor(bytesOf(t, c.Cursor))
	}
	return packed.Take(1<<30, 1<<30)
}

// decode reads a frame back into columns.
func decode(f *pb.Frame) columns {
	text := func(b []byte) *string {
		if b == nil {
			return nil
		}
		return new(hex.EncodeToString(b))
	}
	c := columns{StreamID: f.GetStreamId(), Cursor: text(f.Cursor)}
	for row, headers := range frame.Rows(f) {
		c.Sequences = append(c.Sequences, strconv.FormatUint(row.Sequence, 10))
		c.Keys, c.Values = append(c.Keys, text(row.Key)), append(c.Values, text(row.Value))
		var when, id *string
		if row.Time != frame.NullTime {
			when = new(strconv.FormatInt(row.Time, 10))
		}
		if row.HasID {
			id = &row.ID
		}
		c.EventTimes, c.MessageIDs = append(c.EventTimes, when), append(c.MessageIDs, id)
		pairs := [][2]*string{}
		for _, header := range headers {
			pairs = append(pairs, [2]*string{&header.Name, text(header.Value)})
		}
		c.Headers = append(c.Headers, pairs)
	}
	return c
}

func TestValidFrames(t *testing.T) {
	for _, test := range read(t).Valid {
		t.Run(test.Name, func(t *testing.T) {
			f := parse(t, test.Hex, test.Message)
			if err := frame.Check(f); err != nil {
				t.Error(err)
			}
			got, _ := json.Marshal(decode(f))
			want, _ := json.Marshal(test.Columns)
			if string(got) != string(want) {
				t.Errorf("decoded %s\nwant    %s", got, want)
			}
			if test.DecodeOnly {
				return
			}
			if packed := encode(t, &test.Columns); !proto.Equal(packed, f) {
				t.Errorf("encoded %v\nwant    %v", packed, f)
			}
			if last := frame.LastSequence(f); strconv.FormatUint(last, 10) != test.Columns.Sequences[len(test.Columns.Sequences)-1] {
				t.Errorf("the last sequence is %d", last)
			}
		})
	}
}

func TestInvalidFramesAreRefused(t *testing.T) {
	for _, test := range read(t).Invalid {
		number, err := strconv.Atoi(strings.TrimPrefix(test.Rule, "FRM-"))
		if err != nil || number < 3 || number > 11 {
			continue // what a decoder cannot know
		}
		t.Run(test.Name, func(t *testing.T) {
			f := &pb.Frame{}
			if err := proto.Unmarshal(bytesOf(t, &test.Hex), f); err != nil {
				return
			}
			if frame.Check(f) == nil {
				t.Error("it is accepted")
			}
		})
	}
}

// TestPiecesAreTheWhole takes frames of every size from columns of which each message is different.
func TestPiecesAreTheWhole(t *testing.T) {
	build := func() *frame.Columns {
		c := frame.New(1, 0)
		for i := range uint64(40) {
			row := frame.Row{Sequence: i * (1 + i%3), Value: make([]byte, i%7), Time: frame.NullTime}
			if i > 20 {
				row.Key, row.ID, row.HasID, row.Time = []byte("key"), "id", true, int64(i)
			}
			c.Add(&row)
			for range i % 4 {
				c.AddHeader("name", make([]byte, i))
			}
		}
		c.SetCursor([]byte("end"))
		return c
	}
	whole := decode(build().Take(1<<30, 1<<30))
	for limit := range uint64(700) {
		var got columns
		c := build()
		for c.Rows() > 0 {
			size := c.NextSize()
			f := c.Take(limit, 7)
			if f == nil {
				if size <= limit {
					t.Fatalf("a message of %d bytes does not fit into %d", size, limit)
				}
				f = c.Take(size, 1)
			} else if uint64(proto.Size(f)) > limit || f.GetCount() > 7 {
				t.Fatalf("a frame of %d bytes and %d messages, and the limits are %d and 7", proto.Size(f), f.GetCount(), limit)
			}
			if err := frame.Check(f); err != nil {
				t.Fatal(err)
			}
			piece := decode(f)
			if (piece.Cursor != nil) != (c.Rows() == 0) {
				t.Fatalf("the cursor is %v with %d messages left", piece.Cursor, c.Rows())
			}
			got.StreamID, got.Cursor = piece.StreamID, piece.Cursor
			got.Sequences = slices.Concat(got.Sequences, piece.Sequences)
			got.Keys, got.Values = slices.Concat(got.Keys, piece.Keys), slices.Concat(got.Values, piece.Values)
			got.EventTimes = slices.Concat(got.EventTimes, piece.EventTimes)
			got.MessageIDs = slices.Concat(got.MessageIDs, piece.MessageIDs)
			got.Headers = slices.Concat(got.Headers, piece.Headers)
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(whole)
		if string(a) != string(b) {
			t.Fatalf("pieces of %d bytes are %s, the whole is %s", limit, a, b)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	row := frame.Row{Key: []byte("key-42"), Value: make([]byte, 55), Time: 1}
	b.ReportAllocs()
	c := frame.New(1, 256<<10)
	for b.Loop() {
		if c.Size() > 256<<10 {
			c = frame.New(1, 256<<10)
		}
		row.Sequence++
		c.Add(&row)
	}
}
