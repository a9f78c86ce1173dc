package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// Endpoint is a part of the service that keeps one class of promises. POST
// /ENDPOINT causes an effect, GET /ENDPOINT looks for one; both know the
// operation by the header X-Operation-Id.
type Endpoint string

// The endpoints.
const (
	// Keyed deduplicates by a key, and can be asked.
	Keyed Endpoint = "keyed"
	// Named makes something under a name that the client chose: a second one
	// of the name is a 409. It can be asked.
	Named Endpoint = "named"
	// Asked has a second effect if a request comes twice. It can be asked.
	Asked Endpoint = "asked"
	// Plain has a second effect if a request comes twice, and cannot be asked.
	Plain Endpoint = "plain"
)

// Endpoints lists them.
func Endpoints() []Endpoint { return []Endpoint{Keyed, Named, Asked, Plain} }

// Service is the service. It is safe for concurrent use.
type Service struct {
	URL string

	server  *httptest.Server
	ledger  *ledger
	closing chan struct{}
	work    sync.WaitGroup // effects that outlive their requests

	mu     sync.Mutex // guards both below
	armed  map[Endpoint][]Fault
	struck map[Fault]int
}

// Start starts the service with a new ledger file.
func Start(ledgerFile string) (*Service, error) {
	l, err := openLedger(ledgerFile)
	if err != nil {
		return nil, err
	}
	s := &Service{ledger: l, closing: make(chan struct{}), armed: map[Endpoint][]Fault{}, struck: map[Fault]int{}}
	mux := http.NewServeMux()
	for _, e := range Endpoints() {
		mux.HandleFunc("POST /"+string(e), func(w http.ResponseWriter, r *http.Request) { s.create(w, r, e) })
		if e != Plain {
			mux.HandleFunc("GET /"+string(e), func(w http.ResponseWriter, r *http.Request) { s.find(w, r, e) })
		}
	}
	s.server = httptest.NewServer(mux)
	s.URL = s.server.URL
	return s, nil
}

// Close ends the service and returns the first error that its ledger had.
func (s *Service) Close() error {
	close(s.closing)
	s.server.CloseClientConnections()
	s.server.Close()
	s.work.Wait()
	return s.ledger.close()
}

// Arm has a fault strike one request, after those that were armed before.
func (s *Service) Arm(e Endpoint, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed[e] = append(s.armed[e], f)
}

// Disarm forgets the faults that have not struck.
func (s *Service) Disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.armed)
}

// Struck counts the faults that have struck.
func (s *Service) Struck() map[Fault]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.struck)
}

func (s *Service) fault(e Endpoint) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.armed[e]) == 0 {
		return ""
	}
	f := s.armed[e][0]
	s.armed[e] = s.armed[e][1:]
	s.struck[f]++
	return f
}

// Records is what the service knows of every operation.
func (s *Service) Records() map[string]Record {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	out := make(map[string]Record, len(s.ledger.records))
	for id, r := range s.ledger.records {
		out[id] = *r
	}
	return out
}

// Settled reports whether the operation has an effect, and whether that can still
// change: a request may be under way.
func (s *Service) Settled(operation string) (effect, settled bool) {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	r := s.ledger.records[operation]
	return r != nil && r.Effects > 0, r == nil || r.pending == 0
}

// request is one arrival.
type request struct {
	s     *Service
	entry entry
	w     http.ResponseWriter
	gone  <-chan struct{}
}

func (s *Service) create(w http.ResponseWriter, r *http.Request, e Endpoint) {
	id := r.Header.Get("X-Operation-Id")
	q := request{s: s, w: w, gone: r.Context().Done(), entry: entry{
		Endpoint: e, Operation: id, Client: r.Header.Get("X-Client"),
	}}
	if s.repeated(q, r) {
		return
	}
	q.entry.Fault = s.fault(e)
	switch q.entry.Fault {
	case CloseEarly:
		q.note("refusal", func(r *Record) { r.Refusals++ })
		panic(http.ErrAbortHandler)
	case Throttle:
		q.note("refusal", func(r *Record) { r.Refusals++ })
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case DropAnswer, HoldAnswer, CutAnswer, LateEffect, StoredError, GatewayError, Busy, HiddenEffect, Refuse:
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		q.note("refusal", func(r *Record) { r.Refusals++ })
		return // nothing has arrived that could be acted on
	}
	sum := sha256.Sum256(body)
	q.entry.Digest = hex.EncodeToString(sum[:8])
	if q.entry.Fault == Refuse {
		q.note("refusal", func(r *Record) { r.Refusals++; r.Refused = true; r.see(q.entry.Digest) })
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	if !q.enter() {
		return
	}
	defer q.note("", func(r *Record) { r.pending-- })
	q.act()
}

// repeated answers a request for an intent that has come to its end here.
func (s *Service) repeated(q request, r *http.Request) bool {
	var known Record
	s.ledger.with(q.entry, func(r *Record) { known = *r })
	switch {
	case known.Refused:
		q.note("refusal", func(r *Record) { r.Refusals++ })
		q.w.WriteHeader(http.StatusPaymentRequired)
	case q.entry.Endpoint == Keyed && known.Effects > 0:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return true
		}
		sum := sha256.Sum256(body)
		q.entry.Digest = hex.EncodeToString(sum[:8])
		q.note("arrival", func(r *Record) { r.Arrivals++; r.see(q.entry.Digest) })
		q.answer(known.status)
	default:
		return false
	}
	return true
}

// see notes what a request was about.
func (r *Record) see(digest string) {
	if r.digest == "" {
		r.digest = digest
	}
	r.Altered = r.Altered || r.digest != digest
}

// enter lets the request in, unless the endpoint knows that its effect is being
// made, or is there.
func (q request) enter() bool {
	taken := false
	q.note("arrival", func(r *Record) {
		r.Arrivals++
		r.see(q.entry.Digest)
		if q.entry.Endpoint == Keyed || q.entry.Endpoint == Named {
			taken = r.making || r.Effects > 0
		}
		if !taken {
			r.making = true
			r.pending++
		}
	})
	if taken {
		q.w.WriteHeader(http.StatusConflict)
	}
	return !taken
}

// act makes the effect and answers, as the fault wants it.
func (q request) act() {
	switch q.entry.Fault {
	case DropAnswer:
		q.effect(0, 0)
		panic(http.ErrAbortHandler)
	case HoldAnswer:
		q.effect(0, 0)
		await(q.s, q.gone)
	case CutAnswer:
		q.effect(0, 0)
		q.w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(q.w, `{"id":"r-`)
		panic(http.ErrAbortHandler)
	case LateEffect:
		await(q.s, time.After(effectDelay))
		q.effect(0, 0)
		panic(http.ErrAbortHandler)
	case StoredError:
		q.effect(0, http.StatusInternalServerError)
		q.answer(http.StatusInternalServerError)
	case GatewayError:
		q.effect(0, 0)
		q.answer(http.StatusServiceUnavailable)
	case Busy:
		q.note("", func(r *Record) { r.pending++ })
		q.s.work.Go(func() {
			await(q.s, time.After(busyFor))
			q.effect(0, 0)
			q.note("", func(r *Record) { r.pending-- })
		})
		q.answer(http.StatusConflict)
	case HiddenEffect:
		q.effect(hiddenFor, 0)
		panic(http.ErrAbortHandler)
	case CloseEarly, Throttle, Refuse: // were dealt with
	default:
		q.effect(0, 0)
		q.answer(0)
	}
}

// await waits for c, or for the end of the service.
func await[T any](s *Service, c <-chan T) {
	select {
	case <-c:
	case <-s.closing:
	}
}

func (q request) effect(hidden time.Duration, status int) {
	q.note("effect", func(r *Record) {
		r.Effects++
		r.making = false
		if r.Effects == 1 {
			r.since, r.status = time.Now().Add(hidden), status
		}
	})
}

func (q request) note(what string, change func(*Record)) {
	e := q.entry
	e.What = what
	q.s.ledger.with(e, change)
}

// answer is the success of this operation, or a status without one.
func (q request) answer(status int) {
	if status != 0 {
		q.w.WriteHeader(status)
		return
	}
	q.w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(q.w, `{"id":%q,"state":"done"}`, "r-"+q.entry.Operation)
}

func (s *Service) find(w http.ResponseWriter, r *http.Request, e Endpoint) {
	q := request{s: s, w: w, entry: entry{Endpoint: e, Operation: r.Header.Get("X-Operation-Id")}}
	var known Record
	q.note("", func(r *Record) { known = *r })
	if known.Effects == 0 || time.Now().Before(known.since) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	q.answer(0)
}
