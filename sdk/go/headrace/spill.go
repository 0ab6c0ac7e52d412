package headrace

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"google.golang.org/protobuf/proto"

	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// spill is a temporary file of frames that do not fit into memory. It is created with the first one. One goroutine may write
// while another one reads.
type spill struct {
	mu   sync.Mutex
	file *os.File
	end  int64
}

// place is where a frame is in the file.
type place struct {
	offset int64
	size   int
}

// write appends a frame.
func (s *spill) write(f *pb.Frame) (place, error) {
	data, err := proto.Marshal(f)
	if err != nil {
		return place{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		if s.file, err = os.CreateTemp("", "headrace-*"); err != nil {
			return place{}, fmt.Errorf("rows that do not fit into memory: %w", err)
		}
	}
	at := place{s.end, len(data)}
	if _, err := s.file.WriteAt(data, s.end); err != nil {
		return place{}, fmt.Errorf("rows that do not fit into memory: %w", err)
	}
	s.end += int64(len(data))
	return at, nil
}

// read reads a frame back.
func (s *spill) read(at place) (*pb.Frame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil, errors.New("the temporary file of the part is closed")
	}
	data := make([]byte, at.size)
	if _, err := s.file.ReadAt(data, at.offset); err != nil {
		return nil, err
	}
	f := &pb.Frame{}
	return f, proto.Unmarshal(data, f)
}

// close deletes the file.
func (s *spill) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		_ = s.file.Close() // Its content is no longer needed.
		_ = os.Remove(s.file.Name())
		s.file = nil
	}
}
