package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const hunter = "hunter2"

func TestASecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	s := NewSecret(hunter)
	type exported struct{ S Secret }
	type hidden struct{ s Secret }
	var printed strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(verb, s); got != masked {
			t.Errorf("%s prints %q", verb, got)
		}
	}
	if j, err := json.Marshal(exported{s}); err != nil || string(j) != `{"S":"***"}` {
		t.Errorf("JSON is %s %v", j, err)
	}
	if y, err := yaml.Marshal(exported{s}); err != nil || string(y) != "s: '***'\n" {
		t.Errorf("YAML is %s %v", y, err)
	}
	for _, v := range []any{s, &s, exported{s}, &exported{s}, hidden{s}, &hidden{s}, []Secret{s}, map[string]Secret{"a": s}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			fmt.Fprintf(&printed, verb+"\n", v)
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", v)
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "v", v)
		printed.Write(log.Bytes())
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		printed.Write(j)
	}
	y, err := yaml.Marshal(exported{s})
	if err != nil {
		t.Fatal(err)
	}
	printed.Write(y)
	printed.WriteString(fmt.Errorf("login: %v", s).Error())
	for _, form := range []string{hunter, fmt.Sprintf("%x", hunter), fmt.Sprintf("%X", hunter)} {
		if strings.Contains(printed.String(), form) {
			t.Errorf("printed %q in:\n%s", form, printed.String())
		}
	}
	if s.Reveal() != hunter {
		t.Error("lost the text itself")
	}
	if !strings.Contains(printed.String(), masked) {
		t.Error("nothing was printed at all")
	}
}

func TestMaskDSN(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, dsn, want string }{
		{"url", "postgres://app:hunter2@db:5432/app?sslmode=verify-full", "postgres://app:***@db:5432/app?sslmode=verify-full"},
		{"no password", "postgres://app@db/app", "postgres://app@db/app"},
		{"empty password", "postgres://app:@db/app", "postgres://app:***@db/app"},
		{"no user", "postgres://db/app", "postgres://db/app"},
		{"several hosts", "postgres://app:hunter2@a:1,b:2/app", "postgres://app:***@a:1,b:2/app"},
		{"at sign in the password", "postgres://app:hun@ter2@db/app", "postgres://app:***@db/app"},
		{"colon in the password", "postgres://app:hunter2:x@db/app", "postgres://app:***@db/app"},
		{"unescaped slash in the password", "postgres://app:hun/ter2@db/app", "***"},
		{"unescaped question mark in the password", "postgres://app:hun?ter2@db/app", "***"},
		{"as a parameter", "postgres://db/app?user=a&password=hunter2&sslpassword=hunter2&pass%77ord=hunter2", "postgres://db/app?user=a&password=***&sslpassword=***&pass%77ord=***"},
		{"keywords", "host=db user=app password=hunter2 dbname=app", "host=db user=app password=*** dbname=app"},
		{"blanks around the equals sign", "host = db password = hunter2 dbname = app", "host=db password=*** dbname=app"},
		{"quoted", `password='hun ter2\' x' host=db`, "password=*** host=db"},
		{"escaped blank", `password=hun\ ter2 host=db`, "password=*** host=db"},
		{"open quote", `host=db password='hunter2`, "***"},
		{"no keyword", "hunter2", "***"},
		{"empty", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := MaskDSN(c.dsn); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzMaskDSNHidesThePassword(f *testing.F) {
	f.Add("app", "hunter2", "db/app")
	f.Add("app", "a/b?c#d", "db")
	f.Fuzz(func(t *testing.T, user, password, rest string) {
		// Only passwords that the other parts cannot contain by themselves.
		secret := "s3cr3t" + password + "s3cr3t"
		if strings.ContainsAny(user+rest, "@:") || strings.Contains(user, "/") {
			return // Not the URL that is meant.
		}
		if got := MaskDSN("postgres://" + user + ":" + secret + "@" + rest); strings.Contains(got, "s3cr3t") {
			t.Errorf("printed %q", got)
		}
		quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(secret)
		if got := MaskDSN("host=db password='" + quoted + "' user=app"); strings.Contains(got, "s3cr3t") {
			t.Errorf("printed %q", got)
		}
	})
}

func TestEffectiveShowsNoSecret(t *testing.T) {
	t.Parallel()
	c, err := Load(Options{
		File: write(t, `
database:
  roles: {worker: {dsn: "postgres://w:hunter2@db/x"}}
tools:
  - name: charge
    kind: http
    config:
      url: https://user:hunter2@example.com/{{id}}
      api_key: hunter2
      password_file: /run/secrets/password
      token_env: CHARGE_TOKEN
      headers:
        - {name: Authorization, value: Bearer hunter2}
        - {name: X-Kind, value: visible}
      auth: &a {client_secret: hunter2}
      again: *a
      tokens: [hunter2, hunter2]
`),
		Environ: []string{"LEASEHOLD_DATABASE_DSN=host=db password=hunter2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := c.EffectiveTools()
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%v\n%+v\n%#v\n%s", c.Effective(), c.Database, c.Database, tools)
	if strings.Contains(all, hunter) {
		t.Errorf("printed the secret:\n%s", all)
	}
	for _, want := range []string{
		"postgres://w:***@db/x", "host=db password=***", "/run/secrets/password", "CHARGE_TOKEN",
		"visible", "user:***@example.com",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("does not show %s:\n%s", want, all)
		}
	}
}

func TestAProblemWithASecretDoesNotShowIt(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"a number":  "database: {dsn: 12345678}",
		"a list":    "database: {dsn: [hunter2]}",
		"a section": "database: {dsn: {password: hunter2}}",
	} {
		got := problemsOf(t, Options{File: write(t, content)})
		if len(got) != 1 || strings.Contains(got[0], hunter) || strings.Contains(got[0], "12345678") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
