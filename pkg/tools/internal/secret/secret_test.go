package secret_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/leasehold/leasehold/pkg/tools/internal/secret"
)

const key = `s3cr"t key`

func TestASecretIsCutOutInEachOfItsForms(t *testing.T) {
	t.Parallel()
	var r secret.Redactor
	r.Learn(key)
	for _, text := range []string{key, `{"a":"s3cr\"t key"}`, "?k=s3cr%22t+key&b=1"} {
		if got := r.Text("x " + text); bytes.Contains([]byte(got), []byte("s3cr")) {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestHalfASecretAtACutIsCutOutToo(t *testing.T) {
	t.Parallel()
	var r secret.Redactor
	r.Learn("abcdefgh")
	for n := 1; n < 8; n++ {
		if got := string(r.Head([]byte("begin " + "abcdefgh"[:n]))); got != "begin " {
			t.Errorf("the head ends with %q", got)
		}
		if got := string(r.Tail([]byte("abcdefgh"[n:] + " end"))); got != " end" {
			t.Errorf("the tail begins with %q", got)
		}
	}
}

func TestASecretThatBeginsAnotherDoesNotUncoverItsRest(t *testing.T) {
	t.Parallel()
	var r secret.Redactor
	r.Learn("password")
	r.Learn("password-of-root")
	if got := r.Text("password-of-root"); got != "***" {
		t.Errorf("left %q", got)
	}
}

func TestAFileIsReadEachTimeAndWithoutItsLastLineBreak(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	source, err := secret.From("", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first", "second"} {
		if err := os.WriteFile(path, []byte(want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := source(); err != nil || got != want {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
}

func TestASourceIsOneOfTwo(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"", ""}, {"A", "/b"}} {
		if _, err := secret.From(pair[0], pair[1]); err == nil {
			t.Errorf("%q was taken", pair)
		}
	}
}
