package ledgertest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/httptool"
)

// Remote is a service with effects. It counts what arrives, what it did and
// what it was asked, by the operation id on the wire.
type Remote struct {
	URL string

	server *httptest.Server

	mu       sync.Mutex // guards all below
	arrivals map[protocol.OperationID]int
	effects  map[protocol.OperationID]int
	queries  map[protocol.OperationID]int
	// asked is when queries came, for all operations together.
	asked []time.Time
	// before and after run on each arrival, before and after its effect;
	// before may answer and return false, and there is no effect then.
	before func(w http.ResponseWriter, r *http.Request, id protocol.OperationID) bool
	after  func(w http.ResponseWriter, r *http.Request, id protocol.OperationID) bool
	query  func(w http.ResponseWriter, r *http.Request, id protocol.OperationID) bool
	flying int
	peak   int
}

// Handler may answer a request and return false, or return true to have it
// answered as usual.
type Handler = func(w http.ResponseWriter, r *http.Request, id protocol.OperationID) bool

// NewRemote starts a remote that ends with the test.
func NewRemote(t testing.TB) *Remote {
	t.Helper()
	r := &Remote{
		arrivals: make(map[protocol.OperationID]int),
		effects:  make(map[protocol.OperationID]int),
		queries:  make(map[protocol.OperationID]int),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /effects", r.create)
	mux.HandleFunc("GET /effects", r.find)
	r.server = httptest.NewServer(mux)
	r.URL = r.server.URL
	t.Cleanup(r.server.Close)
	return r
}

// Before, After and Query set what happens on the way; nil is as usual.
func (r *Remote) Before(h Handler) { r.mu.Lock(); defer r.mu.Unlock(); r.before = h }

// After runs when the effect is there and the answer is not.
func (r *Remote) After(h Handler) { r.mu.Lock(); defer r.mu.Unlock(); r.after = h }

// Query runs when the remote is asked for an effect.
func (r *Remote) Query(h Handler) { r.mu.Lock(); defer r.mu.Unlock(); r.query = h }

func (r *Remote) create(w http.ResponseWriter, req *http.Request) {
	id := protocol.OperationID(req.Header.Get("X-Operation-Id"))
	_, _ = io.Copy(io.Discard, req.Body)
	r.mu.Lock()
	r.arrivals[id]++
	r.flying++
	r.peak = max(r.peak, r.flying)
	before := r.before
	r.mu.Unlock()
	defer func() { r.mu.Lock(); r.flying--; r.mu.Unlock() }()

	if before != nil && !before(w, req, id) {
		return
	}
	r.mu.Lock()
	// A key that was seen is answered from memory.
	if key := req.Header.Get("Idempotency-Key"); key == "" || r.effects[id] == 0 {
		r.effects[id]++
	}
	after := r.after
	r.mu.Unlock()
	if after != nil && !after(w, req, id) {
		return
	}
	answer(w, id)
}

func (r *Remote) find(w http.ResponseWriter, req *http.Request) {
	id := protocol.OperationID(req.Header.Get("X-Operation-Id"))
	r.mu.Lock()
	r.queries[id]++
	r.asked = append(r.asked, time.Now())
	query, known := r.query, r.effects[id] > 0
	r.mu.Unlock()
	if query != nil && !query(w, req, id) {
		return
	}
	if !known {
		http.Error(w, `{"error":"no such effect"}`, http.StatusNotFound)
		return
	}
	answer(w, id)
}

func answer(w http.ResponseWriter, id protocol.OperationID) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"id": "r-" + string(id), "state": "done"})
}

// Arrivals is how many requests for an effect came; Effects how many had one;
// Queries how often it was asked for.
func (r *Remote) Arrivals(id protocol.OperationID) int { return r.count(r.arrivals, id) }

// Effects is how many requests had an effect.
func (r *Remote) Effects(id protocol.OperationID) int { return r.count(r.effects, id) }

// Queries is how often the effect was asked for.
func (r *Remote) Queries(id protocol.OperationID) int { return r.count(r.queries, id) }

// Peak is how many requests were there at once.
func (r *Remote) Peak() int { r.mu.Lock(); defer r.mu.Unlock(); return r.peak }

// Asked is when queries came.
func (r *Remote) Asked() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Time(nil), r.asked...)
}

// AllEffects is a copy of the remote's own ledger.
func (r *Remote) AllEffects() map[protocol.OperationID]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.effects)
}

func (r *Remote) count(m map[protocol.OperationID]int, id protocol.OperationID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return m[id]
}

// Tool makes an HTTP tool of the remote with what c promises; change may alter
// its settings.
func (r *Remote) Tool(t testing.TB, name string, c tools.Capabilities, slots int, change func(*httptool.Config)) tools.Tool {
	t.Helper()
	return Tool(t, r.URL, name, c, slots, change)
}

// Tool makes an HTTP tool of the remote at url.
func Tool(t testing.TB, url, name string, c tools.Capabilities, slots int, change func(*httptool.Config)) tools.Tool {
	t.Helper()
	cfg, ok := httptool.Factory().Config().(*httptool.Config)
	if !ok {
		t.Fatal("the HTTP tool has another configuration type")
	}
	cfg.URL = strings.TrimRight(url, "/") + "/effects"
	cfg.RemoteID = "/id"
	cfg.Timeout = min(2*time.Second, c.MaxRequest())
	cfg.ConnectTimeout = cfg.Timeout / 2
	cfg.Capabilities = httptool.Promise{
		Class: string(c.Class), ReadOnly: c.ReadOnly, Retention: c.Retention(), MaxRequest: c.MaxRequest(),
		Settle: c.Settle(), AbsenceIsProof: c.AbsenceIsProof, OnCancel: c.OnCancel,
	}
	if c.Class == tools.ClassIdempotencyKey {
		cfg.Key.Header = "Idempotency-Key"
	}
	if c.Query {
		cfg.Query = &httptool.Query{Method: http.MethodGet, URL: cfg.URL}
	}
	if change != nil {
		change(cfg)
	}
	adapter, caps, err := httptool.Factory().New(name, cfg, tools.Deps{})
	if err != nil {
		t.Fatalf("make tool %s: %v", name, err)
	}
	if closer, ok := adapter.(io.Closer); ok {
		t.Cleanup(func() { _ = closer.Close() })
	}
	return tools.Tool{Name: name, Kind: httptool.Kind, Adapter: adapter, Capabilities: caps, Slots: slots}
}

// Registry makes a registry or fails the test.
func Registry(t testing.TB, list ...tools.Tool) *tools.Registry {
	t.Helper()
	reg, err := tools.NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

// Seed makes an effect exist of which nobody was told.
func (r *Remote) Seed(id protocol.OperationID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrivals[id]++
	r.effects[id]++
}
