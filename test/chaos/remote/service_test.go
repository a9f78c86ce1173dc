package remote_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/test/chaos/remote"
)

type client struct {
	t    *testing.T
	s    *remote.Service
	file string
}

func start(t *testing.T) client {
	t.Helper()
	c := client{t: t, file: filepath.Join(t.TempDir(), "ledger.jsonl")}
	var err error
	if c.s, err = remote.Start(c.file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.s.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// do returns the status; 0 if no whole answer came within a second and a bit.
func (c client) do(method string, e remote.Endpoint, id, body string) int {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.s.URL+"/"+string(e), strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-Operation-Id", id)
	patient := &http.Client{Timeout: remote.RequestTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := patient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(new(any)); err != nil && resp.StatusCode == http.StatusOK {
		return 0
	}
	return resp.StatusCode
}

func (c client) post(e remote.Endpoint, id string) int {
	return c.do(http.MethodPost, e, id, `{"a":1}`)
}
func (c client) get(e remote.Endpoint, id string) int { return c.do(http.MethodGet, e, id, "") }

// until waits for a condition.
func (c client) until(what string, met func() bool) {
	c.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for out := time.After(20 * time.Second); !met(); {
		select {
		case <-tick.C:
		case <-out:
			c.t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestARepetitionIsWhatItsEndpointPromises(t *testing.T) {
	t.Parallel()
	for e, want := range map[remote.Endpoint]struct{ second, effects int }{
		remote.Keyed: {http.StatusOK, 1},
		remote.Named: {http.StatusConflict, 1},
		remote.Asked: {http.StatusOK, 2},
		remote.Plain: {http.StatusOK, 2},
	} {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			c := start(t)
			if first := c.post(e, "op"); first != http.StatusOK {
				t.Errorf("first: %d", first)
			}
			if second := c.post(e, "op"); second != want.second {
				t.Errorf("second: %d, want %d", second, want.second)
			}
			if r := c.s.Records()["op"]; r.Effects != want.effects || r.Arrivals != 2 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestEachFaultDoesWhatItsNameSays(t *testing.T) {
	t.Parallel()
	for fault, want := range map[remote.Fault]struct{ status, effects int }{
		remote.DropAnswer:   {0, 1},
		remote.HoldAnswer:   {0, 1},
		remote.CutAnswer:    {0, 1},
		remote.LateEffect:   {0, 1},
		remote.StoredError:  {http.StatusInternalServerError, 1},
		remote.GatewayError: {http.StatusServiceUnavailable, 1},
		remote.Busy:         {http.StatusConflict, 1},
		remote.HiddenEffect: {0, 1},
		remote.CloseEarly:   {0, 0},
		remote.Throttle:     {http.StatusTooManyRequests, 0},
		remote.Refuse:       {http.StatusPaymentRequired, 0},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			c := start(t)
			c.s.Arm(remote.Keyed, fault)
			if got := c.post(remote.Keyed, "op"); got != want.status {
				t.Errorf("answer %d, want %d", got, want.status)
			}
			c.until("the request has come to its end", func() bool { _, settled := c.s.Settled("op"); return settled })
			if r := c.s.Records()["op"]; r.Effects != want.effects || r.Arrivals+r.Refusals != 1 {
				t.Errorf("%+v", r)
			}
			if c.s.Struck()[fault] != 1 {
				t.Errorf("struck: %v", c.s.Struck())
			}
			if want.effects > 0 {
				c.until("a query finds it", func() bool { return c.get(remote.Keyed, "op") == http.StatusOK })
			} else if got := c.get(remote.Keyed, "op"); got != http.StatusNotFound {
				t.Errorf("a query says %d", got)
			}
		})
	}
}

func TestAHiddenEffectIsNotFoundAtFirst(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.s.Arm(remote.Asked, remote.HiddenEffect)
	c.post(remote.Asked, "op")
	if got := c.get(remote.Asked, "op"); got != http.StatusNotFound {
		t.Errorf("%d", got)
	}
}

func TestAStoredErrorIsRepeatedAndARefusalIsFinal(t *testing.T) {
	t.Parallel()
	c := start(t)
	for fault, status := range map[remote.Fault]int{
		remote.StoredError: http.StatusInternalServerError, remote.Refuse: http.StatusPaymentRequired,
	} {
		c.s.Arm(remote.Keyed, fault)
		for range 2 {
			if got := c.post(remote.Keyed, string(fault)); got != status {
				t.Errorf("%s: %d", fault, got)
			}
		}
	}
}

func TestARequestThatChangesUnderItsIDIsSeen(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.post(remote.Keyed, "op")
	c.do(http.MethodPost, remote.Keyed, "op", `{"a":2}`)
	if !c.s.Records()["op"].Altered {
		t.Error("not seen")
	}
}

func TestEveryArrivalAndEffectIsALineOfTheLedger(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.post(remote.Plain, "op")
	c.s.Arm(remote.Plain, remote.Throttle)
	c.post(remote.Plain, "other")
	file, err := os.Open(c.file)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var got []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e struct {
			What string `json:"what"`
			ID   string `json:"operation_id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, e.What+" "+e.ID)
	}
	if want := "arrival op, effect op, refusal other"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
