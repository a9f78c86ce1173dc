package httptool

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/sendonce"
)

// Kind is the value of kind: for a tool of this package.
const Kind = "http"

// Factory makes adapters of kind http.
func Factory() tools.Factory {
	return tools.Factory{
		Kind:   Kind,
		Config: func() any { return defaults() },
		Describe: func(cfg any) (tools.Capabilities, error) {
			s, err := compile(cfg.(*Config))
			if err != nil {
				return tools.Capabilities{}, err
			}
			return s.caps, nil
		},
		New: func(name string, cfg any, deps tools.Deps) (tools.Adapter, tools.Capabilities, error) {
			return newAdapter(cfg.(*Config))
		},
	}
}

func newAdapter(cfg *Config) (tools.Adapter, tools.Capabilities, error) {
	s, err := compile(cfg)
	if err != nil {
		return nil, tools.Capabilities{}, err
	}
	trust, tlsErr := cfg.TLS.load()
	errs := []error{checkSecrets("headers", s.call.headers), checkSecrets("params", s.call.params), tlsErr}
	if s.query != nil {
		errs = append(errs,
			checkSecrets("query.headers", s.query.headers[len(s.call.headers):]),
			checkSecrets("query.params", s.query.params[len(s.call.params):]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, tools.Capabilities{}, err
	}

	idle := cfg.KeepAlive
	if s.caps.Class == tools.ClassNone {
		idle = 0
	}
	a := &adapter{
		spec:     s,
		timeout:  cfg.Timeout,
		known:    &redactor{},
		evidence: slices.Concat(usualHeaders(), cfg.EvidenceHeaders),
		client: sendonce.New(sendonce.Options{
			Connect:   cfg.ConnectTimeout,
			Unacked:   s.caps.MaxRequest(),
			MaxAnswer: cfg.MaxAnswer,
			Idle:      idle,
			HTTP2:     cfg.HTTP2,
			TLS:       trust,
		}),
	}
	if s.query == nil {
		return a, s.caps, nil
	}
	return asker{a}, s.caps, nil
}

func (t TLS) load() (*tls.Config, error) {
	config := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s holds no certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		// Read for each connection, so that a renewed certificate takes effect
		// without a restart; once now, to find mistakes at start-up.
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			return &pair, err
		}
		if _, err := load(); err != nil {
			return nil, fmt.Errorf("tls.cert_file: %w", err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return config, nil
}
