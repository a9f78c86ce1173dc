package main

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Service answers requests. All that it must not forget is in the ledger.
type Service struct {
	ledger *Ledger
	keys   *keys
	faults *faults
	log    *slog.Logger

	mu     sync.Mutex // guards counts
	counts map[string]int64
}

// NewService returns a service that knows what the ledger knows.
func NewService(ledger *Ledger, log *slog.Logger) *Service {
	s := &Service{ledger: ledger, log: log, counts: map[string]int64{}}
	var names []string
	for _, res := range resources() {
		names = append(names, res.name)
	}
	entries := ledger.Entries(0)
	for _, e := range entries {
		if e.Kind == KindEffect {
			s.counts[e.Endpoint]++
		}
	}
	s.keys, s.faults = newKeys(entries), newFaults(names...)
	return s
}

// Handler returns the service's routes.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, res := range resources() {
		mux.HandleFunc("POST /"+res.name, func(w http.ResponseWriter, r *http.Request) { s.post(w, r, res) })
		if res.key == nil {
			continue
		}
		mux.HandleFunc("GET /"+res.name, func(w http.ResponseWriter, r *http.Request) {
			s.query(w, res, r.URL.Query().Get("key"))
		})
		// Keys may have slashes in them, escaped by a careful caller or not.
		mux.HandleFunc("GET /"+res.name+"/by-key/{key...}", func(w http.ResponseWriter, r *http.Request) {
			s.query(w, res, r.PathValue("key"))
		})
	}
	mux.HandleFunc("GET /ledger", s.list)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"status": "ok"})
	})
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		mux.HandleFunc(method+" /faults", s.faults.handle)
	}
	return mux
}

func (s *Service) post(w http.ResponseWriter, r *http.Request, res *resource) {
	body, malformed := decodeBody(w, r)
	arrival, err := res.arrival(r, body)
	if err == nil {
		arrival, err = s.ledger.Append(arrival)
	}
	if err != nil {
		s.internal(w, err)
		return
	}
	if malformed != nil {
		fail(w, http.StatusBadRequest, malformed.Error())
		return
	}
	if res.key != nil && arrival.Key == "" {
		fail(w, http.StatusBadRequest, res.keyIs+" is missing")
		return
	}
	if no := res.check(body); no != nil {
		fail(w, no.status, no.reason)
		return
	}
	if res.key != nil {
		switch effect, state := s.keys.begin(arrival); state {
		case keyDone:
			w.Header().Set("Idempotent-Replayed", "true")
			reply(w, http.StatusCreated, effect.Answer)
			return
		case keyMismatch:
			fail(w, http.StatusUnprocessableEntity, "this key was used with another body")
			return
		case keyInProgress:
			w.Header().Set("Retry-After", "1")
			fail(w, http.StatusConflict, "a request of this key is in progress")
			return
		case keyFree:
		}
	}
	s.cause(w, r, res, arrival, body)
}

// cause makes the effect, durably, and then answers, as far as an armed fault
// lets it.
func (s *Service) cause(w http.ResponseWriter, r *http.Request, res *resource, arrival Entry, body map[string]any) {
	fault, released := s.faults.take(res.name, body)
	if fault.Fault == FaultDelay {
		// Not cut short when the caller hangs up: a remote that has accepted a
		// request goes on with it, which is why a timeout proves nothing.
		wait(fault.limit(), released, nil)
	}
	effect, err := res.effect(arrival, s.count(res.name), body)
	if err == nil {
		effect, err = s.ledger.Append(effect)
	}
	if err != nil {
		if res.key != nil {
			s.keys.release(arrival)
		}
		s.internal(w, err)
		return
	}
	if res.key != nil {
		s.keys.finish(effect)
	}
	switch fault.Fault {
	case FaultHoldAnswer:
		wait(fault.limit(), released, r.Context().Done())
	case FaultDropAnswer:
		panic(http.ErrAbortHandler)
	}
	reply(w, http.StatusCreated, effect.Answer)
}

func (s *Service) query(w http.ResponseWriter, res *resource, key string) {
	switch effect, state := s.keys.find(res.name, key); state {
	case keyDone:
		reply(w, http.StatusOK, effect.Answer)
	case keyInProgress:
		reply(w, http.StatusAccepted, map[string]any{"status": "in_progress"})
	case keyFree, keyMismatch:
		fail(w, http.StatusNotFound, "nothing is known of this key")
	}
}

// list answers with the whole ledger, or with what came after a line.
func (s *Service) list(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.ParseInt(cmp.Or(r.URL.Query().Get("after"), "0"), 10, 64)
	if err != nil {
		fail(w, http.StatusBadRequest, "after is not a sequence number")
		return
	}
	reply(w, http.StatusOK, map[string]any{"entries": s.ledger.Entries(after)})
}

func (s *Service) count(endpoint string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[endpoint]++
	return s.counts[endpoint]
}

// internal answers when the ledger failed: the effect may or may not be on
// disk, and the caller must treat it so.
func (s *Service) internal(w http.ResponseWriter, err error) {
	s.log.Error("the ledger failed", "error", err)
	fail(w, http.StatusInternalServerError, "the ledger failed")
}

func wait(d time.Duration, released, gone <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-released:
	case <-gone:
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may be gone
}

func fail(w http.ResponseWriter, status int, reason string) {
	reply(w, status, map[string]any{"error": reason})
}
