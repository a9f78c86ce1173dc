package httptool_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/httptool"
)

func TestAMistakeIsRefusedByTheNameOfItsKey(t *testing.T) {
	t.Parallel()
	const url = "url: http://127.0.0.1/x\n"
	for _, tc := range []struct{ name, config, want string }{
		{"no url", "method: POST", "url: is missing"},
		{"another scheme", "url: ftp://host/x", "url: must begin with http"},
		{"no host", "url: http:///x", "url: has no host"},
		{"a password in the url", "url: http://me:secret@host/x", "url: must not hold a password"},
		{"a host from the request", "url: 'http://${request/host}/x'", "url: has a placeholder in its host"},
		{"a host that a placeholder continues", "url: 'http://host.${request/host}/x'", "url: has a placeholder in its host"},
		{"a scheme from the request", "url: '${request/url}'", "url: must begin with http"},
		{"a fragment", "url: http://host/x#y", "url: has a fragment"},
		{"an open placeholder", "url: 'http://host/${run_id'", "url: placeholder"},
		{"an unknown placeholder", "url: 'http://host/${attempt}'", "url: placeholder ${attempt} is not one of"},
		{"a remote id before there is one", "url: 'http://host/${remote_id}'", "url: placeholder ${remote_id}"},
		{"a broken pointer", "url: 'http://host/${request/a~2}'", "url: "},
		{"a pointer into an id", "url: 'http://host/${run_id/x}'", "only ${request/...} takes a pointer"},
		{"a method of the transport", url + "method: CONNECT", "method:"},
		{"a method in lower case", url + "method: post", "method:"},
		{"no header name", url + "headers: [{value: x}]", "headers[0].name: is missing"},
		{"no token", url + "headers: [{name: 'a b', value: x}]", "headers[0].name:"},
		{"a header of the connection", url + "headers: [{name: transfer-encoding, value: chunked}]", "headers[0].name: transfer-encoding belongs"},
		{"a header that adds a wait", url + "headers: [{name: Expect, value: 100-continue}]", "headers[0].name: Expect belongs"},
		{"a content type as a header", url + "headers: [{name: Content-Type, value: x}]", "set content_type instead"},
		{"two values", url + "headers: [{name: A, value: x, value_env: Y}]", "headers[0]: has more than one of"},
		{"no parameter name", url + "params: [{value: x}]", "params[0].name: is missing"},
		{"a body that is no JSON", url + "body: '{\"a\": }'", "body: is not JSON"},
		{"a body of unknown type", url + "content_type: text/xml\nbody: x", "content_type:"},
		{"a form without a body", url + "content_type: application/x-www-form-urlencoded", "body: is missing"},
		{"a field without a body", url + "method: DELETE\nkey: {field: id}", "key.field: needs a body"},
		{"a field of a form", url + "content_type: application/x-www-form-urlencoded\nbody: a=1\nrun_id: {field: id}", "run_id.field: needs a body"},
		{"a key of no format", url + "key: {format: base58}", "key.format:"},
		{"a key that could collide", url + "key: {format: short, length: 8}", "key.length:"},
		{"an identity in no header", url + "operation_id: {header: 'a b'}", "operation_id.header:"},
		{"a rule without a meaning", url + "answers: [{status: [200]}]", "answers[0].means:"},
		{"a rule that proves absence by a call", url + "answers: [{status: [404], means: absent}]", "answers[0].means:"},
		{"a rule that fits everything", url + "answers: [{means: unknown}]", "answers[0]: has neither status nor pointer"},
		{"a rule for what is no answer", url + "answers: [{status: [100], means: unknown}]", "answers[0].status: 100"},
		{"a rule with a broken pointer", url + "answers: [{pointer: id, means: unknown}]", "answers[0].pointer:"},
		{"a rule with an unknown placeholder", url + "answers: [{pointer: /id, in: ['${nobody}'], means: unknown}]", "answers[0].in[0]:"},
		{"a broken result", url + "result: data", "result:"},
		{"a broken remote id", url + "remote_id: data", "remote_id:"},
		{"a query without a url", url + "query: {method: GET}\ncapabilities: {class: operation_query}", "query.url: is missing"},
		{"a query that was not executed", url + "query: {url: http://h/, answers: [{status: [429], means: not_executed}]}\ncapabilities: {class: operation_query}", "query.answers[0].means:"},
		{"a query with a broken found", url + "query: {url: http://h/, found: data}\ncapabilities: {class: operation_query}", "query.found:"},
		{"a class of its own", url + "capabilities: {class: exactly_once}", "capabilities: class:"},
		{"a query that is not promised", url + "query: {url: http://h/}", "capabilities: class:"},
		{"a promise without a query", url + "capabilities: {class: operation_query}", "capabilities: class:"},
		{"a name without a place", url + "query: {url: http://h/}\ncapabilities: {class: deterministic_id}", "key: a tool of class"},
		{"a retention that no retry can use", url + "capabilities: {class: idempotency_key, retention: 30s}", "capabilities: retention:"},
		{"less than a millisecond", url + "capabilities: {max_request: 60000000001ns}", "capabilities.max_request: "},
		{"a timeout beyond what a request may take", url + "timeout: 2m", "capabilities.max_request: must be at least timeout"},
		{"no timeout", url + "timeout: 0s", "timeout:"},
		{"a negative pause", url + "keep_alive: -1s", "keep_alive:"},
		{"no answer at all", url + "max_answer: 0", "max_answer:"},
		{"half a certificate", url + "tls: {cert_file: x}", "tls: cert_file and key_file"},
		{"evidence of no header", url + "evidence_headers: ['']", "evidence_headers[0]:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := httptool.Factory()
			_, err := f.Describe(decode(t, tc.config))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if _, _, err2 := f.New("x", decode(t, tc.config), tools.Deps{}); err2 == nil || err != nil && err2.Error() != err.Error() {
				t.Errorf("New says %v, Describe says %v", err2, err)
			}
		})
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := httptool.Factory().Describe(decode(t, "method: X\nresult: y\ncapabilities: {class: z, on_cancel: w}"))
	for _, want := range []string{"method:", "url:", "result:", "capabilities: class:", "capabilities: on_cancel:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

// A process that only plans operations knows what its tools promise without
// being trusted with their credentials.
func TestWhatAToolPromisesIsKnownWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "nowhere")
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, config, want string }{
		{"a variable", "headers: [{name: A, value_env: TEST_NO_SUCH_VARIABLE}]", "headers[0] (A): environment variable TEST_NO_SUCH_VARIABLE is empty"},
		{"a file", "params: [{name: a, value_file: " + missing + "}]", "params[0] (a): read secret:"},
		{"a file of the query's", "query: {url: http://h/, headers: [{name: A, value_file: " + missing + "}]}\ncapabilities: {class: operation_query}", "query.headers[0] (A):"},
		{"no authority", "tls: {ca_file: " + missing + "}", "tls.ca_file:"},
		{"no certificate", "tls: {ca_file: " + junk + "}", "holds no certificate"},
		{"no key pair", "tls: {cert_file: " + junk + ", key_file: " + junk + "}", "tls.cert_file:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := httptool.Factory()
			if _, err := f.Describe(decode(t, "url: http://127.0.0.1/\n"+tc.config)); err != nil {
				t.Errorf("Describe: %v", err)
			}
			_, _, err := f.New("x", decode(t, "url: http://127.0.0.1/\n"+tc.config), tools.Deps{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New: %v, want %q", err, tc.want)
			}
		})
	}
}

func TestADescribedToolPromisesWhatItWasConfiguredTo(t *testing.T) {
	t.Parallel()
	got, err := httptool.Factory().Describe(decode(t, `
url: http://127.0.0.1/
query: {url: http://127.0.0.1/}
capabilities:
  class: idempotency_key
  retention: 24h
  max_request: 30s
  settle: 6s
  absence_is_proof: true
  rejects_mismatch: true
  on_cancel: complete
`))
	want := tools.Capabilities{
		Class: tools.ClassIdempotencyKey, Query: true, RetentionMS: 86_400_000, MaxRequestMS: 30_000,
		SettleMS: 6_000, AbsenceIsProof: true, RejectsMismatch: true, OnCancel: tools.OnCancelComplete,
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}
