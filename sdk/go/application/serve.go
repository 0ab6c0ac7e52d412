package application

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	protocol "github.com/headrace/headrace/sdk/go/internal/protocol/programv1"
)

const (
	protocolVersion = 1
	bufferBytes     = 1 << 20
)

// Main serves the steps of an application to the worker that started the program, and exits: with code 0 when the worker has
// closed standard input, otherwise with code 1 and the error on standard error.
//
// Standard output belongs to the protocol. Output of the program to os.Stdout goes to standard error, and so to the log of
// the worker.
func Main(steps ...Step) {
	out := os.Stdout
	os.Stdout = os.Stderr
	if err := Serve(os.Stdin, out, steps...); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// Serve reads the requests of a worker, and writes the responses, until there are no more. The worker chooses one of the steps
// by its name.
func Serve(requests io.Reader, responses io.Writer, steps ...Step) error {
	in, out := bufio.NewReaderSize(requests, bufferBytes), bufio.NewWriterSize(responses, bufferBytes)
	request := &protocol.ProgramRequest{}
	read := protodelim.UnmarshalOptions{MaxSize: -1} // The worker keeps to its own limit.
	if err := read.UnmarshalFrom(in, request); err != nil {
		return ended(err)
	}
	hello := request.GetHello()
	if hello == nil {
		return errors.New("the first request is not ProgramHello; run this program as a step of an application, with headrace run")
	}
	step, err := chosen(hello, steps)
	if err != nil {
		return err
	}
	ready := &protocol.ProgramReady{ProtocolVersion: protocolVersion, StateFields: step.State}
	if err := write(out, &protocol.ProgramResponse{Response: &protocol.ProgramResponse_Ready{Ready: ready}}); err != nil {
		return err
	}
	if !slices.Equal(slices.Sorted(slices.Values(step.State)), slices.Sorted(slices.Values(hello.GetStateFields()))) {
		return fmt.Errorf("the step %s names the fields %q in the pipeline, and %q in this program", step.Name, hello.GetStateFields(), step.State)
	}
	step.State = hello.GetStateFields() // In the order of the columns.
	limit := hello.GetMaxMessageBytes()
	for {
		if err := read.UnmarshalFrom(in, request); err != nil {
			return ended(err)
		}
		if request.GetBlock() == nil {
			return errors.New("a request is not ProgramBlock: update this program, or Headrace, whichever is older")
		}
		made, err := process(step, request.GetBlock())
		if err != nil {
			return err
		}
		response := &protocol.ProgramResponse{Response: &protocol.ProgramResponse_Results{Results: made}}
		if size := uint64(proto.Size(response)); size > limit {
			return fmt.Errorf("the results and states of block %d have %d bytes, and the limit is %d", made.GetBlock(), size, limit)
		}
		if err := write(out, response); err != nil {
			return err
		}
	}
}

// chosen returns a copy of the step that the worker names.
func chosen(hello *protocol.ProgramHello, steps []Step) (*Step, error) {
	if hello.GetProtocolVersion() != protocolVersion {
		return nil, fmt.Errorf("the worker speaks version %d of the protocol for programs, and this program version %d: update the older one",
			hello.GetProtocolVersion(), protocolVersion)
	}
	if index := slices.IndexFunc(steps, func(step Step) bool { return step.Name == hello.GetStep() }); index >= 0 {
		step := steps[index]
		return &step, nil
	}
	names := make([]string, 0, len(steps))
	for _, step := range steps {
		names = append(names, step.Name)
	}
	return nil, fmt.Errorf("pipeline %s has a step %s, and this program has the steps %q", hello.GetPipeline(), hello.GetStep(), names)
}

// write writes one response.
func write(out *bufio.Writer, response *protocol.ProgramResponse) error {
	if _, err := protodelim.MarshalTo(out, response); err != nil {
		return fmt.Errorf("writing to standard output: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing to standard output: %w", err)
	}
	return nil
}

// ended returns nil if the requests have ended where they may.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("reading standard input: %w", err)
}
