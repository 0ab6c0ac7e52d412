package headrace

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strconv"
)

// The variables that say how to secure the connection, as headrace connector run sets them.
const (
	tlsVariable   = "HEADRACE_TLS"
	caVariable    = "HEADRACE_TLS_CA"
	certVariable  = "HEADRACE_TLS_CERT"
	keyVariable   = "HEADRACE_TLS_KEY"
	pairVariables = certVariable + " and " + keyVariable
)

// LoadTLS reads certificates, in PEM. With an empty ca, it trusts the system's authorities. For mutual TLS, certificate and
// key are the connector's own chain and private key; else both are empty.
func LoadTLS(ca, certificate, key string) (*tls.Config, error) {
	return loadTLS(ca, certificate, key, "ca", "certificate and key")
}

// loadTLS does it, and calls the files by names in errors.
func loadTLS(ca, certificate, key, nameOfCA, nameOfPair string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, &ConfigError{nameOfCA, err.Error()}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &ConfigError{nameOfCA, fmt.Sprintf("%s has no certificate in PEM", ca)}
		}
	}
	if (certificate == "") != (key == "") {
		return nil, &ConfigError{nameOfPair, "one of them is missing: mutual TLS needs both"}
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, &ConfigError{nameOfPair, err.Error()}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// tlsOfEnvironment returns what the environment says; nil for no encryption.
func tlsOfEnvironment() (*tls.Config, error) {
	ca, certificate, key := os.Getenv(caVariable), os.Getenv(certVariable), os.Getenv(keyVariable)
	wanted := ca != "" || certificate != "" || key != ""
	if text := os.Getenv(tlsVariable); text != "" {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return nil, &ConfigError{tlsVariable, fmt.Sprintf("%q: 1 turns TLS on, 0 leaves it to the files", text)}
		}
		wanted = wanted || on
	}
	if !wanted {
		return nil, nil
	}
	return loadTLS(ca, certificate, key, caVariable, pairVariables)
}
