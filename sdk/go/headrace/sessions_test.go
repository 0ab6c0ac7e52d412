package headrace_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/sdk/go/headrace"
	"github.com/headrace/headrace/sdk/go/internal/frame"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
	"github.com/headrace/headrace/sdk/go/internal/vectors"
)

// script is a session of conformance/vectors/sessions.
type script struct {
	Name   string           `json:"name"`
	Plays  []string         `json:"plays"`
	Token  string           `json:"token"`
	Source *scriptedSource  `json:"source"`
	Sink   *scriptedSink    `json:"sink"`
	Steps  []map[string]any `json:"steps"`
}

// scriptedMessage is a message of a scripted source.
type scriptedMessage struct {
	Sequence  string      `json:"sequence"`
	Value     *string     `json:"value"`
	Key       *string     `json:"key"`
	EventTime string      `json:"event_time"`
	ID        string      `json:"message_id"`
	Headers   [][2]string `json:"headers"`
	Cursor    *string     `json:"cursor"`
}

// scriptedSource is the source that a script declares.
type scriptedSource struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	Partitions map[string]*struct {
		Messages []scriptedMessage `json:"messages"`
		Then     string            `json:"then"`
		Pruned   bool              `json:"pruned"`
	} `json:"partitions"`
	Starts map[string]string `json:"starts"`

	mu       sync.Mutex
	appended chan struct{} // closed when there are more
	settled  []string
}

// scriptedSink is the sink that a script declares.
type scriptedSink struct {
	Name    string   `json:"name"`
	Mode    string   `json:"mode"`
	Refuses []string `json:"refuses"`
	FailsOn []string `json:"fails_on"`
}

func scripts(t *testing.T, name string) []script {
	t.Helper()
	var found struct {
		Scripts []script `json:"scripts"`
	}
	vectors.Read(t, "sessions/"+name, &found)
	return slices.DeleteFunc(found.Scripts, func(s script) bool { return !slices.Contains(s.Plays, "connector") })
}

func unhex(text *string) []byte {
	if text == nil {
		return nil
	}
	found, _ := hex.DecodeString(*text)
	return append(make([]byte, 0, len(found)), found...)
}

// message returns what the source yields.
func (m *scriptedMessage) message() headrace.Message {
	sequence, _ := strconv.ParseUint(m.Sequence, 10, 64)
	found := headrace.Message{Sequence: sequence, Value: unhex(m.Value), Key: unhex(m.Key), ID: m.ID, Cursor: unhex(m.Cursor)}
	if m.EventTime != "" {
		micros, _ := strconv.ParseInt(m.EventTime, 10, 64)
		found.EventTime = time.UnixMicro(micros)
	}
	for _, header := range m.Headers {
		found.Headers = append(found.Headers, headrace.Header{Name: header[0], Value: unhex(&header[1])})
	}
	return found
}

// next returns the message at an index, or how to wait for it.
func (s *scriptedSource) next(partition string, index int) (m *scriptedMessage, settled bool, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if messages := s.Partitions[partition].Messages; index < len(messages) {
		return &messages[index], messages[index].Value != nil && slices.Contains(s.settled, *messages[index].Value), nil
	}
	return nil, false, s.appended
}

func (s *scriptedSource) read(ctx context.Context, p *headrace.Partition) iter.Seq2[headrace.Message, error] {
	return func(yield func(headrace.Message, error) bool) {
		part := s.Partitions[p.Name]
		if part.Pruned && p.Position != nil {
			if first := part.Messages[0].message().Sequence; p.Position.Sequence+1 < first {
				yield(headrace.Message{}, &headrace.PositionLostError{Earliest: &first})
				return
			}
		}
		for index := 0; ; {
			m, settled, more := s.next(p.Name, index)
			if m == nil {
				if part.Then == "ends" {
					return
				}
				p.CaughtUp()
				select {
				case <-more:
					continue
				case <-ctx.Done():
					return
				}
			}
			index++
			found := m.message()
			if s.Kind == "redelivering" {
				if settled {
					continue
				}
				found.Token = *m.Value
			} else if s.Kind == "resumable" {
				if p.Position != nil && bytes.Compare(found.Cursor, p.Position.Cursor) <= 0 {
					continue
				}
			} else if p.Position != nil && found.Sequence <= p.Position.Sequence {
				continue
			}
			if !yield(found, nil) {
				return
			}
		}
	}
}

func (s *scriptedSource) source() *headrace.Source {
	s.appended = make(chan struct{})
	found := &headrace.Source{
		Name: s.Name, Read: s.read, Redelivering: s.Kind == "redelivering", Resumable: s.Kind == "resumable",
		Partitions: func(context.Context) ([]string, error) {
			var names []string
			for name := range s.Partitions {
				names = append(names, name)
			}
			slices.Sort(names)
			return names, nil
		},
		Settle: func(_ context.Context, _ string, tokens []any) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, token := range tokens {
				s.settled = append(s.settled, token.(string))
			}
			return nil
		},
	}
	if s.Starts != nil {
		found.Starts = func(context.Context, []string) (map[string]headrace.Position, error) {
			starts := map[string]headrace.Position{}
			for partition, text := range s.Starts {
				sequence, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					return nil, err
				}
				starts[partition] = headrace.Position{Sequence: sequence}
			}
			return starts, nil
		}
	}
	return found
}

func (s *scriptedSource) append(to map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for partition, messages := range to {
		text, _ := json.Marshal(messages)
		var more []scriptedMessage
		_ = json.Unmarshal(text, &more)
		s.Partitions[partition].Messages = append(s.Partitions[partition].Messages, more...)
	}
	close(s.appended)
	s.appended = make(chan struct{})
}

// play plays the gateway of a script, for a source or a sink.
type play[Request, Response any] struct {
	t        *testing.T
	sessions chan *session[Request, Response]
	s        *session[Request, Response]
	ids      map[float64]uint32 // what the labels of stream ids stand for
	r        *running
	do       func(what map[string]any) // a step of the source or the sink
}

// passedOver are kinds that a connector may send at any time.
var passedOver = []string{"backlog", "credit_request", "report", "busy"}

func (p *play[Request, Response]) run(steps []map[string]any) {
	p.t.Helper()
	for number, step := range steps {
		p.t.Logf("step %d: %v", number, step)
		for kind, what := range step {
			switch kind {
			case "connector":
				p.expect([]any{what})
			case "connector_in_any_order":
				p.expect(what.([]any))
			case "gateway":
				p.s.send(p.response(what.(map[string]any)))
			case "gateway_bytes":
				p.s.send(parsed[Response](p.t, what.(string)))
			case "lost":
				p.s.close(codes.Unavailable, "")
				p.s = nil
			case "end":
				p.end(what.(map[string]any))
			case "outcome":
				p.outcome(what.(string))
			case "source", "sink":
				if what.(map[string]any)["stop"] != nil {
					p.r.stop(context.Canceled)
				} else {
					p.do(what.(map[string]any))
				}
			}
		}
	}
}

// end ends the call, unless it ends by itself after Goodbye.
func (p *play[Request, Response]) end(how map[string]any) {
	p.t.Helper()
	if how["status"] == "OK" {
		select {
		case <-p.s.over:
		case <-time.After(deadline):
			p.t.Fatal("the call does not end")
		}
	} else {
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(strconv.Quote(how["status"].(string)))); err != nil {
			p.t.Fatal(err)
		}
		reason, _ := how["reason"].(string)
		p.s.close(code, reason)
	}
	p.s = nil
}

func (p *play[Request, Response]) outcome(want string) {
	p.t.Helper()
	switch want {
	case "ended":
		if err := p.r.wait(); err != nil {
			p.t.Errorf("it has ended with %v", err)
		}
	case "failed":
		if err := p.r.wait(); err == nil || errors.Is(err, context.Canceled) {
			p.t.Errorf("it has ended with %v", err)
		}
	case "reconnects":
		p.s = accept(p.t, p.sessions)
	}
}

// expect takes messages of the connector until all that are wanted have come, in any order.
func (p *play[Request, Response]) expect(wanted []any) {
	p.t.Helper()
	if p.s == nil {
		p.s = accept(p.t, p.sessions)
	}
	for len(wanted) > 0 {
		request := p.s.next()
		kind, found := p.fields(request)
		at := slices.IndexFunc(wanted, func(want any) bool {
			fields, ok := want.(map[string]any)[kind]
			return ok && p.matches(kind, fields, found)
		})
		switch {
		case at >= 0:
			wanted = slices.Delete(wanted, at, at+1)
		case kind == "frame" && p.partly(wanted, request):
		case !slices.Contains(passedOver, kind):
			p.t.Fatalf("the connector says %s %v, and the script wants %v", kind, found, wanted)
		}
	}
}

// fields returns the kind of a message of the connector, and its fields.
func (p *play[Request, Response]) fields(request *Request) (string, map[string]any) {
	p.t.Helper()
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(any(request).(proto.Message))
	var all map[string]map[string]any
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	for kind, fields := range all {
		if kind == "frame" {
			return kind, p.columns(any(request).(*pb.IngestRequest).GetFrame())
		}
		return kind, fields
	}
	return "", nil
}

// columns returns a frame as scripts write it.
func (p *play[Request, Response]) columns(f *pb.Frame) map[string]any {
	p.t.Helper()
	if err := frame.Check(f); err != nil {
		p.t.Fatal(err)
	}
	text := func(b []byte) any {
		if b == nil {
			return nil
		}
		return hex.EncodeToString(b)
	}
	lists := map[string][]any{}
	for row, headers := range frame.Rows(f) {
		var when, id any
		if row.Time != frame.NullTime {
			when = strconv.FormatInt(row.Time, 10)
		}
		if row.HasID {
			id = row.ID
		}
		pairs := []any{}
		for _, header := range headers {
			pairs = append(pairs, []any{header.Name, text(header.Value)})
		}
		for name, entry := range map[string]any{
			"sequences": strconv.FormatUint(row.Sequence, 10), "keys": text(row.Key), "values": text(row.Value),
			"event_times": when, "message_ids": id, "headers": pairs,
		} {
			lists[name] = append(lists[name], entry)
		}
	}
	found := map[string]any{"stream_id": float64(f.GetStreamId()), "cursor": text(f.Cursor)}
	for name, list := range lists {
		found[name] = list
	}
	return found
}

// partly takes the beginning of a frame that the connector has split.
func (p *play[Request, Response]) partly(wanted []any, request *Request) bool {
	got := p.columns(any(request).(*pb.IngestRequest).GetFrame())
	for _, want := range wanted {
		fields, ok := want.(map[string]any)["frame"].(map[string]any)
		if !ok || p.ids[fields["stream_id"].(float64)] != uint32(got["stream_id"].(float64)) {
			continue
		}
		count := len(got["sequences"].([]any))
		if count >= len(fields["sequences"].([]any)) || !reflect.DeepEqual(fields["sequences"].([]any)[:count], got["sequences"]) {
			continue
		}
		for name, list := range fields {
			if list, ok := list.([]any); ok {
				if !reflect.DeepEqual(list[:count], got[name]) {
					return false
				}
				fields[name] = list[count:]
			}
		}
		return true
	}
	return false
}

// matches says whether a message has the fields of a script. Labels of new streams get their meaning.
func (p *play[Request, Response]) matches(kind string, want, got any) bool {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if kind == "open_stream" && ok && want["stream"] == got["stream"] {
			p.ids[want["stream_id"].(float64)] = uint32(got["stream_id"].(float64))
		}
		for name, value := range want {
			if label, is := value.(float64); is && name == "stream_id" {
				value = float64(p.ids[label])
			}
			if !ok || !p.matches("", value, got[name]) {
				return false
			}
		}
		return true
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for i := range want {
			if !p.matches("", want[i], got[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(want, got) || fmt.Sprint(want) == fmt.Sprint(got)
}

// response makes a message of the gateway.
func (p *play[Request, Response]) response(what map[string]any) *Response {
	p.t.Helper()
	response := new(Response)
	if f, ok := what["frame"].(map[string]any); ok {
		id, _ := strconv.ParseUint(f["id"].(string), 10, 64)
		*any(response).(*pb.SinkServiceAttachResponse) = pb.SinkServiceAttachResponse{
			Message: &pb.SinkServiceAttachResponse_Frame{Frame: &pb.PartFrame{Id: id, Frame: rowsOf(f["frame"].(map[string]any))}},
		}
		return response
	}
	text, err := json.Marshal(p.named(what))
	if err == nil {
		err = protojson.Unmarshal(text, any(response).(proto.Message))
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return response
}

// named puts the ids of streams where a script has labels.
func (p *play[Request, Response]) named(what any) any {
	switch what := what.(type) {
	case map[string]any:
		named := map[string]any{}
		for name, value := range what {
			if label, ok := value.(float64); ok && name == "stream_id" {
				value = p.ids[label]
			}
			named[name] = p.named(value)
		}
		return named
	case []any:
		var named []any
		for _, value := range what {
			named = append(named, p.named(value))
		}
		return named
	}
	return what
}

// rowsOf packs the rows of a part.
func rowsOf(columns map[string]any) *pb.Frame {
	packed := frame.New(0, 0)
	at := func(name string, i int) *string {
		list, _ := columns[name].([]any)
		if list == nil || list[i] == nil {
			return nil
		}
		return new(list[i].(string))
	}
	for i, sequence := range columns["sequences"].([]any) {
		row := frame.Row{Key: unhex(at("keys", i)), Value: unhex(at("values", i)), Time: frame.NullTime}
		row.Sequence, _ = strconv.ParseUint(sequence.(string), 10, 64)
		if when := at("event_times", i); when != nil {
			row.Time, _ = strconv.ParseInt(*when, 10, 64)
		}
		if id := at("message_ids", i); id != nil {
			row.ID, row.HasID = *id, true
		}
		packed.Add(&row)
		if headers, ok := columns["headers"].([]any); ok {
			for _, pair := range headers[i].([]any) {
				pair := pair.([]any)
				value, _ := pair[1].(string)
				packed.AddHeader(pair[0].(string), unhex(&value))
			}
		}
	}
	return packed.Take(1<<30, 1<<30)
}

// parsed is a message of a later version.
func parsed[Message any](t *testing.T, text string) *Message {
	t.Helper()
	message := new(Message)
	if err := proto.Unmarshal(unhex(&text), any(message).(proto.Message)); err != nil {
		t.Fatal(err)
	}
	return message
}

// eventually waits until a list is as a script wants it.
func eventually(t *testing.T, want []any, got func() []string) {
	t.Helper()
	var wanted []string
	for _, value := range want {
		wanted = append(wanted, fmt.Sprint(value))
	}
	for end := time.Now().Add(deadline); !slices.Equal(got(), wanted); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is %v, and the script wants %v", got(), wanted)
		}
	}
}

func TestSessionsOfSources(t *testing.T) {
	for _, script := range scripts(t, "source.json") {
		t.Run(script.Name, func(t *testing.T) {
			g := startGateway(t)
			r := g.start(script.Source.source(), patiently, func(o *headrace.Options) {
				o.Instance, o.Token = "instance-0", script.Token
			})
			p := play[pb.IngestRequest, pb.IngestResponse]{t: t, sessions: g.sources, ids: map[float64]uint32{}, r: r}
			p.do = func(what map[string]any) {
				if more, ok := what["append"].(map[string]any); ok {
					script.Source.append(more)
				} else {
					eventually(t, what["settled"].([]any), func() []string {
						script.Source.mu.Lock()
						defer script.Source.mu.Unlock()
						return slices.Clone(script.Source.settled)
					})
				}
			}
			p.run(script.Steps)
		})
	}
}

func TestSessionsOfSinks(t *testing.T) {
	shown := func(m headrace.Message) string {
		if m.Value == nil {
			return "<nil>"
		}
		return hex.EncodeToString(m.Value)
	}
	for _, script := range scripts(t, "sink.json") {
		t.Run(script.Name, func(t *testing.T) {
			g := startGateway(t)
			sink := &headrace.Sink{Name: script.Sink.Name}
			var visible func() []string
			switch script.Sink.Mode {
			case "two_phase":
				l := newLedger()
				l.show = shown
				if script.Sink.Refuses != nil {
					l.refuse = script.Sink.Refuses[0]
				}
				if script.Sink.FailsOn != nil {
					l.fail = script.Sink.FailsOn[0]
				}
				sink.TwoPhase = l
				visible = func() []string {
					l.mu.Lock()
					defer l.mu.Unlock()
					return slices.Clone(l.visible)
				}
			case "batch_idempotent":
				b := &table{batches: map[headrace.Transaction]bool{}, show: shown}
				sink.Idempotent, sink.Last = b, b.last
				visible = func() []string {
					b.mu.Lock()
					defer b.mu.Unlock()
					return slices.Clone(b.values)
				}
			default:
				var mu sync.Mutex
				var values []string
				sink.AtLeastOnce = &writer{write: func(rows *headrace.Rows) ([]headrace.Refused, error) {
					mu.Lock()
					defer mu.Unlock()
					for m := range rows.Messages() {
						values = append(values, shown(m))
					}
					return nil, nil
				}}
				visible = func() []string {
					mu.Lock()
					defer mu.Unlock()
					return slices.Clone(values)
				}
			}
			r := g.start(sink, patiently, func(o *headrace.Options) { o.Instance, o.Token = "instance-0", script.Token })
			p := play[pb.SinkServiceAttachRequest, pb.SinkServiceAttachResponse]{
				t: t, sessions: g.sinks, ids: map[float64]uint32{}, r: r,
			}
			p.do = func(what map[string]any) { eventually(t, what["visible"].([]any), visible) }
			p.run(script.Steps)
		})
	}
}
