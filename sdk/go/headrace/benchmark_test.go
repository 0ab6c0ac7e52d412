package headrace_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/sdk/go/headrace"
	"github.com/headrace/headrace/sdk/go/internal/frame"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// committing is a gateway that acknowledges every frame at once.
type committing struct {
	pb.UnimplementedSourceServiceServer
}

func (committing) Ingest(call grpc.BidiStreamingServer[pb.IngestRequest, pb.IngestResponse]) error {
	for {
		request, err := call.Recv()
		if err != nil {
			return err
		}
		var answer *pb.IngestResponse
		switch m := request.GetMessage().(type) {
		case *pb.IngestRequest_Hello:
			answer = &pb.IngestResponse{Message: &pb.IngestResponse_Welcome{Welcome: &pb.Welcome{
				MaxFrameBytes: 4 << 20, MaxFrameMessages: 65536, MaxStreams: 10,
				Credit: &pb.Credit{Bytes: 64 << 20, Messages: 1_000_000}, Pace: &pb.Pace{LingerMs: 5},
			}}}
		case *pb.IngestRequest_OpenStream:
			answer = &pb.IngestResponse{Message: &pb.IngestResponse_StreamOpened{
				StreamOpened: &pb.StreamOpened{StreamId: m.OpenStream.GetStreamId()},
			}}
		case *pb.IngestRequest_Frame:
			answer = &pb.IngestResponse{Message: &pb.IngestResponse_Ack{Ack: &pb.Ack{
				Streams: []*pb.Ack_Stream{{
					StreamId: m.Frame.GetStreamId(), Position: &pb.Position{Sequence: frame.LastSequence(m.Frame)},
				}},
				Credit: &pb.Credit{Bytes: uint64(proto.Size(m.Frame)), Messages: uint64(m.Frame.GetCount())},
			}}}
		case *pb.IngestRequest_Goodbye:
			return nil
		default:
			continue
		}
		if err := call.Send(answer); err != nil {
			return err
		}
	}
}

// BenchmarkSource is how long a message takes from Read, where it is yielded by itself, to its acknowledgement, over gRPC.
func BenchmarkSource(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(8 << 20))
	pb.RegisterSourceServiceServer(server, committing{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // It ends with the benchmark.
	}()
	defer func() {
		server.Stop()
		<-done
	}()
	key, value := []byte("key-42"), make([]byte, 55)
	b.SetBytes(int64(len(key) + len(value)))
	b.ReportAllocs()
	b.ResetTimer()
	source := &headrace.Source{Name: "numbers", Read: func(_ context.Context, p *headrace.Partition) messages {
		return func(yield func(headrace.Message, error) bool) {
			for n := p.Next(1); n <= uint64(b.N); n++ {
				if !yield(headrace.Message{Sequence: n, Key: key, Value: value}, nil) {
					return
				}
			}
		}
	}}
	if err := headrace.Run(b.Context(), source, &headrace.Options{Gateway: listener.Addr().String()}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
