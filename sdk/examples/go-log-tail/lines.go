package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

// chunkBytes is how much is read at once.
const chunkBytes = 64 << 10

// chunks are free for the next reader: thousands of logs that do not grow need none.
var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// errTooLong is why a line is left out.
var errTooLong = errors.New("it is longer than --max-line allows")

// lines cuts a file that grows into lines. It reads each byte once, and holds at most one line, up to the limit.
type lines struct {
	file  io.ReaderAt
	limit int
	start int64  // where the line begins that is not complete
	size  int64  // what was read of it
	text  []byte // the same, as far as it is needed
}

func newLines(file io.ReaderAt, start int64, limit int) *lines {
	return &lines{file: file, limit: limit, start: start}
}

// emit takes a line, or why it is left out; the text is valid during the call. An error ends the reading, and is returned.
type emit func(text []byte, leftOut error) error

// read passes on the lines that are complete now.
func (l *lines) read(to emit) error {
	chunk := chunks.Get().(*[chunkBytes]byte)
	defer chunks.Put(chunk)
	for {
		n, err := l.file.ReadAt(chunk[:], l.start+l.size)
		if err := l.cut(chunk[:n], to); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// rest passes on a last line without a newline, of a file that no longer grows.
func (l *lines) rest(to emit) error {
	if l.size == 0 {
		return nil
	}
	return l.pass(l.text, l.size, l.size, to)
}

// cut takes what follows, and passes on the lines that it completes.
func (l *lines) cut(more []byte, to emit) error {
	for {
		end := bytes.IndexByte(more, '\n')
		if end < 0 {
			l.take(more)
			return nil
		}
		line, size := more[:end], int64(end)
		if l.size > 0 {
			l.take(line)
			line, size = l.text, l.size
		}
		if err := l.pass(line, size, size+1, to); err != nil {
			return err
		}
		more = more[end+1:]
	}
}

// take keeps a part of a line.
func (l *lines) take(part []byte) {
	l.size += int64(len(part))
	if room := l.limit - len(l.text); room > 0 {
		l.text = append(l.text, part[:min(room, len(part))]...)
	}
}

// pass passes on a line, with the bytes that it takes in the file, after which the next one begins.
func (l *lines) pass(line []byte, size, bytes int64, to emit) error {
	l.start += bytes
	l.size, l.text = 0, l.text[:0]
	if size > int64(l.limit) {
		return to(nil, fmt.Errorf("%w: %d bytes", errTooLong, size))
	}
	return to(line, nil)
}
