package callbacks_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/internal/callbacks"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestWithACertificateItSpeaksTLSOnly(t *testing.T) {
	t.Parallel()
	// The library's own certificate for tests, which names 127.0.0.1.
	borrowed := httptest.NewTLSServer(nil)
	defer borrowed.Close()
	pair := borrowed.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := filepath.Join(t.TempDir(), "tls.pem")
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	if err := os.WriteFile(cert, both, 0o600); err != nil {
		t.Fatal(err)
	}
	b := setup(t, func(o *callbacks.Options) { o.CertFile, o.KeyFile = cert, cert })
	id := b.doubt(tool)
	plain := b.request(about(t, id))
	secure := b.request(about(t, id))
	secure.URL.Scheme = "https"

	trusted := x509.NewCertPool()
	trusted.AddCert(borrowed.Certificate())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(secure)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("over TLS: %s", resp.Status)
	}
	if resp, err := client.Do(plain); err == nil {
		defer resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("in the clear: %s", resp.Status)
		}
	} else if strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	if got := b.kept(id); got != "evidence succeeded true" {
		t.Errorf("kept %s", got)
	}
}
