package callbacks_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/callbacks"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/internal/pgtest"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/callback"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	tool  = "warehouse.ship"
	other = "warehouse.bill"
)

func secret() []byte { return []byte("the secret of a test's warehouse") }
func unkeyed() tools.Capabilities {
	return tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 300}
}

// bundle is a server over a database, and what came of it.
type bundle struct {
	*ledgertest.Scene

	t          *testing.T
	url        string
	secretFile string
	log        *journal

	mu       sync.Mutex
	outcomes []string // as told to metrics
}

type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}
func (j *journal) String() string { j.mu.Lock(); defer j.mu.Unlock(); return j.text.String() }

func setup(t *testing.T, change func(*callbacks.Options)) *bundle {
	t.Helper()
	b := &bundle{t: t, Scene: ledgertest.New(t), log: &journal{}, secretFile: filepath.Join(t.TempDir(), "secret")}
	if err := os.WriteFile(b.secretFile, append(secret(), '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	of := config.Callback{Secrets: []config.SecretSource{{File: b.secretFile}}}
	theirs := func() ([][]byte, error) { return [][]byte{[]byte("the secret of another warehouse")}, nil }
	o := callbacks.Options{
		Address: "127.0.0.1:0",
		Tools:   map[string]callbacks.Tool{tool: {of.Open, time.Minute}, other: {theirs, time.Minute}},
		Store:   b.Open("callback", nil),
		Received: func(tool, outcome string, _ time.Duration) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.outcomes = append(b.outcomes, tool+" "+outcome)
		},
		Logger: slog.New(slog.NewJSONHandler(b.log, nil)),
	}
	if change != nil {
		change(&o)
	}
	s, err := callbacks.Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	b.url = "http://" + s.Address()
	ledgertest.Run(t, s)
	return b
}

// doubt is an operation whose dispatcher was lost.
func (b *bundle) doubt(name string) protocol.OperationID {
	b.t.Helper()
	id := b.Plan(name, unkeyed(), `{"parcels":2}`)[0]
	claims, err := b.Dispatcher.ClaimOperations(b.t.Context(), store.ClaimRequest{
		Owner: protocol.NewOwner(), Slots: map[string]int{name: 1}, TTL: 20 * time.Millisecond,
	})
	if err != nil || len(claims) != 1 {
		b.t.Fatalf("claim: %v %d", err, len(claims))
	}
	b.Until("a doubt", func() bool {
		if _, err := b.Reconciler.ExpireClaims(b.t.Context(), 10); err != nil {
			b.t.Fatal(err)
		}
		return b.Status(id) == protocol.OperationUnknown
	})
	return id
}

func about(t *testing.T, id protocol.OperationID) callback.Message {
	t.Helper()
	parts, err := protocol.ParseOperationID(id)
	if err != nil {
		t.Fatal(err)
	}
	return callback.Message{
		OperationID: id, RunID: parts.RunID, Outcome: tools.Succeeded, RemoteID: "order-77",
		Result: json.RawMessage(`{"parcels":2}`),
	}
}

// request is a callback as its tool sends it.
func (b *bundle) request(m callback.Message) *http.Request {
	b.t.Helper()
	req, err := callback.NewRequest(b.t.Context(), b.url, tool, secret(), time.Now(), m)
	if err != nil {
		b.t.Fatal(err)
	}
	return req
}

// reply is what a sender is told.
type reply struct {
	status int
	header http.Header
	body   map[string]any
}

func (r reply) code() string { code, _ := r.body["code"].(string); return code }

func (b *bundle) send(req *http.Request) reply {
	b.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &r.body); err != nil {
		b.t.Fatalf("answer %s: %v", raw, err)
	}
	return r
}

// kept lists what the journal has about an operation by callbacks.
func (b *bundle) kept(id protocol.OperationID) string {
	b.t.Helper()
	return b.Text(`SELECT coalesce(string_agg(kind || ' ' || to_status || ' ' || trusted, ', ' ORDER BY entry), 'nothing')
	  FROM leasehold.operation_journal WHERE operation_id = $1 AND message IS NOT NULL`, string(id))
}

func (b *bundle) told() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.outcomes, ", ")
}
