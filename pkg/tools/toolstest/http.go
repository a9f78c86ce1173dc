package toolstest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// HTTP is a fault-injecting remote that speaks HTTP in a given dialect, on a
// real server on loopback.
type HTTP struct {
	// URL is where it is to be found, without a slash at the end. Any path below
	// it is served.
	URL string

	dialect Dialect
	closed  chan struct{}

	mu    sync.Mutex // guards all below
	order *Order     // armed, and not yet struck
	now   time.Duration
	names map[string]*record
	all   []*record
	made  int
}

// record is what the remote knows of one name.
type record struct {
	Effect

	known    bool          // the name was used
	busy     bool          // a call of it is at work
	due      time.Duration // when that call takes effect
	first    time.Duration // when the name was first used
	visible  time.Duration // from when questions find the effect
	exists   bool
	failed   bool // its stored answer is an error
	arrivals int
	effects  int
}

var _ Remote = (*HTTP)(nil)

// NewHTTP starts a remote that ends with the test.
func NewHTTP(t testing.TB, d Dialect) *HTTP {
	t.Helper()
	h := &HTTP{dialect: d.withDefaults(), closed: make(chan struct{}), names: make(map[string]*record)}
	server := httptest.NewServer(h)
	h.URL = server.URL
	t.Cleanup(func() { close(h.closed); server.Close() })
	return h
}

// Arm implements Remote.
func (h *HTTP) Arm(o Order) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.order = &o
	return true
}

// Advance implements Remote.
func (h *HTTP) Advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += d
	for _, r := range h.all {
		if r.busy && r.due <= h.now {
			h.cause(r)
		}
	}
}

// Arrivals implements Remote.
func (h *HTTP) Arrivals(id protocol.OperationID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at(h.dialect.NameOf(id)).arrivals
}

// Effects implements Remote.
func (h *HTTP) Effects(id protocol.OperationID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at(h.dialect.NameOf(id)).effects
}

// ServeHTTP implements http.Handler.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.dialect.Asks(r) {
		h.ask(w, r)
		return
	}
	order := h.take()
	if order.Fault == CloseBeforeReading {
		h.arrive(r, nil)
		panic(http.ErrAbortHandler)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the caller is gone before it had sent all
	}
	name := h.arrive(r, body)
	e := Effect{Name: name, Header: r.Header.Clone(), Body: bytes.Clone(body)}
	if !h.strike(w, r, order, e) {
		h.call(w, e)
	}
}

func (h *HTTP) take() Order {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.order == nil {
		return Order{}
	}
	o := *h.order
	h.order = nil
	return o
}

// arrive counts a call. Nothing of a connection that is closed unread is known
// but its header and path.
func (h *HTTP) arrive(r *http.Request, body []byte) string {
	name := h.dialect.Name(r, body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at(name).arrivals++
	return name
}

// at returns the record of a name; mu is held.
func (h *HTTP) at(name string) *record {
	r := h.names[name]
	if r == nil {
		r = &record{Effect: Effect{Name: name}}
		h.names[name] = r
		h.all = append(h.all, r)
	}
	if h.dialect.Recognises == ByKey && r.known && h.dialect.Retention > 0 && h.now >= r.first+h.dialect.Retention {
		// Forgotten: the effect stays, and the key is free for another.
		r.known, r.failed = false, false
	}
	return r
}

// cause makes an effect come about; mu is held.
func (h *HTTP) cause(r *record) {
	h.made++
	r.ID = fmt.Sprintf("remote-%d", h.made)
	r.effects++
	r.exists, r.busy = true, false
	r.visible = max(r.visible, h.now)
}

// use notes the first use of a name; mu is held.
func (h *HTTP) use(r *record, e Effect) {
	if !r.known {
		r.known, r.first = true, h.now
	}
	if !r.exists {
		r.Effect = e
	}
}

// call answers as usual.
func (h *HTTP) call(w http.ResponseWriter, e Effect) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.at(e.Name)
	d := h.dialect
	switch {
	case r.busy && d.Recognises != NotAtAll:
		d.Busy(w, e.Name)
	case d.Recognises == ByName && r.exists:
		d.Taken(w, e.Name)
	case d.Recognises == ByKey && r.known && d.Compares && !bytes.Equal(r.Body, e.Body):
		d.Mismatch(w, e.Name)
	case d.Recognises == ByKey && r.known && r.failed:
		Answer(w, http.StatusInternalServerError, map[string]string{"error": "stored"})
	case d.Recognises == ByKey && r.known && r.exists:
		d.Created(w, r.Effect)
	default:
		h.use(r, e)
		h.cause(r)
		d.Created(w, r.Effect)
	}
}

// ask answers a question.
func (h *HTTP) ask(w http.ResponseWriter, req *http.Request) {
	name := h.dialect.Name(req, nil)
	h.mu.Lock()
	defer h.mu.Unlock()
	visible := func(r *record) bool { return r.exists && h.now >= r.visible }
	if name == "" {
		var all []Effect
		for _, r := range h.all {
			if visible(r) {
				all = append(all, r.Effect)
			}
		}
		h.dialect.List(w, all)
		return
	}
	if r := h.at(name); visible(r) {
		h.dialect.Found(w, r.Effect)
		return
	}
	h.dialect.Absent(w)
}
