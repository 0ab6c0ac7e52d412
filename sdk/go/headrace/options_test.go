package headrace_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
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
	} {
		var wrong *headrace.ConfigError
		if err := headrace.Run(t.Context(), &headrace.Source{Name: "orders", Read: numbers(1)}, o); !errors.As(err, &wrong) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
