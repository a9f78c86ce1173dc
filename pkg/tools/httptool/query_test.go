package httptool_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

func TestAQueryAsksWithoutCausing(t *testing.T) {
	t.Parallel()
	const base = "url: $/charges\nkey: {header: Idempotency-Key, field: id}\n" +
		"headers: [{name: Authorization, value: 'Bearer x'}]\nremote_id: /id\ncapabilities: {class: operation_query}\n"
	for _, tc := range []struct {
		name, config, remoteID string
		method, target, body   string
	}{
		{
			name: "by operation id", method: "GET", target: "/charges?op=acme%2F" + run + "%2Fcharge%2F1",
			config: "query: {url: '$/charges?op=${operation_id}'}",
		},
		{
			name: "by the key in the path", method: "GET", target: "/by-key/acme%2F" + run + "%2Fcharge%2F1",
			config: "query: {url: '$/by-key/${key}'}",
		},
		{
			name: "by remote id", method: "GET", target: "/charges/ch_1", remoteID: "ch_1",
			config: "query: {url: '$/charges/${remote_id}'}",
		},
		{
			name: "by a search", method: "POST", target: "/search?limit=1", body: `{"q":"` + operation + `"}`,
			config: "query: {method: POST, url: $/search, params: [{name: limit, value: '1'}], body: '{\"q\":${operation_id}}'}",
		},
		{
			name: "by a POST that must not repeat the request", method: "POST", target: "/search",
			config: "query: {method: POST, url: $/search}",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, says(200, `{"id":"ch_1"}`))
			req := request(`{"amount":1}`)
			req.RemoteID = tc.remoteID
			o := ask(t, tool(t, strings.ReplaceAll(base+tc.config, "$/", r.URL+"/")), req)
			mustBe(t, o, tools.Succeeded)
			if o.RemoteID != "ch_1" || string(o.Result) != `{"id":"ch_1"}` {
				t.Errorf("remote id %q, result %s", o.RemoteID, o.Result)
			}
			got := r.seen()[0]
			if got.Method != tc.method || got.Target != tc.target || got.Body != tc.body {
				t.Errorf("arrived %s %s %s", got.Method, got.Target, got.Body)
			}
			if got.Header.Get("Idempotency-Key") != "" {
				t.Error("the query carried the key: a remote could take it for the request")
			}
			if got.Header.Get("X-Operation-Id") != operation || got.Header.Get("Authorization") != "Bearer x" {
				t.Errorf("headers %v", got.Header)
			}
		})
	}
}

func TestTheAnswerToAQueryIsAboutTheOperationAndNeverAboutTheQuestion(t *testing.T) {
	t.Parallel()
	const found = "  found: /data/0\n"
	const owner = found + "  answers: [{pointer: /ref, in: ['${operation_id}'], means: succeeded}, {pointer: /ref, means: key_conflict}]\n"
	for _, tc := range []struct {
		name, config string
		status       int
		body         string
		want         tools.Kind
		result       string
	}{
		{"found", "", 200, `{"n":1}`, tools.Succeeded, `{"n":1}`},
		{"not found", "", 404, `{}`, tools.Absent, ``},
		{"gone", "", 410, `{}`, tools.Unknown, ``},
		{"at work", "", 202, `{}`, tools.InProgress, ``},
		{"throttled", "", 429, `{}`, tools.Unknown, ``},
		{"credentials refused", "", 401, `{}`, tools.Unknown, ``},
		{"bad question", "", 400, `{}`, tools.Unknown, ``},
		{"server error", "", 500, `{}`, tools.Unknown, ``},
		{"a redirect", "", 302, `{}`, tools.Unknown, ``},

		{"in a list", found, 200, `{"data":[{"n":9007199254740993}]}`, tools.Succeeded, `{"n":9007199254740993}`},
		{"an empty list", found, 200, `{"data":[]}`, tools.Absent, ``},
		{"no list", found, 200, `{"other":1}`, tools.Absent, ``},
		{"null in a list", found, 200, `{"data":[null]}`, tools.Absent, ``},
		{"a page instead of a list", found, 200, `<html>`, tools.Unknown, ``},
		{"half a list", found, 200, `{"data":[`, tools.Unknown, ``},
		{"an error with a list", found, 500, `{"data":[{}]}`, tools.Unknown, ``},

		{"ours", owner, 200, `{"data":[{"ref":"` + operation + `"}]}`, tools.Succeeded, `{"ref":"` + operation + `"}`},
		{"another's", owner, 200, `{"data":[{"ref":"acme/other"}]}`, tools.KeyConflict, ``},
		{"nobody's", owner, 200, `{"data":[]}`, tools.Absent, ``},
		{"a state", "  answers: [{pointer: /state, in: [failed], means: rejected}]\n", 200, `{"state":"failed"}`, tools.Rejected, `{"state":"failed"}`},
		{"404 that is no statement", "  answers: [{status: [404], means: unknown}]\n", 404, `{}`, tools.Unknown, ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, says(tc.status, tc.body, "Retry-After", "7"))
			o := ask(t, tool(t, "url: http://127.0.0.1:1/\ncapabilities: {class: operation_query}\nquery:\n  url: "+r.URL+"/\n"+tc.config), request(`{}`))
			mustBe(t, o, tc.want)
			if string(o.Result) != tc.result {
				t.Errorf("result %s, want %s", o.Result, tc.result)
			}
			if o.RetryAfter != 7*time.Second {
				t.Errorf("delay %s", o.RetryAfter)
			}
		})
	}
}

func TestAQueryThatCannotBeAskedIsNoProof(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, query string }{
		{"nobody there", "url: http://127.0.0.1:1/"},
		{"no remote id yet", "url: 'http://127.0.0.1:1/${remote_id}'"},
		{"a request without the member", "url: 'http://127.0.0.1:1/${request/id}'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := ask(t, tool(t, "url: http://127.0.0.1:1/\ncapabilities: {class: operation_query}\nquery:\n  "+tc.query), request(`{}`))
			mustBe(t, o, tools.Unknown)
		})
	}
}

// A remote whose search lags behind its writes: the call times out, the effect
// comes later, and for a while the query finds nothing. The capabilities, not
// the adapter, say what that nothing is worth.
func TestALaggingQueryFindsNothingAndThenTheEffect(t *testing.T) {
	t.Parallel()
	var visible atomic.Bool
	committed := make(chan struct{})
	r := serve(t, func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.Method == http.MethodPost:
			<-req.Context().Done() // the caller gives up first
			close(committed)
		case !visible.Load():
			says(404, `{}`)(w, req)
		default:
			says(200, `{"id":"vpc-1"}`)(w, req)
		}
	})
	made := tool(t, yamlf(`
url: %[1]s/vpcs
timeout: 100ms
remote_id: /id
query: {url: "%[1]s/vpcs?tag=${operation_id}"}
capabilities: {class: operation_query, settle: 6s, absence_is_proof: true}
`, r.URL))

	mustBe(t, call(t, made, request(`{}`)), tools.Unknown)
	<-committed
	early := ask(t, made, request(`{}`))
	mustBe(t, early, tools.Absent)
	facts := tools.Facts{Basis: tools.Unknown, CoversAll: true, RunLive: true, Asked: early.Kind, SettleLeft: 5 * time.Second}
	if step := tools.Converge(made.Capabilities, facts); step.Do != tools.ActionWait {
		t.Errorf("inside the settle window the next step is %s", step.Do)
	}
	visible.Store(true)
	late := ask(t, made, request(`{}`))
	mustBe(t, late, tools.Succeeded)
	if late.RemoteID != "vpc-1" {
		t.Errorf("remote id %q", late.RemoteID)
	}
	posts := 0
	for _, a := range r.seen() {
		if a.Method == http.MethodPost {
			posts++
		}
	}
	if posts != 1 {
		t.Errorf("the remote saw %d POSTs", posts)
	}
}

func TestAToolWithoutAQueryHasNoMethodForIt(t *testing.T) {
	t.Parallel()
	if _, can := tool(t, "url: http://127.0.0.1:1/").Adapter.(tools.Querier); can {
		t.Error("a tool that cannot be asked says that it can")
	}
	made := tool(t, "url: http://127.0.0.1:1/\nquery: {url: http://127.0.0.1:1/}\ncapabilities: {class: operation_query}\ntimeout: 3s")
	if _, can := made.Adapter.(tools.Querier); !can {
		t.Error("a tool that can be asked says that it cannot")
	}
	if got := made.Adapter.(interface{ RequestTimeout() time.Duration }).RequestTimeout(); got != 3*time.Second {
		t.Errorf("request timeout %s", got)
	}
}
