package headrace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

const (
	// With windows of a fixed size, gRPC needs no pings to find a good one. The gateway would find them too many.
	streamWindowBytes     = 4 << 20
	connectionWindowBytes = 8 << 20

	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second

	goodbyeTimeout = time.Second
	maxReasonBytes = 500
)

// dial opens a connection for one session, so that each attempt is made at once.
func dial(o *Options) (*grpc.ClientConn, error) {
	security := insecure.NewCredentials()
	if config := o.currentTLS(); config != nil {
		security = credentials.NewTLS(config)
	}
	var direct []grpc.DialOption
	if leadsHere(o.Gateway) {
		direct = append(direct, grpc.WithNoProxy())
	}
	connection, err := grpc.NewClient(o.Gateway, append(direct,
		grpc.WithTransportCredentials(security),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true,
		}),
		grpc.WithStaticStreamWindowSize(streamWindowBytes),
		grpc.WithStaticConnWindowSize(connectionWindowBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
	)...)
	if err != nil {
		return nil, &ConfigError{"Options.Gateway", err.Error()}
	}
	return connection, nil
}

// call is the bidirectional call of a session: one goroutine receives, one at a time may send.
type call[Request, Response any] struct {
	stream  grpc.BidiStreamingClient[Request, Response]
	gateway string
	cancel  context.CancelFunc
	close   func()
}

// method begins the call of a session.
type method[Request, Response any] = func(
	context.Context, ...grpc.CallOption,
) (grpc.BidiStreamingClient[Request, Response], error)

// welcome is the answer to Hello.
type welcome interface {
	comparable
	GetGatewayVersion() string
	GetSession() string
}

// begin opens a session: it makes the call, says hello, and returns the gateway's Welcome.
func begin[Request, Response any, Welcome welcome](
	ctx context.Context, o *Options, log *slog.Logger,
	of func(*grpc.ClientConn) method[Request, Response], hello *Request, welcomeOf func(*Response) Welcome,
) (*call[Request, Response], Welcome, error) {
	var none Welcome
	call, answer, err := open(ctx, o, of, hello)
	if err != nil {
		return nil, none, err
	}
	found := welcomeOf(answer)
	if found == none {
		call.close()
		return nil, none, &SessionError{Gateway: o.Gateway, Code: codes.FailedPrecondition, Message: "it answered Hello with something else"}
	}
	log.Info("session opened", "gateway", o.Gateway, "gateway_version", found.GetGatewayVersion(), "session", found.GetSession())
	return call, found, nil
}

// open makes a call that outlives ctx, once it stands, so that a session can end properly.
func open[Request, Response any](
	ctx context.Context, o *Options, of func(*grpc.ClientConn) method[Request, Response], hello *Request,
) (*call[Request, Response], *Response, error) {
	connection, err := dial(o)
	if err != nil {
		return nil, nil, err
	}
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &call[Request, Response]{gateway: o.Gateway, cancel: cancel, close: func() {
		cancel()
		_ = connection.Close() // It only fails if it is closed already.
	}}
	if o.Token != "" {
		callCtx = metadata.AppendToOutgoingContext(callCtx, "authorization", "Bearer "+o.Token)
	}
	late := context.AfterFunc(ctx, cancel)
	timeout := time.AfterFunc(o.WelcomeTimeout, cancel)
	c.stream, err = of(connection)(callCtx)
	var welcome *Response
	if err == nil {
		// Where sending fails, receiving says why.
		if err = c.stream.Send(hello); err == nil || errors.Is(err, io.EOF) {
			welcome, err = c.stream.Recv()
		}
	}
	timedOut := !timeout.Stop()
	if stopped := !late(); stopped || err != nil {
		c.close()
		switch {
		case stopped:
			return nil, nil, context.Cause(ctx)
		case timedOut:
			return nil, nil, &SessionError{
				Gateway: o.Gateway, Code: codes.DeadlineExceeded,
				Message: "it has not answered within " + o.WelcomeTimeout.String() + through(o.Gateway, http.ProxyFromEnvironment),
			}
		}
		return nil, nil, sessionError(o.Gateway, err)
	}
	return c, welcome, nil
}

// received is what one receive returned.
type received[Response any] struct {
	message *Response
	err     error
}

// receive passes on what the gateway sends, and at last why the call ended, until ctx is done.
func (c *call[Request, Response]) receive(ctx context.Context, to chan<- received[Response]) {
	for {
		message, err := c.stream.Recv()
		if err != nil {
			err = sessionError(c.gateway, err)
		}
		select {
		case to <- received[Response]{message, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// sessionError returns the error for how a call ended.
func sessionError(gateway string, err error) *SessionError {
	if errors.Is(err, io.EOF) {
		return &SessionError{Gateway: gateway, Code: codes.OK, Message: "it ended the session"}
	}
	found, _ := status.FromError(err)
	ended := &SessionError{Gateway: gateway, Code: found.Code(), Message: found.Message()}
	for _, detail := range found.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == "headrace" {
			ended.Reason, ended.Details = info.GetReason(), info.GetMetadata()
		}
	}
	if ended.Reason == "" { // The gateway may never have been reached.
		ended.Message += through(gateway, http.ProxyFromEnvironment)
	}
	return ended
}

// through names the proxy through which a gateway is reached, as gRPC chooses it, without user and password; empty for none.
func through(gateway string, choose func(*http.Request) (*url.URL, error)) string {
	if leadsHere(gateway) {
		return ""
	}
	_, address, found := strings.Cut(gateway, ":///")
	if !found {
		address = gateway
	}
	proxy, err := choose(&http.Request{URL: &url.URL{Scheme: "https", Host: address}})
	if err != nil || proxy == nil {
		return ""
	}
	return fmt.Sprintf("; it is reached through the proxy %s://%s (HTTPS_PROXY)", proxy.Scheme, proxy.Host)
}

// transient says whether another session may do better: by the reason if it is known, else by the status.
func (e *SessionError) transient() bool {
	switch pb.ErrorReason(pb.ErrorReason_value["ERROR_REASON_"+e.Reason]) {
	case pb.ErrorReason_ERROR_REASON_UNSPECIFIED:
	case pb.ErrorReason_ERROR_REASON_TOO_MANY_SESSIONS, pb.ErrorReason_ERROR_REASON_HELLO_TIMEOUT,
		pb.ErrorReason_ERROR_REASON_READ_TIMEOUT, pb.ErrorReason_ERROR_REASON_GATEWAY_STOPPING:
		return true
	default:
		return false
	}
	switch e.Code {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	case codes.OK, codes.Canceled, codes.Unknown, codes.Internal: // What gRPC makes of a connection that breaks.
		return true
	case codes.ResourceExhausted: // A limit, unless somebody on the way found the pings of keepalive too many.
		text := strings.ToLower(e.Message)
		return strings.Contains(text, "too_many_pings") || strings.Contains(text, "too many pings") ||
			strings.Contains(text, "enhance_your_calm")
	}
	return false
}

// sdk describes this library to the gateway.
func sdk() *pb.Sdk {
	return &pb.Sdk{Name: sdkName, Version: Version, Language: sdkLanguage}
}

// truncated cuts a text to a number of bytes or fewer, and keeps it UTF-8.
func truncated(text string, bytes int) string {
	if len(text) > bytes {
		text = text[:bytes]
	}
	return strings.ToValidUTF8(text, "")
}
