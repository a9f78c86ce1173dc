package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Tool is somebody else's service: a real HTTP server with a ledger of its
// own. POST /effects causes an effect, GET /effects looks one up; both know the
// operation by the header X-Operation-Id.
//
// By default it is plain: every arrival commits. The fields that alter it are
// set in [Tool.Change], also before anything is started.
type Tool struct {
	URL string

	server  *httptest.Server
	closing chan struct{}

	mu sync.Mutex // guards all below
	// Dedup: an operation id that was seen commits no second effect and gets
	// the first answer.
	Dedup bool
	// Lag is how long after its commit a look-up does not see an effect.
	Lag time.Duration
	// Arrived runs before the effect, Committed after it and before the answer;
	// both may block, see [Arrival.Wait]. nil: nothing special.
	Arrived   func(*Arrival)
	Committed func(*Arrival)
	// Reply makes the answer; nil: {"id":"r-OPERATION","state":"done"}.
	Reply func(*Arrival) json.RawMessage
	// Lookup may answer a query itself and return true.
	Lookup func(http.ResponseWriter, protocol.OperationID) bool

	ops    map[protocol.OperationID]*effectLedger
	log    []Arrival
	flying int
	most   int
}

type effectLedger struct {
	arrivals, effects, queries int
	since                      time.Time // of the first commit
	answer                     json.RawMessage
}

// Arrival is one request for an effect.
type Arrival struct {
	Op     protocol.OperationID
	Step   string // of the run, from the operation's id
	Run    string
	Client string // the process that sent it
	Body   json.RawMessage
	At     time.Time
	N      int // how many of this operation have arrived, with this one
	// Gone is closed when the client has given up, or was answered.
	Gone <-chan struct{}

	tool *Tool
}

// NewTool starts a service; it ends with the test.
func NewTool(t T) *Tool {
	t.Helper()
	f := &Tool{ops: map[protocol.OperationID]*effectLedger{}, closing: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /effects", f.create)
	mux.HandleFunc("GET /effects", f.find)
	f.server = httptest.NewServer(mux)
	f.URL = f.server.URL
	t.Cleanup(func() {
		close(f.closing)
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// Change alters the service while it runs.
func (f *Tool) Change(do func(f *Tool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(f)
}

// Drop ends the request without an answer: the client sees its connection go.
func (a *Arrival) Drop() { panic(http.ErrAbortHandler) }

// Wait blocks until c is closed, whether or not the client is still there: a
// real service does not notice either.
func (a *Arrival) Wait(c <-chan struct{}) {
	select {
	case <-c:
	case <-a.tool.closing:
		a.Drop()
	}
}

// Delay blocks for d.
func (a *Arrival) Delay(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.tool.closing:
		a.Drop()
	}
}

func (f *Tool) ledger(id protocol.OperationID) *effectLedger {
	l := f.ops[id]
	if l == nil {
		l = &effectLedger{}
		f.ops[id] = l
	}
	return l
}

func (f *Tool) create(w http.ResponseWriter, r *http.Request) {
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
	a := &Arrival{
		Op: op, Step: string(parts.StepID), Run: r.Header.Get("X-Run-Id"),
		Client: r.Header.Get("X-Client"), Body: body, At: time.Now(), Gone: r.Context().Done(), tool: f,
	}
	f.mu.Lock()
	l := f.ledger(a.Op)
	l.arrivals++
	a.N = l.arrivals
	f.log = append(f.log, *a)
	f.flying++
	f.most = max(f.most, f.flying)
	arrived := f.Arrived
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
	reply := f.Reply
	f.mu.Unlock()
	answer := json.RawMessage(fmt.Sprintf(`{"id":"r-%s","state":"done"}`, a.Op))
	if reply != nil {
		answer = reply(a)
	}
	f.mu.Lock()
	if !f.Dedup || l.effects == 0 {
		if l.effects == 0 {
			l.since, l.answer = time.Now(), answer
		}
		l.effects++
	} else {
		answer = l.answer
	}
	committed := f.Committed
	f.mu.Unlock()
	if committed != nil {
		committed(a)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

func (f *Tool) find(w http.ResponseWriter, r *http.Request) {
	id := protocol.OperationID(r.Header.Get("X-Operation-Id"))
	f.mu.Lock()
	l := f.ledger(id)
	l.queries++
	known := l.effects > 0 && time.Since(l.since) >= f.Lag
	answer, lookup := l.answer, f.Lookup
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

func (f *Tool) get(id protocol.OperationID) effectLedger {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.ops[id]; l != nil {
		return *l
	}
	return effectLedger{}
}

// Arrivals is how many requests for the operation's effect came.
func (f *Tool) Arrivals(id protocol.OperationID) int { return f.get(id).arrivals }

// Effects is how many effects the operation has.
func (f *Tool) Effects(id protocol.OperationID) int { return f.get(id).effects }

// Queries is how often the operation was looked up.
func (f *Tool) Queries(id protocol.OperationID) int { return f.get(id).queries }

// All is every arrival so far, in order.
func (f *Tool) All() []Arrival {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Arrival(nil), f.log...)
}

// Peak is how many requests for effects were there at once.
func (f *Tool) Peak() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

// Know has the service know of an effect that nobody has asked for.
func (f *Tool) Know(id protocol.OperationID, answer json.RawMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.ledger(id)
	l.effects, l.answer = 1, answer
}

// Duplicates lists the operations that have more than one effect.
func (f *Tool) Duplicates() []protocol.OperationID { return f.withEffects(2) }

// Operations lists the operations that have an effect.
func (f *Tool) Operations() []protocol.OperationID { return f.withEffects(1) }

// withEffects lists the operations that have at least so many effects.
func (f *Tool) withEffects(least int) []protocol.OperationID {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []protocol.OperationID
	for id, l := range f.ops {
		if l.effects >= least {
			out = append(out, id)
		}
	}
	return out
}
