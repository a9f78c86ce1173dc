package ledgerwriter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/protocol"
)

// refusal is how the database says that it cannot hold a value.
type refusal struct{}

func (refusal) Error() string    { return "unsupported Unicode escape sequence" }
func (refusal) SQLState() string { return "22P05" }

// ledger answers calls the way a test wants and keeps what it took.
type ledger struct {
	mu      sync.Mutex
	takes   time.Duration
	answer  func(call int, batch []string) ([]error, error)
	batches [][]string
	settled map[string]error
}

type bundle struct {
	*ledger
	w   *Writer[string]
	run chan error
}

func setup(t *testing.T, l *ledger) bundle {
	t.Helper()
	l.settled = make(map[string]error)
	w := New(Config[string]{
		Write: func(_ context.Context, batch []string) ([]error, error) {
			time.Sleep(l.takes)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.batches = append(l.batches, slices.Clone(batch))
			if l.answer == nil {
				return make([]error, len(batch)), nil
			}
			return l.answer(len(l.batches), batch)
		},
		Settled: func(_ context.Context, item string, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if _, twice := l.settled[item]; twice {
				t.Errorf("%s settled twice", item)
			}
			l.settled[item] = err
		},
		Size:     func(item string) int { return len(item) },
		Backoff:  func(n int) time.Duration { return backoff.Bound(20*time.Millisecond, 2*time.Second, n) },
		MaxItems: 100, MaxBytes: 1000, Timeout: 5 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
	b := bundle{ledger: l, w: w, run: make(chan error, 1)}
	go func() { b.run <- w.Run(t.Context()) }()
	return b
}

func (b bundle) end(t *testing.T) {
	t.Helper()
	if rest := b.w.Drain(time.Minute); len(rest) != 0 {
		t.Errorf("not written: %v", rest)
	}
	if err := <-b.run; err != nil {
		t.Errorf("run: %v", err)
	}
	if n, bytes := b.w.Backlog(); n != 0 || bytes != 0 {
		t.Errorf("backlog of %d results and %d bytes after all were settled", n, bytes)
	}
}

func add(w *Writer[string], from, to int) {
	for i := from; i < to; i++ {
		w.Add(fmt.Sprintf("r%d", i))
	}
}

func TestAnIdleWriterWritesAtOnceAndABusyOneInBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &ledger{takes: 10 * time.Millisecond})
		began := time.Now()
		add(b.w, 0, 1)
		synctest.Wait()
		add(b.w, 1, 8)
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if len(b.batches) != 2 || len(b.batches[0]) != 1 || len(b.batches[1]) != 7 {
			t.Errorf("batches %v, want one alone and the seven that came meanwhile together", b.batches)
		}
		if took := time.Since(began); took != 20*time.Millisecond {
			t.Errorf("two flushes of 10 ms took %s", took)
		}
		b.end(t)
	})
}

func TestABatchIsBoundedInBytesAndAnOversizedResultGoesByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &ledger{takes: time.Millisecond})
		add(b.w, 0, 1)
		synctest.Wait()
		huge := string(make([]byte, 5000))
		half := string(make([]byte, 600))
		for _, item := range []string{"a", huge, half + "1", half + "2"} {
			b.w.Add(item)
		}
		b.end(t)
		sizes := []int{}
		for _, batch := range b.batches[1:] {
			sizes = append(sizes, len(batch))
		}
		if !slices.Equal(sizes, []int{1, 1, 1, 1}) {
			t.Errorf("batch sizes %v", sizes)
		}
	})
}

func TestResultsAreKeptWhileTheDatabaseIsAwayHoweverLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := true
		b := setup(t, &ledger{answer: func(_ int, batch []string) ([]error, error) {
			if away {
				return nil, errors.New("dial tcp: connection refused")
			}
			return make([]error, len(batch)), nil
		}})
		add(b.w, 0, 250)
		time.Sleep(time.Hour)
		synctest.Wait()
		b.mu.Lock()
		calls := len(b.batches)
		away = false
		b.mu.Unlock()
		if calls > 2000 {
			t.Errorf("%d calls in an hour to a database that is away", calls)
		}
		if n, _ := b.w.Backlog(); n != 250 || len(b.settled) != 0 {
			t.Errorf("%d kept, %d settled", n, len(b.settled))
		}
		b.end(t)
		if len(b.settled) != 250 {
			t.Errorf("%d of 250 settled", len(b.settled))
		}
	})
}

func TestOneResultThatTheDatabaseCannotHoldDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &ledger{answer: func(_ int, batch []string) ([]error, error) {
			if slices.Contains(batch, "r7") {
				return nil, fmt.Errorf("complete operations: %w", refusal{})
			}
			return make([]error, len(batch)), nil
		}})
		add(b.w, 0, 60)
		b.end(t)
		for item, err := range b.settled {
			if (item == "r7") != (err != nil) {
				t.Errorf("%s settled with %v", item, err)
			}
		}
		if len(b.settled) != 60 || !errors.As(b.settled["r7"], &refusal{}) {
			t.Errorf("%d of 60 settled, r7 with %v", len(b.settled), b.settled["r7"])
		}
		if len(b.batches) > 40 {
			t.Errorf("%d calls for 60 results", len(b.batches))
		}
	})
}

func TestABusyRowIsOfferedAgainAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := time.Now().Add(100 * time.Millisecond)
		b := setup(t, &ledger{takes: time.Millisecond, answer: func(_ int, batch []string) ([]error, error) {
			errs := make([]error, len(batch))
			if i := slices.Index(batch, "r2"); i >= 0 && time.Now().Before(free) {
				errs[i] = protocol.ErrBusy
			}
			return errs, nil
		}})
		for i := range 300 { // results keep coming, so that there is company
			add(b.w, 2*i, 2*i+2)
			time.Sleep(500 * time.Microsecond)
		}
		b.end(t)
		tries := 0
		for i, batch := range b.batches {
			if !slices.Contains(batch, "r2") {
				continue
			}
			if tries++; tries > 1 && len(batch) > 1 {
				t.Errorf("call %d has a busy row in company: %v", i, batch)
			}
		}
		if err := b.settled["r2"]; err != nil || len(b.settled) != 600 || tries < 3 {
			t.Errorf("%d of 600 settled, r2 after %d tries with %v", len(b.settled), tries, err)
		}
	})
}

func TestAnUnknownOutcomeIsAskedForAgainAndADefiniteAnswerIsNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &ledger{answer: func(call int, batch []string) ([]error, error) {
			if call == 1 {
				return nil, fmt.Errorf("complete operations: %w", protocol.ErrOutcomeUnknown)
			}
			errs := make([]error, len(batch))
			for i := range batch {
				errs[i] = fmt.Errorf("complete operation: %w", protocol.ErrClaimLost)
			}
			return errs, nil
		}})
		add(b.w, 0, 1)
		b.end(t)
		if len(b.batches) != 2 || !errors.Is(b.settled["r0"], protocol.ErrClaimLost) {
			t.Errorf("calls %v, settled with %v", b.batches, b.settled["r0"])
		}
	})
}

func TestADrainThatRunsOutOfTimeHandsBackWhatIsNotWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, &ledger{answer: func(int, []string) ([]error, error) {
			return nil, protocol.ErrGateClosed
		}})
		add(b.w, 0, 3)
		began := time.Now()
		rest := b.w.Drain(5 * time.Second)
		if took := time.Since(began); took > 6*time.Second || len(rest) != 3 {
			t.Errorf("%d handed back after %s", len(rest), took)
		}
		if err := <-b.run; err == nil {
			t.Error("run ended well with results unwritten")
		}
	})
}
