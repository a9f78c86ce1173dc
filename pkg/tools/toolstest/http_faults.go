package toolstest

import (
	"net/http"
	"strconv"
	"time"
)

// strike lets an armed fault have its way with a call. It returns false if the
// call is to be answered as usual.
func (h *HTTP) strike(w http.ResponseWriter, r *http.Request, o Order, e Effect) bool {
	if o.Fault == "" {
		return false
	}
	defer o.Struck()
	switch o.Fault {
	case DropAfterCommit:
		h.effect(e, 0)
		panic(http.ErrAbortHandler)
	case LaggingQuery:
		h.effect(e, o.For)
		panic(http.ErrAbortHandler)
	case CachedError:
		rec := h.effect(e, 0)
		h.mu.Lock()
		rec.failed = !h.dialect.ForgetsErrors
		h.mu.Unlock()
		Answer(w, http.StatusInternalServerError, map[string]string{"error": "broken after the effect"})
	case InProgress:
		h.begin(e, o.For)
		h.dialect.Busy(w, e.Name)
	case SlowCommit:
		h.begin(e, o.For)
		o.Struck()
		select {
		case <-r.Context().Done():
		case <-h.closed:
		}
		panic(http.ErrAbortHandler)
	case ForeignOwner:
		h.seed(e.Name)
		return false
	case Redirect:
		w.Header().Set("Location", h.URL+"/elsewhere"+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	case ThrottleSeconds:
		w.Header().Set("Retry-After", strconv.Itoa(int(o.For/time.Second)))
		Answer(w, http.StatusTooManyRequests, map[string]string{"error": "slow down"})
	case ThrottleDate:
		// Whole seconds are all that a date can say, so the clock shows whole ones.
		now := time.Now().UTC().Truncate(time.Second)
		w.Header().Set("Date", now.Format(http.TimeFormat))
		w.Header().Set("Retry-After", now.Add(o.For).Format(http.TimeFormat))
		Answer(w, http.StatusTooManyRequests, map[string]string{"error": "slow down"})
	case TruncatedAnswer:
		h.effect(e, 0)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte(`{"id":"remote`))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case CloseBeforeReading: // has struck before the body was read
	}
	return true
}

// effect makes an effect that questions find after lag.
func (h *HTTP) effect(e Effect, lag time.Duration) *record {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.at(e.Name)
	h.use(r, e)
	r.visible = h.now + lag
	h.cause(r)
	return r
}

// begin makes an effect come about later.
func (h *HTTP) begin(e Effect, in time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.at(e.Name)
	h.use(r, e)
	r.busy, r.due = true, h.now+in
}

// seed makes somebody else's effect of that name. It is none of the operation's.
func (h *HTTP) seed(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.at(name)
	h.use(r, Effect{Name: name, Header: http.Header{}, Body: []byte(`{}`), Foreign: true})
	h.cause(r)
	r.effects--
}
