package fieldcases_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// fakeTool is somebody else's service: a real HTTP server with a ledger of its
// own. POST /effects causes an effect, GET /effects looks one up; both know the
// operation by the header X-Operation-Id.
//
// By default it is plain: every arrival commits. The fields that alter it are
// set under change, also before anything is started.
type fakeTool struct {
	url string

	server  *httptest.Server
	closing chan struct{}

	mu sync.Mutex // guards all below
	// dedup: an operation id that was seen commits no second effect and gets
	// the first answer.
	dedup bool
	// lag is how long after its commit a look-up does not see an effect.
	lag time.Duration
	// arrived runs before the effect, committed after it and before the answer;
	// both may block, see arrival. nil: nothing special.
	arrived   func(*arrival)
	committed func(*arrival)
	// reply makes the answer; nil: {"id":"r-OPERATION","state":"done"}.
	reply func(*arrival) json.RawMessage
	// lookup may answer a query itself and return true.
	lookup func(http.ResponseWriter, protocol.OperationID) bool

	ops    map[protocol.OperationID]*effectLedger
	log    []arrival
	flying int
	most   int
}

type effectLedger struct {
	arrivals, effects, queries int
	since                      time.Time // of the first commit
	answer                     json.RawMessage
}

// arrival is one request for an effect.
type arrival struct {
	op     protocol.OperationID
	step   string // of the run, from the operation's id
	run    string
	client string // the process that sent it
	body   json.RawMessage
	at     time.Time
	n      int // how many of this operation have arrived, with this one
	// gone is closed when the client has given up, or was answered.
	gone <-chan struct{}

	tool *fakeTool
}

func newFakeTool(t *testing.T) *fakeTool {
	t.Helper()
	f := &fakeTool{ops: map[protocol.OperationID]*effectLedger{}, closing: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /effects", f.create)
	mux.HandleFunc("GET /effects", f.find)
	f.server = httptest.NewServer(mux)
	f.url = f.server.URL
	t.Cleanup(func() {
		close(f.closing)
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// change alters the service while it runs.
func (f *fakeTool) change(do func(f *fakeTool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(f)
}

// drop ends the request without an answer: the client sees its connection go.
func (a *arrival) drop() { panic(http.ErrAbortHandler) }

// wait blocks until c is closed, whether or not the client is still there: a
// real service does not notice either.
func (a *arrival) wait(c <-chan struct{}) {
	select {
	case <-c:
	case <-a.tool.closing:
		a.drop()
	}
}

// delay blocks for d.
func (a *arrival) delay(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.tool.closing:
		a.drop()
	}
}

func (f *fakeTool) ledger(id protocol.OperationID) *effectLedger {
	l := f.ops[id]
	if l == nil {
		l = &effectLedger{}
		f.ops[id] = l
	}
	return l
}

func (f *fakeTool) create(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // nothing has arrived that could be acted on
	}
	op := protocol.OperationID(r.Header.Get("X-Operation-Id"))
	parts, err := protocol.ParseOperationID(op)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a := &arrival{
		op: op, step: string(parts.StepID), run: r.Header.Get("X-Run-Id"),
		client: r.Header.Get("X-Client"), body: body, at: time.Now(), gone: r.Context().Done(), tool: f,
	}
	f.mu.Lock()
	l := f.ledger(a.op)
	l.arrivals++
	a.n = l.arrivals
	f.log = append(f.log, *a)
	f.flying++
	f.most = max(f.most, f.flying)
	arrived := f.arrived
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.flying--
	}()

	if arrived != nil {
		arrived(a)
	}
	f.mu.Lock()
	reply := f.reply
	f.mu.Unlock()
	answer := json.RawMessage(fmt.Sprintf(`{"id":"r-%s","state":"done"}`, a.op))
	if reply != nil {
		answer = reply(a)
	}
	f.mu.Lock()
	if !f.dedup || l.effects == 0 {
		if l.effects == 0 {
			l.since, l.answer = time.Now(), answer
		}
		l.effects++
	} else {
		answer = l.answer
	}
	committed := f.committed
	f.mu.Unlock()
	if committed != nil {
		committed(a)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

func (f *fakeTool) find(w http.ResponseWriter, r *http.Request) {
	id := protocol.OperationID(r.Header.Get("X-Operation-Id"))
	f.mu.Lock()
	l := f.ledger(id)
	l.queries++
	known := l.effects > 0 && time.Since(l.since) >= f.lag
	answer, lookup := l.answer, f.lookup
	f.mu.Unlock()
	if lookup != nil && lookup(w, id) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if !known {
		w.WriteHeader(http.StatusNotFound)
		answer = json.RawMessage(`{"error":"no such effect"}`)
	}
	_, _ = w.Write(answer)
}

func (f *fakeTool) get(id protocol.OperationID) effectLedger {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.ops[id]; l != nil {
		return *l
	}
	return effectLedger{}
}

// arrivals is how many requests for the operation's effect came.
func (f *fakeTool) arrivals(id protocol.OperationID) int { return f.get(id).arrivals }

// effects is how many effects the operation has.
func (f *fakeTool) effects(id protocol.OperationID) int { return f.get(id).effects }

// queries is how often the operation was looked up.
func (f *fakeTool) queries(id protocol.OperationID) int { return f.get(id).queries }

// all is every arrival so far, in order.
func (f *fakeTool) all() []arrival {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]arrival(nil), f.log...)
}

// peak is how many requests for effects were there at once.
func (f *fakeTool) peak() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

// duplicates lists the operations that have more than one effect.
func (f *fakeTool) duplicates() []protocol.OperationID {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []protocol.OperationID
	for id, l := range f.ops {
		if l.effects > 1 {
			out = append(out, id)
		}
	}
	return out
}
