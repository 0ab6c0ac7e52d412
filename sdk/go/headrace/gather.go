package headrace

import (
	"context"
	"sync"

	"github.com/headrace/headrace/sdk/go/internal/frame"
)

// capacityInPackets is how many full packets a partition may be ahead of its session.
const capacityInPackets = 4

// packet is messages that are about to become a frame, or several if credit is short.
type packet struct {
	*frame.Columns
	tokens []any // one for each message, or none
}

// ending is how a partition ended.
type ending int

const (
	stillOpen ending = iota
	endedForever
	endedForNow
	endedGone
)

// gather is the bounded hand-over from the goroutine that reads a partition to its session.
type gather struct {
	id            uint32
	frameBytes    int
	frameMessages int
	changed       func()        // tells the session; never blocks
	room          chan struct{} // has an entry once a packet was taken

	mu       sync.Mutex
	first    bool      // no position of the stream has a cursor yet
	open     *packet   // takes messages
	full     []*packet // wait for the session
	usual    int       // the bytes of values in the last full packet
	count    int       // messages in all of them
	yielded  uint64    // messages since the beginning
	ended    ending
	caughtUp bool
	backlog  *Backlog
	cursor   []byte // has moved since the last message that was taken; only while nothing is gathered
	at       uint64 // what was yielded when the backlog was reported
	told     bool   // nothing is new about the backlog
}

func newGather(id uint32, frameBytes, frameMessages int, changed func()) *gather {
	return &gather{
		id: id, frameBytes: frameBytes, frameMessages: frameMessages, changed: changed,
		room: make(chan struct{}, 1), told: true,
	}
}

// add adds a message; it waits for room, and returns false once ctx is done.
func (g *gather) add(ctx context.Context, m *Message, row *frame.Row) bool {
	g.mu.Lock()
	for len(g.full) >= capacityInPackets {
		g.mu.Unlock()
		select {
		case <-g.room:
		case <-ctx.Done():
			return false
		}
		g.mu.Lock()
	}
	news := false
	if p := g.open; p != nil && (p.Size()+m.size() > g.frameBytes || row.Sequence-p.Last() > frame.MaxDelta) {
		g.seal()
		news = true
	}
	if g.open == nil {
		g.open = &packet{Columns: frame.New(g.id, g.usual)}
		news = true
	}
	p := g.open
	p.Add(row)
	for i := range m.Headers {
		p.AddHeader(m.Headers[i].Name, m.Headers[i].Value)
	}
	if m.Cursor != nil {
		p.SetCursor(m.Cursor)
	}
	if m.Token != nil || p.tokens != nil {
		p.addToken(m.Token)
	}
	g.count++
	g.yielded++
	g.caughtUp = false
	// A frame has one cursor, at its end. The first one ends a frame at once, so that each later position has a cursor.
	if p.Rows() >= g.frameMessages || p.Size() >= g.frameBytes || m.Cursor != nil && g.first {
		g.first = g.first && m.Cursor == nil
		g.seal()
		news = true
	}
	g.mu.Unlock()
	if news {
		g.changed()
	}
	return true
}

// moveCursor adds a cursor to the message that was added last, or keeps it if everything is taken.
func (g *gather) moveCursor(cursor []byte) {
	g.mu.Lock()
	defer g.changed()
	defer g.mu.Unlock()
	switch {
	case g.open != nil:
		g.open.SetCursor(cursor)
	case len(g.full) > 0:
		g.full[len(g.full)-1].SetCursor(cursor)
	default:
		g.cursor = append(make([]byte, 0, len(cursor)), cursor...)
	}
}

// takeCursor takes the cursor that has moved without a message; nil if none has.
func (g *gather) takeCursor() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.cursor
	g.cursor = nil
	return taken
}

// beginWithoutCursor notes that the stream begins at a position without a cursor.
func (g *gather) beginWithoutCursor() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.first = true
}

// seal has the open packet wait for the session.
func (g *gather) seal() {
	g.usual = g.open.ValueBytes()
	g.full = append(g.full, g.open)
	g.open = nil
}

// take takes the next packet, full or not; nil if there is none.
func (g *gather) take() *packet {
	g.mu.Lock()
	defer g.mu.Unlock()
	taken := g.open
	if len(g.full) > 0 {
		taken = g.full[0]
		g.full = g.full[1:]
		select {
		case g.room <- struct{}{}:
		default:
		}
	} else {
		g.open = nil
	}
	if taken != nil {
		g.cursor = nil // it is before these messages
	}
	return taken
}

// sent notes that messages were sent.
func (g *gather) sent(messages int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count -= messages
}

// clear drops everything.
func (g *gather) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.full, g.count, g.cursor = nil, nil, 0, nil
}

// end notes how the partition ended.
func (g *gather) end(how ending) {
	g.mu.Lock()
	g.ended = how
	g.mu.Unlock()
	g.changed()
}

func (g *gather) setCaughtUp() {
	g.mu.Lock()
	news := !g.caughtUp
	if news {
		g.caughtUp, g.told = true, false
	}
	g.mu.Unlock()
	if news {
		g.changed()
	}
}

func (g *gather) setBacklog(left Backlog) {
	g.mu.Lock()
	g.backlog, g.at, g.told, g.caughtUp = &left, g.yielded, false, false
	g.mu.Unlock()
	g.changed()
}

// state is what a session decides by.
type state struct {
	enough   bool // a whole frame waits
	some     bool // something waits
	caughtUp bool
	news     bool // something is new about the backlog, or the cursor
	ended    ending
}

func (g *gather) state() state {
	g.mu.Lock()
	defer g.mu.Unlock()
	return state{len(g.full) > 0, g.open != nil, g.caughtUp, !g.told || g.cursor != nil, g.ended}
}

// left is the backlog in a form that can be told.
type left struct {
	messages, bytes, latest *uint64
	caughtUp                bool
}

// tellBacklog returns what is to be told, once; nil if nothing is new.
func (g *gather) tellBacklog() *left {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.told || g.caughtUp && g.count > 0 {
		return nil
	}
	g.told = true
	if g.caughtUp {
		return &left{messages: new(uint64), bytes: new(uint64), caughtUp: true}
	}
	if g.backlog == nil {
		return nil // It had caught up, and has yielded more since.
	}
	found := &left{bytes: g.backlog.Bytes, latest: g.backlog.LatestSequence}
	if told := g.backlog.Messages; told != nil {
		messages := *told - min(*told, g.yielded-g.at) + uint64(g.count)
		found.messages = &messages
	}
	return found
}

func (p *packet) addToken(token any) {
	for len(p.tokens) < p.Rows()-1 {
		p.tokens = append(p.tokens, nil)
	}
	p.tokens = append(p.tokens, token)
}

// takeTokens takes the tokens of the first messages.
func (p *packet) takeTokens(messages int) []any {
	if p.tokens == nil {
		return nil
	}
	taken := p.tokens[:messages]
	p.tokens = p.tokens[messages:]
	return taken
}
