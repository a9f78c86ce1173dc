package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// The faults that POST /faults can arm. Each waits for requests that match it
// and would cause a new effect; replays do not use one up.
const (
	// FaultHoldAnswer: cause the effect, then keep the answer back until the
	// caller is gone, the limit is over, or DELETE /faults.
	FaultHoldAnswer = "hold_answer"
	// FaultDropAnswer: cause the effect, then close the connection.
	FaultDropAnswer = "drop_answer"
	// FaultDelay: take a while before causing the effect, even if the caller
	// goes away meanwhile.
	FaultDelay = "delay"
)

// Fault is one order to misbehave.
type Fault struct {
	Endpoint string `json:"endpoint"`
	Fault    string `json:"fault"`
	// Where narrows it to requests with these fields in their body: it can be
	// armed before anybody knows the run and operation ids that will come.
	Where map[string]string `json:"where,omitempty"`
	// Times is how many requests it strikes (default 1).
	Times int `json:"times,omitempty"`
	// Millis is the delay, or the limit of a hold (default one minute).
	Millis int64 `json:"millis,omitempty"`
}

func (f Fault) matches(endpoint string, body map[string]any) bool {
	for name, value := range f.Where {
		if body[name] != value {
			return false
		}
	}
	return f.Endpoint == endpoint
}

func (f Fault) limit() time.Duration {
	if f.Millis == 0 {
		return time.Minute
	}
	return time.Duration(f.Millis) * time.Millisecond
}

type faults struct {
	known []string // endpoints

	mu       sync.Mutex // guards both
	armed    []Fault
	released chan struct{} // closed by clear
}

func newFaults(endpoints ...string) *faults {
	return &faults{known: endpoints, released: make(chan struct{})}
}

func (f *faults) arm(fault Fault) error {
	if !slices.Contains(f.known, fault.Endpoint) {
		return fmt.Errorf("endpoint %q is not one of %q", fault.Endpoint, f.known)
	}
	if all := []string{FaultHoldAnswer, FaultDropAnswer, FaultDelay}; !slices.Contains(all, fault.Fault) {
		return fmt.Errorf("fault %q is not one of %q", fault.Fault, all)
	}
	if fault.Millis < 0 || (fault.Fault == FaultDelay && fault.Millis == 0) {
		return fmt.Errorf("millis %d is not a duration", fault.Millis)
	}
	if fault.Times < 0 {
		return fmt.Errorf("times %d is not a number of requests", fault.Times)
	}
	fault.Times = max(fault.Times, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = append(f.armed, fault)
	return nil
}

// take lets the oldest fault that matches strike; the channel ends its hold.
func (f *faults) take(endpoint string, body map[string]any) (Fault, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, fault := range f.armed {
		if !fault.matches(endpoint, body) {
			continue
		}
		if f.armed[i].Times--; f.armed[i].Times == 0 {
			f.armed = slices.Delete(f.armed, i, i+1)
		}
		return fault, f.released
	}
	return Fault{}, nil
}

// clear disarms all faults and lets held answers go.
func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = nil
	close(f.released)
	f.released = make(chan struct{})
}

func (f *faults) list() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Fault{}, f.armed...)
}

func (f *faults) handle(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		var fault Fault
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&fault); err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
		if err := f.arm(fault); err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return
		}
	case http.MethodDelete:
		f.clear()
	}
	reply(w, http.StatusOK, map[string]any{"armed": f.list()})
}
