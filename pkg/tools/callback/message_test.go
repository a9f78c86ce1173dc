package callback_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/callback"
)

const run = "0190a6e0-7b1c-7c3e-8a53-5f0f3a9d2b11"

func message() callback.Message {
	id, err := protocol.ParseRunID(run)
	if err != nil {
		panic(err)
	}
	return callback.Message{
		OperationID: operation, RunID: id, Outcome: tools.Succeeded, RemoteID: "ch_1",
		Result: json.RawMessage(`{"amount":9007199254740993,"note":"\ud800"}`), RequestDigest: strings.Repeat("0a", 32),
	}
}

func TestWhatIsEncodedIsReadBack(t *testing.T) {
	t.Parallel()
	raw, err := message().Encode()
	if err != nil {
		t.Fatal(err)
	}
	m, err := callback.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := message()
	if string(m.Result) != string(want.Result) {
		t.Errorf("result %s, want %s", m.Result, want.Result)
	}
	m.Result, want.Result = nil, nil
	if m.OperationID != want.OperationID || m.RunID != want.RunID || m.Outcome != want.Outcome ||
		m.RemoteID != want.RemoteID || m.RequestDigest != want.RequestDigest {
		t.Errorf("read %+v, want %+v", m, want)
	}
}

func TestABodyThatCouldBeMisreadIsRefusedByItsKey(t *testing.T) {
	t.Parallel()
	const rest = `"operation_id":"` + string(operation) + `","run_id":"` + run + `"`
	for _, c := range []struct {
		name, body, want string
	}{
		{"nothing", ``, "not a JSON object"},
		{"a list", `[]`, "not a JSON object"},
		{"cut off", `{` + rest + `,"outcome":"succ`, "not JSON"},
		{"two objects", `{` + rest + `,"outcome":"succeeded"}{}`, "something follows"},
		{"a key twice", `{` + rest + `,"outcome":"succeeded","outcome":"rejected"}`, `"outcome" is there twice`},
		{"a misspelt key", `{` + rest + `,"outcome":"succeeded","digest":"00"}`, `unknown key "digest"`},
		{"a key in capitals", `{` + rest + `,"Outcome":"succeeded"}`, `unknown key "Outcome"`},
		{"no outcome", `{` + rest + `}`, "outcome must be"},
		{"perhaps", `{` + rest + `,"outcome":"unknown"}`, "outcome must be"},
		{"a number", `{` + rest + `,"outcome":1}`, "outcome must be text"},
		{"null", `{` + rest + `,"outcome":null}`, "outcome must be text"},
		{"no operation", `{"run_id":"` + run + `","outcome":"succeeded"}`, "operation_id"},
		{"an operation id in another spelling", `{"operation_id":"` + strings.ToUpper(string(operation)) + `","run_id":"` + run + `","outcome":"succeeded"}`, "operation_id"},
		{"no run", `{"operation_id":"` + string(operation) + `","outcome":"succeeded"}`, "run_id is missing"},
		{"no run id", `{"operation_id":"` + string(operation) + `","run_id":"first","outcome":"succeeded"}`, "run id"},
		{"a digest in capitals", `{` + rest + `,"outcome":"succeeded","request_digest":"` + strings.Repeat("0A", 32) + `"}`, "request_digest"},
		{"a remote id that no column holds", `{` + rest + `,"outcome":"succeeded","remote_id":"a\u0000"}`, "remote_id"},
		{"a remote id without end", `{` + rest + `,"outcome":"succeeded","remote_id":"` + strings.Repeat("x", 501) + `"}`, "remote_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := callback.Parse([]byte(c.body))
			if !errors.Is(err, protocol.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestASignedRequestPassesItsVerifier(t *testing.T) {
	t.Parallel()
	req, err := callback.NewRequest(t.Context(), "https://leasehold.example/", tool, secret(), signed(), message())
	if err != nil {
		t.Fatal(err)
	}
	if req.URL.String() != "https://leasehold.example/callbacks/"+string(operation) {
		t.Errorf("goes to %s", req.URL)
	}
	sent, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	v := callback.Verifier{Tool: tool, Secrets: [][]byte{secret()}, Window: callback.DefaultWindow}
	if err := v.Verify(req.Header, operation, sent, signed()); err != nil {
		t.Error(err)
	}
}

func TestAMessageThatWouldBeRefusedIsNotSent(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*callback.Message){
		"no run":          func(m *callback.Message) { m.RunID = protocol.RunID{} },
		"another outcome": func(m *callback.Message) { m.Outcome = tools.NotExecuted },
		"no JSON":         func(m *callback.Message) { m.Result = json.RawMessage(`{`) },
		"too large": func(m *callback.Message) {
			m.Result = json.RawMessage(`"` + strings.Repeat("x", callback.MaxBody) + `"`)
		},
	} {
		m := message()
		spoil(&m)
		if _, err := m.Encode(); !errors.Is(err, protocol.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParse: what is read can be written, and is then read as the same.
func FuzzParse(f *testing.F) {
	raw, err := message().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(body))
	f.Add([]byte(`{"result":[[[{}]]],"outcome":"in_progress"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := callback.Parse(raw)
		if err != nil {
			if !errors.Is(err, protocol.ErrInvalid) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		m.Result = nil // kept as it was written, which need not be as we write
		again, err := m.Encode()
		if err != nil {
			t.Fatalf("read and not written: %v", err)
		}
		back, err := callback.Parse(again)
		if err != nil || back.OperationID != m.OperationID || back.RunID != m.RunID || back.Outcome != m.Outcome ||
			back.RemoteID != m.RemoteID || back.RequestDigest != m.RequestDigest {
			t.Errorf("read %+v, then %+v, %v", m, back, err)
		}
	})
}
