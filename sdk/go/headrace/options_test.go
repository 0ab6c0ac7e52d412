package headrace_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"github.com/headrace/headrace/sdk/go/headrace"
	pb "github.com/headrace/headrace/sdk/go/internal/protocol/v1"
)

// certificates makes a certificate that signs itself, for 127.0.0.1, and returns the files of it and of its key.
func certificates(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("certificate.pem", "CERTIFICATE", der), write("key.pem", "EC PRIVATE KEY", encoded)
}

func TestMutualTLS(t *testing.T) {
	certificate, key := certificates(t)
	own, err := headrace.LoadTLS(certificate, certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: own.Certificates, ClientCAs: own.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	g.start(&headrace.Source{Name: "orders", Read: numbers(1)}, func(o *headrace.Options) { o.TLS = own })
	s, _ := g.connected()
	opened(s, nil)
	sequences(s, 1)
}

// inEnvironment runs a connector with options of its environment only, and returns its first Hello and the call's metadata.
func inEnvironment(t *testing.T, g *fakeGateway, variables map[string]string, o *headrace.Options) (*sourceSession, *pb.Hello) {
	t.Helper()
	for name, value := range variables {
		t.Setenv(name, value)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	o.DrainTimeout = 50 * time.Millisecond
	go func() { done <- headrace.Run(ctx, &headrace.Source{Name: "orders", Read: numbers(1)}, o) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("it has ended with %v", err)
		}
	})
	return g.connected()
}

func TestTheEnvironmentSaysWhereAndHowToConnect(t *testing.T) {
	certificate, key := certificates(t)
	own, err := headrace.LoadTLS(certificate, certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: own.Certificates, ClientCAs: own.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert,
	})))
	s, hello := inEnvironment(t, g, map[string]string{
		"HEADRACE_GATEWAY": g.address, "HEADRACE_TOKEN": "secret", "HEADRACE_INSTANCE": "orders-7", "HEADRACE_TLS": "1",
		"HEADRACE_TLS_CA": certificate, "HEADRACE_TLS_CERT": certificate, "HEADRACE_TLS_KEY": key,
	}, &headrace.Options{})
	if hello.GetInstance() != "orders-7" || !slices.Equal(s.metadata.Get("authorization"), []string{"Bearer secret"}) {
		t.Errorf("Hello is %v, authorization %q", hello, s.metadata.Get("authorization"))
	}
}

func TestOptionsWinOverTheEnvironment(t *testing.T) {
	certificate, key := certificates(t)
	own, err := headrace.LoadTLS(certificate, certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: own.Certificates})))
	s, hello := inEnvironment(t, g, map[string]string{
		"HEADRACE_GATEWAY": "192.0.2.1:1", "HEADRACE_TOKEN": "another", "HEADRACE_INSTANCE": "orders-7",
		"HEADRACE_TLS_CA": "missing.pem",
	}, &headrace.Options{Gateway: g.address, Token: "secret", Instance: "orders-8", TLS: own})
	if hello.GetInstance() != "orders-8" || !slices.Equal(s.metadata.Get("authorization"), []string{"Bearer secret"}) {
		t.Errorf("Hello is %v, authorization %q", hello, s.metadata.Get("authorization"))
	}
}

// tokenFile returns a file that contains a token.
func tokenFile(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestATokenComesFromTheMostExplicitPlace(t *testing.T) {
	variables := func(t *testing.T) map[string]string {
		return map[string]string{"HEADRACE_TOKEN": "variable", "HEADRACE_TOKEN_FILE": tokenFile(t, "file of the variable\n")}
	}
	for want, o := range map[string]*headrace.Options{
		"file of the variable": {},
		"option":               {Token: "option"},
		"file of the option":   {TokenFile: tokenFile(t, "file of the option\n")},
	} {
		t.Run(want, func(t *testing.T) {
			g := startGateway(t)
			o.Gateway = g.address
			s, _ := inEnvironment(t, g, variables(t), o)
			if got := s.metadata.Get("authorization"); !slices.Equal(got, []string{"Bearer " + want}) {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestAReplacedTokenIsUsedByTheNextSession(t *testing.T) {
	g := startGateway(t)
	path := tokenFile(t, "first\n")
	replace := func(token string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := g.start(&headrace.Source{Name: "orders", Read: numbers(1)}, patiently, func(o *headrace.Options) { o.TokenFile = path })
	for _, step := range []struct {
		content, want string
		ends          codes.Code
	}{
		{"second\n", "first", codes.Unavailable},
		{"", "second", codes.Unavailable},
		{"third\n", "second", codes.Unauthenticated},
		{"third\n", "third", codes.Unauthenticated},
	} {
		s, _ := g.connected()
		if got := s.metadata.Get("authorization"); !slices.Equal(got, []string{"Bearer " + step.want}) {
			t.Errorf("%q, not %s", got, step.want)
		}
		replace(step.content)
		s.close(step.ends, "")
	}
	if err := r.wait(); !errors.Is(err, headrace.ErrNotPermitted) {
		t.Errorf("it has ended with %v", err)
	}
}

func TestVariablesThatAreNotValidAreNamed(t *testing.T) {
	certificate, key := certificates(t)
	for field, variables := range map[string]map[string]string{
		"HEADRACE_TLS":                            {"HEADRACE_TLS": "maybe"},
		"HEADRACE_TLS_CA":                         {"HEADRACE_TLS_CA": key},
		"HEADRACE_TLS_CERT and HEADRACE_TLS_KEY":  {"HEADRACE_TLS_KEY": key},
		"HEADRACE_TLS_CERT and HEADRACE_TLS_KEY ": {"HEADRACE_TLS_CERT": key, "HEADRACE_TLS_KEY": certificate},
		"HEADRACE_TOKEN_FILE":                     {"HEADRACE_TOKEN_FILE": "missing.token"},
		"Options.Instance":                        {"HEADRACE_INSTANCE": strings.Repeat("x", 256)},
	} {
		t.Run(field, func(t *testing.T) {
			for name, value := range variables {
				t.Setenv(name, value)
			}
			var wrong *headrace.ConfigError
			err := headrace.Run(t.Context(), &headrace.Source{Name: "orders", Read: numbers(1)}, nil)
			if !errors.As(err, &wrong) || wrong.Field != strings.TrimSpace(field) {
				t.Errorf("it has ended with %v", err)
			}
		})
	}
}

func TestLogsAreStructured(t *testing.T) {
	g := startGateway(t)
	logs := &lines{}
	o := func(o *headrace.Options) { o.Logger = slog.New(slog.NewJSONHandler(logs, nil)) }
	r := g.start(&headrace.Source{Name: "orders", Read: numbers(1)}, patiently, o)
	s, _ := g.connected()
	s.close(codes.Unavailable, "")
	s, _ = g.connected()
	open := opened(s, &pb.Position{Sequence: 0})
	sequences(s, 1)
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 1})
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []map[string]any{
		{"level": "INFO", "msg": "session opened", "instance": "orders", "gateway": g.address, "session": "s1"},
		{"level": "WARN", "msg": "session lost; trying again", "instance": "orders"},
		{"level": "INFO", "msg": "stream opened", "stream": "orders/0", "resume": 0.0},
	} {
		if !logs.have(t, want) {
			t.Errorf("no line has %v", want)
		}
	}
}

// lines keeps logs.
type lines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

// have says whether some line has all of these attributes.
func (l *lines) have(t *testing.T, want map[string]any) bool {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.text) {
		var found map[string]any
		if err := json.Unmarshal(line, &found); err != nil {
			t.Fatal(err)
		}
		all := true
		for name, value := range want {
			all = all && found[name] == value
		}
		if all {
			return true
		}
	}
	return false
}

func TestMetricsCountWhatASinkReceives(t *testing.T) {
	g := startGateway(t)
	c := &counts{found: map[headrace.Counter]uint64{}, names: map[string]bool{}}
	l := newLedger()
	l.refuse = "bad"
	g.start(&headrace.Sink{Name: "ledger", TwoPhase: l}, func(o *headrace.Options) { o.Metrics = c })
	s, _ := g.attached(0)
	startPart(s, 1, part(7, 0))
	partFrame(s, 1, 0, "a", "bad")
	partFrame(s, 1, 2, "b")
	endPart(s, 1, 3)
	said(s, (*pb.SinkServiceAttachRequest).GetStaged)
	c.mu.Lock()
	defer c.mu.Unlock()
	for counter, want := range map[headrace.Counter]uint64{
		headrace.CounterFrames: 2, headrace.CounterMessages: 3, headrace.CounterRefused: 1, headrace.CounterAcknowledgements: 1,
	} {
		if c.found[counter] != want {
			t.Errorf("%s: %d, want %d", counter, c.found[counter], want)
		}
	}
	if !c.names["ledger"] || len(c.names) != 1 {
		t.Errorf("counted for %v", c.names)
	}
}

func TestCertificatesThatCannotBeReadAreNamed(t *testing.T) {
	certificate, key := certificates(t)
	for _, files := range [][3]string{{"missing.pem", "", ""}, {key, "", ""}, {"", certificate, ""}, {"", key, certificate}} {
		var wrong *headrace.ConfigError
		if _, err := headrace.LoadTLS(files[0], files[1], files[2]); !errors.As(err, &wrong) {
			t.Errorf("%v: %v", files, err)
		}
	}
}

// counts is a Metrics that keeps what it counts.
type counts struct {
	mu    sync.Mutex
	found map[headrace.Counter]uint64
	names map[string]bool
}

func (c *counts) Add(counter headrace.Counter, name string, n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found[counter] += n
	c.names[name] = true
}

func TestMetricsCountFramesAndMessages(t *testing.T) {
	g := startGateway(t)
	g.welcome.Pace.LingerMs = 3_600_000
	c := &counts{found: map[headrace.Counter]uint64{}, names: map[string]bool{}}
	r := g.start(&headrace.Source{Name: "orders", Read: numbers(5)}, patiently, func(o *headrace.Options) { o.Metrics = c })
	s, _ := g.connected()
	s.close(codes.Unavailable, "")
	s, _ = g.connected()
	open := opened(s, nil)
	sequences(s, 5)
	ack(s, open.GetStreamId(), &pb.Position{Sequence: 5})
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for counter, want := range map[headrace.Counter]uint64{
		headrace.CounterFrames: 1, headrace.CounterMessages: 5, headrace.CounterAcknowledgements: 1, headrace.CounterReconnects: 1,
	} {
		if c.found[counter] != want {
			t.Errorf("%s: %d, want %d", counter, c.found[counter], want)
		}
	}
	if !c.names["orders/0"] || !c.names["orders"] || len(c.names) != 2 {
		t.Errorf("counted for %v", c.names)
	}
}

func TestOptionsThatAreNotValidAreRefused(t *testing.T) {
	for _, o := range []*headrace.Options{
		{Linger: -1}, {FrameBytes: -1}, {Instance: string(make([]byte, 256))}, {Gateway: "bad://\x00"},
		{Token: "secret", TokenFile: tokenFile(t, "secret")}, {TokenFile: "missing.token"},
	} {
		var wrong *headrace.ConfigError
		if err := headrace.Run(t.Context(), &headrace.Source{Name: "orders", Read: numbers(1)}, o); !errors.As(err, &wrong) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
