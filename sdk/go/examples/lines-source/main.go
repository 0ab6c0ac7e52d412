// Command lines-source follows a file and streams its lines. It resumes after the last line that every query has in its
// checkpoint.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"time"

	"github.com/headrace/headrace/sdk/go/headrace"
)

// lines is the path of a file. The sequence of a line is the offset of the byte behind it, so that the source can seek to it.
type lines string

func (path lines) read(ctx context.Context, p *headrace.Partition) iter.Seq2[headrace.Message, error] {
	return func(yield func(headrace.Message, error) bool) {
		file, err := os.Open(string(path))
		if err != nil {
			yield(headrace.Message{}, err)
			return
		}
		defer file.Close()
		offset := p.Next(1) - 1
		for {
			if _, err := file.Seek(int64(offset), io.SeekStart); err != nil {
				yield(headrace.Message{}, err)
				return
			}
			reader := bufio.NewReader(file)
			for {
				line, err := reader.ReadBytes('\n')
				if errors.Is(err, io.EOF) {
					break // A line without its end is read again once it has one.
				}
				if err != nil {
					yield(headrace.Message{}, err)
					return
				}
				offset += uint64(len(line))
				if !yield(headrace.Message{Value: line[:len(line)-1], Sequence: offset}, nil) {
					return
				}
			}
			p.CaughtUp()
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: lines-source FILE")
		os.Exit(2)
	}
	headrace.Main(&headrace.Source{
		Name: "lines",
		Read: lines(os.Args[1]).read,
		// A source that holds a connection ends it here.
		Close: func() error { slog.Info("the source is closed"); return nil },
	}, nil)
}
