package worker

import (
	"time"
)

// stopGrace is how long user code has to return once its context was cancelled
// for the drain. It is what Run may take beyond DrainTimeout.
const stopGrace = time.Second

// drain waits for the sessions to come to rest: those that wait for something
// hand their runs back at once, a running step may finish and be saved first.
// What still runs after DrainTimeout is cancelled; what does not return then
// either is abandoned, and its lease is left to expire: handing a run back
// while its code still runs would invite two executions.
func (w *Worker) drain() {
	limit := time.NewTimer(w.cfg.DrainTimeout)
	defer limit.Stop()
	if w.atRest(limit.C) {
		return
	}
	for _, s := range w.snapshot() {
		s.cancel(errDrained)
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	if w.atRest(grace.C) {
		return
	}
	for _, s := range w.snapshot() {
		s.log.Warn("run abandoned: its code did not stop", "revision", s.revision.Load())
	}
}

// atRest reports whether all sessions ended before limit fired.
func (w *Worker) atRest(limit <-chan time.Time) bool {
	for _, s := range w.snapshot() {
		select {
		case <-s.done:
		case <-limit:
			return w.inUse() == 0
		}
	}
	return true
}

func (w *Worker) snapshot() []*session {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]*session, 0, len(w.sessions))
	for s := range w.sessions {
		out = append(out, s)
	}
	return out
}
