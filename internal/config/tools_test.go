package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

type fakeSettings struct {
	URL     string            `yaml:"url"`
	Timeout time.Duration     `yaml:"timeout"`
	Headers map[string]string `yaml:"headers"`
	Retries int               `yaml:"retries"`
	Codes   []int             `yaml:"codes"`
	Nested  struct {
		fakePart `yaml:",inline"`

		Own int `yaml:"own"`
	} `yaml:"nested"`
}

type fakePart struct {
	A int `yaml:"a"`
	B int `yaml:"b"`
}

type fakeAdapter struct{ settings *fakeSettings }

func (fakeAdapter) Call(context.Context, tools.Request) tools.Outcome {
	return tools.Outcome{Kind: tools.Unknown}
}

func (a fakeAdapter) RequestTimeout() time.Duration { return a.settings.Timeout }

// factory makes adapters that keep their settings.
func factory() tools.Factory {
	return tools.Factory{
		Kind: "fake",
		Config: func() any {
			s := &fakeSettings{
				Timeout: 30 * time.Second, Retries: 3, Codes: []int{1, 2, 3},
				Headers: map[string]string{"default": "x"},
			}
			s.Nested.A, s.Nested.Own = 1, 2
			return s
		},
		New: func(name string, cfg any, _ tools.Deps) (tools.Adapter, tools.Capabilities, error) {
			s := cfg.(*fakeSettings)
			if s.URL == "" {
				return nil, tools.Capabilities{}, errors.Join(errors.New("url is missing"), fmt.Errorf("%s is unusable", name))
			}
			return fakeAdapter{s}, tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 1000}, nil
		},
	}
}

func build1(t *testing.T, content string, set ...string) (*tools.Registry, []string) {
	t.Helper()
	name := write(t, content)
	cfg, err := Load(Options{File: name, Set: set})
	var reg *tools.Registry
	if err == nil {
		reg, err = BuildRegistry(cfg, []tools.Factory{factory()}, tools.Deps{})
	}
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("not an *Error: %v", err)
	}
	var out []string
	if e != nil {
		for _, p := range e.Problems {
			out = append(out, strings.ReplaceAll(p.String(), name, "f"))
		}
	}
	return reg, out
}

func TestAToolIsBuiltFromItsSectionOverItsKindsDefaults(t *testing.T) {
	t.Parallel()
	reg, problems := build1(t, `
tools:
  - name: charge
    kind: fake
    slots: 3
    config:
      url: https://example.com
      timeout: 20s
      headers: {X-Tenant: A, GitHub.com: B}
      codes: [9]
      nested: {b: 7}
  - {name: mail, kind: fake, config: {url: x}}
`)
	if problems != nil {
		t.Fatal(problems)
	}
	charge, _ := reg.Get("charge")
	s := charge.Adapter.(fakeAdapter).settings
	if charge.Slots != 3 || charge.Kind != "fake" || s.Timeout != 20*time.Second || s.Retries != 3 {
		t.Errorf("got %+v with %+v", charge, s)
	}
	if len(s.Headers) != 2 || s.Headers["X-Tenant"] != "A" || s.Headers["GitHub.com"] != "B" {
		t.Errorf("maps were changed or merged: %v", s.Headers)
	}
	if !slices.Equal(s.Codes, []int{9}) {
		t.Errorf("a list was merged with its default: %v", s.Codes)
	}
	if n := s.Nested; n.A != 1 || n.B != 7 || n.Own != 2 {
		t.Errorf("a section's other defaults were lost: %+v", n)
	}
	if mail, _ := reg.Get("mail"); mail.Slots != defaultToolSlots {
		t.Errorf("default slots: %d", mail.Slots)
	}
}

func TestMistakesInToolsAreRefusedByTheToolsName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		yaml string
		set  []string
		want []string
	}{
		{name: "none", yaml: "tools:\n"},
		{name: "no list", yaml: "tools: {a: b}", want: []string{
			"tools (f:1): must be a list whose entries have name, kind, slots and config, not a section",
		}},
		{name: "no section", yaml: "tools: [a]", want: []string{
			`tools[0] (f:1): must be a section with name, kind, slots and config, not "a"`,
		}},
		{name: "misspelt key", yaml: "tools: [{nam: a, kind: fake}]", want: []string{
			"tools[0].nam (f:1): unknown key (did you mean name?)",
		}},
		{name: "key twice", yaml: "tools: [{name: a, name: b, kind: fake}]", want: []string{
			"tools[0].name (f:1): is defined twice",
		}},
		{name: "name twice", yaml: "tools:\n- {name: a, kind: fake}\n- {name: a, kind: fake}\n", want: []string{
			`tools[1].name (f:3): "a" is defined twice (first at f:2)`,
		}},
		{name: "unusable name and slots", yaml: "tools: [{name: Charge Card, slots: 0}]", want: []string{
			"tools[0].kind (f:1): is missing: which adapter is it?",
			`tools[0].name (f:1): must be 1 to 100 letters, digits, dots, dashes and underscores, not "Charge Card"`,
			"tools[0].slots (f:1): must be between 1 and 10000, not 0",
		}},
		{name: "unknown kind", yaml: "tools: [{name: a, kind: fak}]", want: []string{
			`tools.a (f:1): kind "fak" is not linked into this program, which has fake (did you mean fake?)`,
		}},
		{name: "unknown key of the kind", yaml: "tools: [{name: a, kind: fake, config: {url: x, urll: y}}]", want: []string{
			"tools.a (f:1): 'config' has invalid keys: urll",
		}},
		{name: "duplicate key of the kind", yaml: "tools: [{name: a, kind: fake, config: {url: x, url: y}}]", want: []string{
			`tools.a (f:1): config: yaml: unmarshal errors:
  line 1: mapping key "url" already defined at line 1`,
		}},
		{name: "callback is no section", yaml: "tools: [{name: a, kind: fake, callback: true}]", want: []string{
			`tools[0].callback (f:1): must be a section with secrets and window, not "true"`,
		}},
		{name: "callback without a secret", yaml: "tools: [{name: a, kind: fake, callback: {window: 5m}}]", want: []string{
			"tools[0].callback (f:1): secrets: must name at least one: without a secret nobody can be believed",
		}},
		{name: "callback with the secret itself", yaml: "tools: [{name: a, kind: fake, callback: {secrets: [{value: hunter2}]}}]", want: []string{
			"tools[0].callback (f:1): 'callback.secrets[0]' has invalid keys: value",
		}},
		{name: "callback secret in two places", yaml: "tools: [{name: a, kind: fake, callback: {secrets: [{env: A, file: b}]}}]", want: []string{
			"tools[0].callback (f:1): secrets[0]: must have env or file, one of the two",
		}},
		{name: "callback window without end", yaml: "tools: [{name: a, kind: fake, callback: {secrets: [{env: A}], window: 24h}}]", want: []string{
			"tools[0].callback (f:1): window: must be between 1s and 1h, not 24h",
		}},
		{name: "callback key that is none", yaml: "tools: [{name: a, kind: fake, callback: {secrets: [{env: A}], windw: 5m}}]", want: []string{
			"tools[0].callback (f:1): 'callback' has invalid keys: windw",
		}},
		{name: "duration without a unit", yaml: "tools: [{name: a, kind: fake, config: {url: x, timeout: 30}}]", want: []string{
			"tools.a (f:1): 'config.timeout' a duration needs a unit, such as 500ms, 30s or 5m: not 30",
		}},
		{name: "text for a number", yaml: "tools: [{name: a, kind: fake, config: {url: x, retries: many}}]", want: []string{
			"tools.a (f:1): 'config.retries' expected type 'int', got unconvertible type 'string'",
		}},
		{name: "fraction for a number", yaml: "tools: [{name: a, kind: fake, config: {url: x, retries: 2.5}}]", want: []string{
			"tools.a (f:1): 'config.retries' must be a whole number, not 2.5",
		}},
		{name: "the kind's own judgement, and every tool's", yaml: "tools: [{name: a, kind: fake}, {name: b, kind: fake}]", want: []string{
			"tools.a (f:1): url is missing", "tools.a (f:1): a is unusable",
			"tools.b (f:1): url is missing", "tools.b (f:1): b is unusable",
		}},
		{name: "a request that outlives its claims", yaml: "tools: [{name: a, kind: fake, config: {url: x, timeout: 55s}}]", want: []string{
			"tools.a (f:1): request timeout (55s) + dispatcher.send_margin (5s) must be less than dispatcher.claim_ttl (1m)",
			"tools.a (f:1): request timeout (55s) + dispatcher.send_margin (5s) must be less than reconciler.claim_ttl (1m)",
			"tools.a (f:1): request timeout (55s) must be at most dispatcher.drain_timeout (45s): otherwise each restart leaves doubts",
		}},
		{
			name: "a request just inside of them", yaml: "tools: [{name: a, kind: fake, config: {url: x, timeout: 54s}}]",
			set: []string{"dispatcher.drain_timeout=54s"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, got := build1(t, c.yaml, c.set...)
			if g, w := strings.Join(got, "\n"), strings.Join(c.want, "\n"); g != w {
				t.Errorf("got:\n%s\nwant:\n%s", g, w)
			}
		})
	}
}

func TestAProcessThatOnlyPlansKnowsThePromisesWithoutTheSecrets(t *testing.T) {
	t.Parallel()
	described := factory()
	described.New = func(string, any, tools.Deps) (tools.Adapter, tools.Capabilities, error) {
		return nil, tools.Capabilities{}, errors.New("the secret is not here")
	}
	described.Describe = func(cfg any) (tools.Capabilities, error) {
		if cfg.(*fakeSettings).Retries == 0 {
			return tools.Capabilities{Class: "bold"}, nil
		}
		return tools.Capabilities{Class: tools.ClassIdempotencyKey, MaxRequestMS: 5}, nil
	}
	for _, c := range []struct {
		name    string
		factory tools.Factory
		want    tools.Class
		problem string
	}{
		{name: "describable", factory: described, want: tools.ClassIdempotencyKey},
		{name: "only New can tell", factory: factory(), want: tools.ClassNone},
	} {
		cfg, err := Load(Options{File: write(t, "tools: [{name: a, kind: fake, config: {url: x}}]")})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Promises(cfg, []tools.Factory{c.factory}, tools.Deps{})
		if err != nil || got["a"].Class != c.want {
			t.Errorf("%s: got %v %v", c.name, got, err)
		}
	}
	cfg, err := Load(Options{File: write(t, "tools: [{name: a, kind: fake, config: {retries: 0}}]")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Promises(cfg, []tools.Factory{described}, tools.Deps{}); err == nil || !strings.Contains(err.Error(), `"bold"`) {
		t.Errorf("a promise that contradicts itself: %v", err)
	}
}

func TestTwoAdaptersOfOneKindAreRefused(t *testing.T) {
	t.Parallel()
	_, err := BuildRegistry(&Config{}, []tools.Factory{factory(), factory()}, tools.Deps{})
	if err == nil || !strings.Contains(err.Error(), `"fake"`) {
		t.Errorf("got %v", err)
	}
}

func TestAVariableThatAToolTakesItsSecretFromIsKnown(t *testing.T) {
	t.Parallel()
	content := `
tools:
  - name: a
    kind: fake
    config:
      headers:
        - {name: Authorization, value_env: LEASEHOLD_CHARGE_TOKEN}
      api_key_env: LEASEHOLD_CHARGE_KEY
`
	env := []string{"LEASEHOLD_CHARGE_TOKEN=x", "LEASEHOLD_CHARGE_KEY=y"}
	if got := problemsOf(t, Options{File: write(t, content), Environ: env}); got != nil {
		t.Error(got)
	}
	if got := problemsOf(t, Options{File: write(t, ""), Environ: env}); len(got) != 2 {
		t.Errorf("without the tool they are unknown: %v", got)
	}
}
