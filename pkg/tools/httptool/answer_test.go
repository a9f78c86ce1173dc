package httptool_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

const (
	classKey   = "capabilities: {class: idempotency_key, retention: 24h}\n"
	className  = "key: {field: id}\nquery: {url: 'http://127.0.0.1/'}\ncapabilities: {class: deterministic_id}\n"
	classQuery = "query: {url: 'http://127.0.0.1/'}\ncapabilities: {class: operation_query}\n"
)

func TestAnAnswerMeansWhatHTTPSaysUnlessARuleSaysOtherwise(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		config  string
		status  int
		body    string
		attempt int
		want    tools.Kind
	}{
		{name: "200", status: 200, want: tools.Succeeded},
		{name: "201", status: 201, want: tools.Succeeded},
		{name: "202", status: 202, want: tools.InProgress},
		{name: "204", status: 204, want: tools.Succeeded},
		{name: "301", status: 301, want: tools.Unknown},
		{name: "303", status: 303, want: tools.Unknown},
		{name: "307", status: 307, want: tools.Unknown},
		{name: "308", status: 308, want: tools.Unknown},
		{name: "400", status: 400, want: tools.Rejected},
		{name: "401", status: 401, want: tools.NotExecuted},
		{name: "402", status: 402, want: tools.Rejected},
		{name: "403", status: 403, want: tools.NotExecuted},
		{name: "404", status: 404, want: tools.Rejected},
		{name: "405", status: 405, want: tools.Rejected},
		{name: "407", status: 407, want: tools.NotExecuted},
		{name: "408", status: 408, want: tools.Unknown},
		{name: "409 of a tool without keys", status: 409, want: tools.Unknown},
		{name: "409 of a key", config: classKey, status: 409, want: tools.InProgress},
		{name: "409 of a name", config: className, status: 409, want: tools.Unknown},
		{name: "409 of a tool that can be asked", config: classQuery, status: 409, want: tools.Unknown},
		{name: "410", status: 410, want: tools.Rejected},
		{name: "412", config: className, status: 412, want: tools.Unknown},
		{name: "413", status: 413, want: tools.Rejected},
		{name: "415", status: 415, want: tools.Rejected},
		{name: "418", status: 418, want: tools.Unknown},
		{name: "422", status: 422, want: tools.Rejected},
		{name: "422 of a key, first attempt", config: classKey, status: 422, want: tools.Rejected},
		{name: "422 of a key, second attempt", config: classKey, status: 422, attempt: 2, want: tools.KeyConflict},
		{name: "404, second attempt", config: classKey, status: 404, attempt: 2, want: tools.Unknown},
		{name: "400, second attempt", config: classKey, status: 400, attempt: 2, want: tools.Rejected},
		{name: "425", status: 425, want: tools.Unknown},
		{name: "429", status: 429, want: tools.NotExecuted},
		{name: "500", status: 500, want: tools.Unknown},
		{name: "502", status: 502, want: tools.Unknown},
		{name: "503", status: 503, want: tools.Unknown},
		{name: "504", status: 504, want: tools.Unknown},

		{name: "503 with a contract", config: "answers: [{status: [503], means: not_executed}]", status: 503, want: tools.NotExecuted},
		{name: "a rule for another status", config: "answers: [{status: [500], means: rejected}]", status: 503, want: tools.Unknown},
		{name: "409 with a contract", config: classKey + "answers: [{status: [409], means: key_conflict}]", status: 409, want: tools.KeyConflict},
		{
			name: "200 that is a refusal", config: "answers: [{status: [200], pointer: /state, in: [FAILED, DENIED], means: rejected}]",
			status: 200, body: `{"state":"DENIED"}`, want: tools.Rejected,
		},
		{
			name: "200 that is not", config: "answers: [{status: [200], pointer: /state, in: [FAILED], means: rejected}]",
			status: 200, body: `{"state":"DONE"}`, want: tools.Succeeded,
		},
		{
			name: "the first rule that fits", status: 409, body: `{"error":{"code":"in_flight"}}`, want: tools.InProgress,
			config: "answers:\n- {status: [409], pointer: /error/code, in: [in_flight], means: in_progress}\n- {status: [409], means: key_conflict}",
		},
		{
			name: "the next one", status: 409, body: `{"error":{"code":"other"}}`, want: tools.KeyConflict,
			config: "answers:\n- {status: [409], pointer: /error/code, in: [in_flight], means: in_progress}\n- {status: [409], means: key_conflict}",
		},
		{name: "a pointer at any status", config: "answers: [{pointer: /pending, means: in_progress}]", status: 500, body: `{"pending":0}`, want: tools.InProgress},
		{name: "a pointer at null", config: "answers: [{pointer: /pending, means: in_progress}]", status: 200, body: `{"pending":null}`, want: tools.Succeeded},
		{name: "a number as it is written", config: "answers: [{pointer: /code, in: ['9007199254740993'], means: rejected}]", status: 200, body: `{"code":9007199254740993}`, want: tools.Rejected},
		{name: "not the number next to it", config: "answers: [{pointer: /code, in: ['9007199254740993'], means: rejected}]", status: 200, body: `{"code":9007199254740992}`, want: tools.Succeeded},
		{name: "a truth value", config: "answers: [{pointer: /ok, in: ['false'], means: rejected}]", status: 200, body: `{"ok":false}`, want: tools.Rejected},
		{name: "an object is no text", config: "answers: [{pointer: /ok, in: ['{}'], means: rejected}]", status: 200, body: `{"ok":{}}`, want: tools.Succeeded},
		{
			name: "a value that depends on the operation", config: "answers: [{pointer: /ref, in: ['x-${operation_id}'], means: rejected}]",
			status: 200, body: `{"ref":"x-` + operation + `"}`, want: tools.Rejected,
		},
		{
			name: "success by rule only", status: 200, body: `{"state":"??"}`, want: tools.Unknown,
			config: "answers:\n- {status: [200], pointer: /state, in: [DONE], means: succeeded}\n- {status: [200], means: unknown}",
		},
		{
			name: "a gateway's page", config: "answers: [{status: [200], pointer: /state, in: [FAILED], means: rejected}]",
			status: 200, body: `<html>Welcome</html>`, want: tools.Unknown,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, says(tc.status, tc.body, "Location", "http://127.0.0.1:1/"))
			req := request(`{}`)
			req.Attempt = max(tc.attempt, 1)
			o := call(t, tool(t, "url: "+r.URL+"/\n"+tc.config), req)
			mustBe(t, o, tc.want)
			if !strings.Contains(o.Detail, fmt.Sprint(tc.status)) {
				t.Errorf("detail %q does not name the status", o.Detail)
			}
			if n := len(r.seen()); n != 1 {
				t.Errorf("the remote saw %d requests", n)
			}
		})
	}
}

func TestTheDelayThatARemoteAsksForIsReadInBothForms(t *testing.T) {
	t.Parallel()
	// The remote's clock is wrong by a year, which must not matter.
	sent := time.Now().AddDate(1, 0, 0).UTC().Truncate(time.Second)
	date := func(d time.Duration) string { return sent.Add(d).Format(http.TimeFormat) }
	for _, tc := range []struct {
		name, value string
		want        time.Duration
	}{
		{"seconds", "120", 2 * time.Minute},
		{"no seconds", "0", 0},
		{"a date", date(90 * time.Second), 90 * time.Second},
		{"a date in the past", date(-time.Hour), 0},
		{"a date in another century", date(200 * 365 * 24 * time.Hour), 24 * time.Hour},
		{"endless seconds", "99999999999", 24 * time.Hour},
		{"negative seconds", "-5", 0},
		{"nonsense", "soon", 0},
		{"nothing", "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, says(429, `{}`, "Retry-After", tc.value, "Date", date(0)))
			o := call(t, tool(t, "url: "+r.URL+"/"), request(`{}`))
			mustBe(t, o, tools.NotExecuted)
			if o.RetryAfter != tc.want {
				t.Errorf("delay %s, want %s", o.RetryAfter, tc.want)
			}
		})
	}
}

func TestTheResultIsTheAnswerByteForByte(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, config, body, remoteID, want string
	}{
		{"big numbers", "remote_id: /a", bigNumbers, "9007199254740993", bigNumbers},
		{"what jsonb cannot hold", "", `{"a":"x\u0000y","b":"\ud800","c":"\\u0000","k\u0000":1}`, "", `{"a":"x\u0000y","b":"\ud800","c":"\\u0000","k\u0000":1}`},
		{"a part", "result: /data/0\nremote_id: /data/0/id", `{"data":[{"id":"ch_1","n":1.10}]}`, "ch_1", `{"id":"ch_1","n":1.10}`},
		{"a part that is not there", "result: /data", `{"other":1}`, "", ``},
		{"an object is no id", "remote_id: /id", `{"id":{}}`, "", `{"id":{}}`},
		{"nothing", "", ``, "", ``},
		{"text", "", "queued\n", "", `{"text":"queued\n"}`},
		{"half a JSON text", "", `{"id":`, "", `{"text":"{\"id\":"}`},
		{"bytes", "", "\xff\x00\x01", "", `{"base64":"/wAB"}`},
		{"too much", "max_answer: 10", `{"id":"0123456789"}`, "", `{"oversized":true,"limit":10}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, says(200, tc.body))
			o := call(t, tool(t, "url: "+r.URL+"/\n"+tc.config), request(`{}`))
			mustBe(t, o, tools.Succeeded)
			if string(o.Result) != tc.want || o.RemoteID != tc.remoteID {
				t.Errorf("result %s, remote id %q\nwant   %s, %q", o.Result, o.RemoteID, tc.want, tc.remoteID)
			}
		})
	}
}

func TestTheEvidenceSaysWhatHappenedAndIsStorable(t *testing.T) {
	t.Parallel()
	body := `{"text":"` + strings.Repeat("ü", 5000) + `"}`
	r := serve(t, says(500, body, "X-Request-Id", "req_7", "Set-Cookie", "session=s3cret", "X-Trace", "t-1"))
	o := call(t, tool(t, "url: "+r.URL+"/x\nevidence_headers: [X-Trace]"), request(`{}`))
	mustBe(t, o, tools.Unknown)
	var e struct {
		Method  string            `json:"method"`
		URL     string            `json:"url"`
		Sent    bool              `json:"sent"`
		Written int               `json:"written_bytes"`
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
		Length  int               `json:"body_bytes"`
		Cut     bool              `json:"body_cut"`
		Took    float64           `json:"took_ms"`
	}
	if err := json.Unmarshal(o.Answer, &e); err != nil {
		t.Fatal(err)
	}
	if e.Method != "POST" || e.URL != r.URL+"/x" || !e.Sent || e.Written == 0 || e.Status != 500 || e.Took <= 0 {
		t.Errorf("evidence %s", o.Answer)
	}
	if e.Length != len(body) || !e.Cut || len(e.Body) > 4100 {
		t.Errorf("%d of %d bytes kept, cut %t", len(e.Body), e.Length, e.Cut)
	}
	if e.Headers["X-Request-Id"] != "req_7" || e.Headers["X-Trace"] != "t-1" || e.Headers["Set-Cookie"] != "" {
		t.Errorf("headers %v", e.Headers)
	}
}

func TestEvidenceOfBytesHoldsNothingThatJSONBRefuses(t *testing.T) {
	t.Parallel()
	r := serve(t, says(500, "\x00\xff{\x00", "X-Request-Id", "a\xffb"))
	o := call(t, tool(t, "url: "+r.URL+"/"), request(`{}`))
	if text := string(o.Answer); strings.Contains(text, `\u0000`) || !json.Valid(o.Answer) {
		t.Errorf("evidence %s", text)
	}
}
