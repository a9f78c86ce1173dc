package ledgerwriter

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// patience is how often an item that the database refuses for a reason which
// we do not know to be final is offered again before it counts as refused.
const patience = 8

// next chooses what to write now. With nothing due it says how long to wait
// (0: until a result comes), or that all is done.
func (w *Writer[T]) next(now time.Time) (batch []*entry[T], wait time.Duration, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed && len(w.pending) == 0 {
		return nil, 0, true
	}
	if hold := w.held.Sub(now); hold > 0 {
		return nil, hold, false
	}
	bytes := 0
	for _, e := range w.pending {
		if delay := e.due.Sub(now); delay > 0 {
			if wait == 0 || delay < wait {
				wait = delay
			}
			continue
		}
		switch {
		case e.alone && len(batch) == 0:
			return []*entry[T]{e}, 0, false
		case e.alone:
			continue
		case len(batch) > 0 && (len(batch) >= w.limit || bytes+e.size > w.cfg.MaxBytes):
			return batch, 0, false
		}
		batch = append(batch, e)
		bytes += e.size
	}
	return batch, wait, false
}

func (w *Writer[T]) flush(ctx context.Context, batch []*entry[T]) {
	items := make([]T, len(batch))
	for i, e := range batch {
		items[i] = e.item
	}
	call, stop := context.WithTimeout(ctx, w.cfg.Timeout)
	began := time.Now()
	errs, err := w.cfg.Write(call, items)
	stop()
	if err == nil && len(errs) != len(items) {
		err = errors.New("the ledger did not answer for every result")
	}
	if w.cfg.Flushed != nil {
		w.cfg.Flushed(len(items), time.Since(began), err)
	}
	if err != nil {
		w.failed(ctx, batch, err)
		return
	}
	w.failures = 0
	w.limit = min(w.cfg.MaxItems, 2*w.limit)
	for i, e := range batch {
		w.answered(ctx, e, errs[i])
	}
}

// failed deals with an error of the whole call.
func (w *Writer[T]) failed(ctx context.Context, batch []*entry[T], err error) {
	w.failures++
	if w.failures&(w.failures-1) == 0 {
		w.cfg.Logger.WarnContext(ctx, "results could not be written and are kept",
			"error", err, "items", len(batch), "failures", w.failures)
	}
	w.limit = max(1, len(batch)/2)
	switch {
	case !final(err) && !refused(err):
		// The database is not there at present, for any of them.
		w.hold(w.cfg.Backoff(w.failures))
	case len(batch) == 1:
		w.answered(ctx, batch[0], err)
	}
	// Else one of them is at fault: the halves are offered at once.
}

// hold keeps the writer from calling for a while.
func (w *Writer[T]) hold(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = time.Now().Add(d)
}

// answered deals with the ledger's answer for one item.
func (w *Writer[T]) answered(ctx context.Context, e *entry[T], err error) {
	switch {
	case errors.Is(err, protocol.ErrOutcomeUnknown), errors.Is(err, protocol.ErrGateClosed):
		// Neither is the item's fault, and both end: the same call id again.
		w.again(e, false)
	case errors.Is(err, protocol.ErrBusy), err != nil && !final(err) && e.tries < patience:
		w.again(e, true)
	default:
		w.drop(e)
		w.cfg.Settled(ctx, e.item, err)
	}
}

// again puts e off, to the end of the queue: what failed must not stand in
// front of what may succeed.
func (w *Writer[T]) again(e *entry[T], alone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.tries++
	e.alone = e.alone || alone
	e.due = time.Now().Add(w.cfg.Backoff(e.tries))
	w.remove(e)
	w.pending = append(w.pending, e)
}

func (w *Writer[T]) drop(e *entry[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(e)
	w.bytes -= e.size
}

// remove takes e out of pending; it is nearly always at or near the front.
func (w *Writer[T]) remove(e *entry[T]) {
	for i, p := range w.pending {
		if p == e {
			w.pending = append(w.pending[:i], w.pending[i+1:]...)
			return
		}
	}
}

// final reports whether err is a definite answer that asking again cannot
// change.
func final(err error) bool {
	for _, e := range []error{
		protocol.ErrClaimLost, protocol.ErrNotFound, protocol.ErrNotAllowed,
		protocol.ErrTerminal, protocol.ErrConflict, protocol.ErrInvalid, protocol.ErrIntentMismatch,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// refused reports whether the database itself refused the data of a call
// (classes 22, 23 and P0 of SQLSTATE). Any other error of a call says only that
// the database is not there at present, however long it stays so.
func refused(err error) bool {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || len(state.SQLState()) != 5 {
		return false
	}
	switch state.SQLState()[:2] {
	case "22", "23", "P0":
		return true
	}
	return false
}
