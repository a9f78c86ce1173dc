package callback_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools/callback"
)

const (
	operation = protocol.OperationID("acme/0190a6e0-7b1c-7c3e-8a53-5f0f3a9d2b11/charge/1")
	tool      = "payments.charge"
	body      = `{"operation_id":"acme/0190a6e0-7b1c-7c3e-8a53-5f0f3a9d2b11/charge/1","run_id":"0190a6e0-7b1c-7c3e-8a53-5f0f3a9d2b11","outcome":"succeeded"}`
)

func secret() []byte    { return []byte("0123456789abcdef0123456789abcdef") }
func signed() time.Time { return time.Unix(1796115650, 0) }

// Frozen: tools in other languages are written against it. The value was made
// with openssl, by the lines in docs/tools.md.
func TestTheSignatureIsTheOneThatOtherLanguagesMake(t *testing.T) {
	t.Parallel()
	const want = "v1=971523f8438b35015e4fe299498578c5fc91dfe0b08e31aa9cba46049eeb9195"
	if got := callback.Sign(secret(), tool, signed(), operation, []byte(body)); got != want {
		t.Errorf("signed %s, want %s", got, want)
	}
	const fingerprint = "8c20f1810ac0f5aac3c3e37aa3f3ba4bb62602a718e43c7d0d3e754d31dcc5a0"
	if got := callback.Fingerprint(tool, operation, []byte(body)); got != fingerprint {
		t.Errorf("fingerprint %s, want %s", got, fingerprint)
	}
}

// received is a request as it arrives.
type received struct {
	header http.Header
	id     protocol.OperationID
	body   string
	now    time.Time
}

func fresh() received {
	return received{
		header: http.Header{
			callback.HeaderTool:      {tool},
			callback.HeaderTimestamp: {strconv.FormatInt(signed().Unix(), 10)},
			callback.HeaderSignature: {callback.Sign(secret(), tool, signed(), operation, []byte(body))},
		},
		id: operation, body: body, now: signed(),
	}
}

func TestAMessageIsBelievedOnlyAsItWasSigned(t *testing.T) {
	t.Parallel()
	other := []byte("another secret of good length")
	old := callback.Sign(other, tool, signed(), operation, []byte(body))
	for _, c := range []struct {
		name  string
		spoil func(*received)
		want  error
	}{
		{"as it was signed", func(*received) {}, nil},
		{"a window later", func(r *received) { r.now = signed().Add(5 * time.Minute) }, nil},
		{"a window earlier", func(r *received) { r.now = signed().Add(-5 * time.Minute) }, nil},
		{"too late", func(r *received) { r.now = signed().Add(5*time.Minute + 1) }, callback.ErrStale},
		{"from the future", func(r *received) { r.now = signed().Add(-5*time.Minute - 1) }, callback.ErrStale},
		{"another time than was signed", func(r *received) {
			r.header.Set(callback.HeaderTimestamp, strconv.FormatInt(signed().Unix()+1, 10))
		}, callback.ErrSignature},
		{"the time spelt in another way", func(r *received) {
			r.header.Set(callback.HeaderTimestamp, "+"+strconv.FormatInt(signed().Unix(), 10))
		}, callback.ErrSignature},
		{"no time", func(r *received) { r.header.Del(callback.HeaderTimestamp) }, callback.ErrSignature},
		{"another body", func(r *received) { r.body = strings.Replace(body, "succeeded", "rejected", 1) }, callback.ErrSignature},
		{"one more byte", func(r *received) { r.body += "\n" }, callback.ErrSignature},
		{"another operation", func(r *received) { r.id = r.id[:len(r.id)-1] + "2" }, callback.ErrSignature},
		{"a line of the body in the id", func(r *received) {
			body := body + "\n" + body
			r.header.Set(callback.HeaderSignature, callback.Sign(secret(), tool, signed(), operation, []byte(body)))
			r.id = protocol.OperationID(string(operation) + "\n" + r.body)
		}, callback.ErrSignature},
		{"another tool", func(r *received) { r.header.Set(callback.HeaderTool, "payments.refund") }, callback.ErrSignature},
		{"two tools", func(r *received) { r.header.Add(callback.HeaderTool, tool) }, callback.ErrSignature},
		{"two times", func(r *received) { r.header.Add(callback.HeaderTimestamp, "1796115650") }, callback.ErrSignature},
		{"no signature", func(r *received) { r.header.Del(callback.HeaderSignature) }, callback.ErrSignature},
		{"an empty signature", func(r *received) { r.header.Set(callback.HeaderSignature, "v1=") }, callback.ErrSignature},
		{"another secret", func(r *received) { r.header.Set(callback.HeaderSignature, old) }, callback.ErrSignature},
		{"an unknown scheme", func(r *received) {
			r.header.Set(callback.HeaderSignature, strings.Replace(r.header.Get(callback.HeaderSignature), "v1", "v2", 1))
		}, callback.ErrSignature},
		{"beside one by an unknown secret", func(r *received) {
			r.header.Set(callback.HeaderSignature, old+", "+r.header.Get(callback.HeaderSignature))
		}, nil},
		{"among too many", func(r *received) {
			r.header.Set(callback.HeaderSignature, strings.Repeat(old+",", 4)+r.header.Get(callback.HeaderSignature))
		}, callback.ErrSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := fresh()
			c.spoil(&r)
			v := callback.Verifier{Tool: tool, Secrets: [][]byte{secret()}, Window: 5 * time.Minute}
			if err := v.Verify(r.header, r.id, []byte(r.body), r.now); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestEachSecretInForceIsBelievedAndNoOther(t *testing.T) {
	t.Parallel()
	next := []byte("the next secret, also long enough")
	for _, c := range []struct {
		name    string
		secrets [][]byte
		want    error
	}{
		{"before the other", [][]byte{secret(), next}, nil},
		{"after the other", [][]byte{next, secret()}, nil},
		{"retired", [][]byte{next}, callback.ErrSignature},
		{"none", nil, callback.ErrSignature},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := fresh()
			v := callback.Verifier{Tool: tool, Secrets: c.secrets, Window: time.Minute}
			if err := v.Verify(r.header, r.id, []byte(r.body), r.now); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// Whatever a file that turned out empty holds must not be a secret.
func TestAShortSecretIsNobodys(t *testing.T) {
	t.Parallel()
	for _, short := range []string{"", "\n", "fifteen letters"} {
		r := fresh()
		r.header.Set(callback.HeaderSignature, callback.Sign([]byte(short), tool, signed(), operation, []byte(body)))
		v := callback.Verifier{Tool: tool, Secrets: [][]byte{[]byte(short)}, Window: time.Minute}
		if err := v.Verify(r.header, r.id, []byte(r.body), r.now); !errors.Is(err, callback.ErrSignature) {
			t.Errorf("%q: %v", short, err)
		}
	}
}

func TestAMessageIsTheSameHoweverOftenItIsSigned(t *testing.T) {
	t.Parallel()
	first := callback.Fingerprint(tool, operation, []byte(body))
	for name, other := range map[string]string{
		"another body":      callback.Fingerprint(tool, operation, []byte(body+" ")),
		"another tool":      callback.Fingerprint("payments.refund", operation, []byte(body)),
		"another operation": callback.Fingerprint(tool, operation+"1", []byte(body)),
	} {
		if other == first {
			t.Errorf("%s: the same fingerprint", name)
		}
	}
}

// FuzzVerify: a message is believed if and only if one of its signatures is the
// one that the secret makes for exactly this message, at a time inside the
// window.
func FuzzVerify(f *testing.F) {
	right := fresh()
	f.Add(tool, "1796115650", right.header.Get(callback.HeaderSignature), string(operation), body, int64(0))
	f.Add(tool, "1796115650", right.header.Get(callback.HeaderSignature), string(operation), body, int64(301))
	f.Add(tool, "1796115650", "v1=00,v1=", string(operation), body, int64(0))
	f.Add("", "", "", "", "", int64(0))
	f.Add(tool+"\n1", "796115650", right.header.Get(callback.HeaderSignature), string(operation), body, int64(0))
	f.Fuzz(func(t *testing.T, named, at, signatures, id, text string, later int64) {
		header := http.Header{
			callback.HeaderTool: {named}, callback.HeaderTimestamp: {at}, callback.HeaderSignature: {signatures},
		}
		v := callback.Verifier{Tool: tool, Secrets: [][]byte{secret()}, Window: 5 * time.Minute}
		now := time.Unix(signed().Unix()+later%100_000, 0)
		err := v.Verify(header, protocol.OperationID(id), []byte(text), now)

		seconds, parse := strconv.ParseInt(at, 10, 64)
		want := callback.Sign(secret(), tool, time.Unix(seconds, 0), protocol.OperationID(id), []byte(text))
		made := false
		for given := range strings.SplitSeq(signatures, ",") {
			made = made || strings.EqualFold(strings.TrimPrefix(strings.TrimSpace(given), "v1="), strings.TrimPrefix(want, "v1="))
		}
		near := parse == nil && now.Unix()-seconds <= 300 && seconds-now.Unix() <= 300
		_, known := protocol.ParseOperationID(protocol.OperationID(id))
		if err == nil && (named != tool || parse != nil || known != nil || !made || !near) {
			t.Errorf("believed: tool %q at %q with %q about %q: %q", named, at, signatures, id, text)
		}
		if err != nil && named == tool && known == nil && signatures == want && strconv.FormatInt(seconds, 10) == at && near {
			t.Errorf("refused what was signed: %v", err)
		}
	})
}
