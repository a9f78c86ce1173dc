package httptool_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/tools"
)

// The numbers that a float64 would change.
const bigNumbers = `{"a":9007199254740993,"b":[1499366092322157987,18446744073709551615],` +
	`"c":{"d":12345678901234567890123,"e":-9007199254740993,"f":50000.0000000000000001,"g":1e-7,"h":0.1}}`

func TestTheOperationsRequestReachesTheRemoteByteForByte(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"big numbers": bigNumbers,
		"HTML":        `{"html":"<a href='x'>&</a>"}`,
		"escapes":     `{"text":"\u001f\"\\\u2028"}`,
		"no object":   `[1,"two",null]`,
		"null":        `null`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, says(201, `{}`))
			mustBe(t, call(t, tool(t, "url: "+r.URL+"/x"), request(body)), tools.Succeeded)
			got := r.seen()[0]
			if got.Body != body {
				t.Errorf("sent\n %s\narrived\n %s", body, got.Body)
			}
			if got.Header.Get("Accept-Encoding") != "" {
				t.Error("a compressed answer was asked for, whose size nobody limits")
			}
			if got.Method != http.MethodPost || got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s", got.Method, got.Header.Get("Content-Type"))
			}
		})
	}
}

func TestIdentitiesGoWhereTheConfigurationSays(t *testing.T) {
	t.Parallel()
	const escaped = "acme%2F0197f5d2-7d8e-4a43-9d2b-1f2c3d4e5f60%2Fcharge%2F1"
	for _, tc := range []struct {
		name, config, body string
		target, sent       string
		header             map[string]string
	}{
		{
			name: "by default in headers", body: `{"a":1}`, sent: `{"a":1}`, target: "/x",
			header: map[string]string{"X-Operation-Id": operation, "X-Run-Id": run, "Idempotency-Key": ""},
		},
		{
			name:   "a key by default in its usual header",
			config: "capabilities: {class: idempotency_key, retention: 24h}",
			body:   `{}`, sent: `{}`, target: "/x",
			header: map[string]string{"Idempotency-Key": operation},
		},
		{
			name: "in parameters", body: `{}`, sent: `{}`,
			config: "operation_id: {header: '', param: op}\nrun_id: {param: run}\nkey: {param: k}",
			target: "/x?op=" + escaped + "&run=" + run + "&k=" + escaped,
			header: map[string]string{"X-Operation-Id": "", "X-Run-Id": run},
		},
		{
			name: "in fields", body: `{"a":9007199254740993}`, target: "/x",
			config: "operation_id: {field: op}\nrun_id: {header: '', field: run}\nkey: {field: id}",
			sent:   `{"a":9007199254740993,"op":"` + operation + `","run":"` + run + `","id":"` + operation + `"}`,
			header: map[string]string{"X-Operation-Id": operation, "X-Run-Id": ""},
		},
		{
			name: "in a field of an empty object", body: ` { } `, target: "/x",
			config: "key: {field: id}", sent: ` { "id":"` + operation + `"} `,
		},
		{
			name: "a UUID", body: `{}`, sent: `{}`, target: "/x", config: "key: {header: K, format: uuid}",
			header: map[string]string{"K": "f8c57110-057f-8b0a-a909-b4cd27506b04"},
		},
		{
			name: "letters and digits", body: `{}`, sent: `{}`, target: "/x", config: "key: {header: K, format: short, length: 26}",
			header: map[string]string{"K": "7dcxceafp65qvkijwtgsoudlas"},
		},
		{
			name: "a structured string", body: `{}`, sent: `{}`, target: "/x", config: "key: {header: K, format: quoted}",
			header: map[string]string{"K": `"` + operation + `"`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, says(200, `{}`))
			mustBe(t, call(t, tool(t, "url: "+r.URL+"/x\n"+tc.config), request(tc.body)), tools.Succeeded)
			got := r.seen()[0]
			if got.Target != tc.target || got.Body != tc.sent {
				t.Errorf("arrived %s with %s\nwant    %s with %s", got.Target, got.Body, tc.target, tc.sent)
			}
			for name, want := range tc.header {
				if got := got.Header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestPlaceholdersCannotLeaveTheirPlace(t *testing.T) {
	t.Parallel()
	const body = `{"id":"a/b?c#d e","amount":9007199254740993,"name":"\"}, \"x\": {","list":[1.10,{"k":null}],"yes":true,"star":"ü*&=+"}`
	for _, tc := range []struct{ name, config, target, sent string }{
		{
			"in a path", "url: $/v1/${request/id}/charges/${operation_id}",
			"/v1/a%2Fb%3Fc%23d%20e/charges/acme%2F0197f5d2-7d8e-4a43-9d2b-1f2c3d4e5f60%2Fcharge%2F1", body,
		},
		{"in a query", "url: $/v1?q=${request/star}&n=${request/amount}&y=${request/yes}", "/v1?q=%C3%BC%2A%26%3D%2B&n=9007199254740993&y=true", body},
		{"in parameters", "url: $/v1?z=1\nparams: [{name: 'a&b', value: 'x ${request/id}'}]", "/v1?z=1&a%26b=x+a%2Fb%3Fc%23d+e", body},
		{
			"in JSON", `url: $/v1
body: '{"n": ${request/amount}, "l": ${request/list}, "s": ${request/name}, "t": "ref \"${request/name}\" of ${request/amount} <${request/star}>", "all": ${request}}'`,
			"/v1",
			`{"n": 9007199254740993, "l": [1.10,{"k":null}], "s": "\"}, \"x\": {", "t": "ref \"\"}, \"x\": {\" of 9007199254740993 <ü*&=+>", "all": ` + body + `}`,
		},
		{
			"in a form", "url: $/v1\ncontent_type: application/x-www-form-urlencoded\nbody: amount=${request/amount}&name=${request/name}",
			"/v1", "amount=9007199254740993&name=%22%7D%2C+%22x%22%3A+%7B",
		},
		{"not at all", `url: $/v1` + "\n" + `body: '{"literal": "$${request}"}'`, "/v1", `{"literal": "${request}"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, says(200, `{}`))
			config := strings.Replace(tc.config, "url: $", "url: "+r.URL, 1)
			mustBe(t, call(t, tool(t, config), request(body)), tools.Succeeded)
			got := r.seen()[0]
			if got.Target != tc.target || got.Body != tc.sent {
				t.Errorf("arrived %s\n%s\nwant %s\n%s", got.Target, got.Body, tc.target, tc.sent)
			}
		})
	}
}

func TestARequestThatCannotBeMadeIsRefusedAndNothingIsSent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, config, body, says string }{
		{"missing member", "url: $/${request/id}", `{}`, "url: ${request/id}"},
		{"object in a path", "url: $/${request/id}", `{"id":{}}`, "not a string"},
		{"null in a path", "url: $/${request/id}", `{"id":null}`, "not a string"},
		{"nothing in a path", "url: $/customers/${request/id}", `{"id":""}`, "empty"},
		{"the folder above", "url: $/customers/${request/id}/x", `{"id":".."}`, "dot segment"},
		{"line break in a header", "url: $/\nheaders: [{name: X, value: '${request/id}'}]", `{"id":"a\r\nHost: b"}`, "line break"},
		{"object in a header", "url: $/\nheaders: [{name: X, value: '${request/id}'}]", `{"id":[]}`, "not a string"},
		{"object inside a JSON string", "url: $/\nbody: '{\"a\":\"${request/id}\"}'", `{"id":{}}`, "not a string"},
		{"number as a name", "url: $/\nbody: '{${request/id}: 1}'", `{"id":5}`, "not JSON"},
		{"field of a list", "url: $/\nkey: {field: id}", `[]`, "not a JSON object"},
		{"field of null", "url: $/\nkey: {field: id}", `null`, "not a JSON object"},
		{"field that is there", "url: $/\nkey: {field: id}", `{"id":"mine"}`, "already"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := serve(t, says(200, `{}`))
			made := tool(t, strings.Replace(tc.config, "url: $", "url: "+r.URL, 1))
			req := request(tc.body)
			first := call(t, made, req)
			mustBe(t, first, tools.Rejected)
			if !strings.Contains(first.Detail, tc.says) || !strings.Contains(string(first.Result), "error") {
				t.Errorf("detail %q (result %s) does not say %q", first.Detail, first.Result, tc.says)
			}
			// Of an earlier attempt the same words prove nothing.
			req.Attempt = 2
			mustBe(t, call(t, made, req), tools.NotSent)
			if n := len(r.seen()); n != 0 {
				t.Errorf("the remote saw %d requests", n)
			}
		})
	}
}

func TestSecretsAreSentAndNeverKept(t *testing.T) {
	t.Setenv("TEST_TOOL_TOKEN", `env-s3cret "quoted"/+`)
	file := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("file-s3cret\n")
	r := serve(t, func(w http.ResponseWriter, req *http.Request) {
		// A remote that tells the world what it was told.
		w.Header().Set("X-Request-Id", req.Header.Get("Authorization"))
		says(200, `{"id":"id-`+req.Header.Get("X-Api-Key")+`","url":"`+req.RequestURI+`"}`)(w, req)
	})
	made := tool(t, yamlf(`
url: %s/x
remote_id: /id
headers:
	- {name: Authorization, prefix: "Bearer ", value_env: TEST_TOOL_TOKEN}
	- {name: X-Api-Key, value_file: %s}
params:
	- {name: token, value_env: TEST_TOOL_TOKEN}
`, r.URL, file))

	for _, secret := range []string{"file-s3cret", "rotated-s3cret"} {
		write(secret + "\n")
		o := call(t, made, request(`{}`))
		mustBe(t, o, tools.Succeeded)
		got := r.seen()[len(r.seen())-1]
		if got.Header.Get("Authorization") != `Bearer env-s3cret "quoted"/+` || got.Header.Get("X-Api-Key") != secret {
			t.Errorf("sent %q and %q", got.Header.Get("Authorization"), got.Header.Get("X-Api-Key"))
		}
		for name, kept := range map[string]string{
			"detail": o.Detail, "result": string(o.Result), "evidence": string(o.Answer), "remote id": o.RemoteID,
		} {
			if strings.Contains(kept, "s3cret") {
				t.Errorf("the %s keeps a secret: %s", name, kept)
			}
		}
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	before := len(r.seen())
	mustBe(t, call(t, made, request(`{}`)), tools.NotSent)
	if len(r.seen()) != before {
		t.Error("a request was sent without its credential")
	}
}
