package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// write returns the path of a configuration file with this content.
func write(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "leasehold.yaml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// sample returns the n-th value of l that differs from its default and breaks
// no rule: as text, and as it must arrive.
func sample(t *testing.T, l leaf, n int) (string, any) {
	t.Helper()
	switch v := l.value.(type) {
	case time.Duration:
		v -= time.Duration(n) * time.Millisecond
		return v.String(), v
	case int:
		if v == 0 {
			return fmt.Sprint(n), n
		}
		return fmt.Sprint(v - n), v - n
	case bool:
		return fmt.Sprint(n%2 == 1), n%2 == 1
	case []string:
		name := fmt.Sprintf("name%d", n)
		return name, []string{name}
	case Secret:
		dsn := fmt.Sprintf("postgres://host%d/db", n)
		return dsn, NewSecret(dsn)
	case string:
		s := fmt.Sprintf("127.0.0.1:%d", n)
		switch l.key {
		case "log.level":
			s = []string{"debug", "warn", "error"}[n-1]
		case "log.format":
			s = []string{"text", "json", "text"}[n-1]
		}
		return s, s
	}
	t.Fatalf("no sample for %s", l.key)
	return "", nil
}

func yamlFor(l leaf, text string) string {
	if _, list := l.value.([]string); list {
		text = "[" + text + "]"
	}
	path := strings.Split(l.key, ".")
	var b strings.Builder
	for depth, name := range path {
		b.WriteString(strings.Repeat("  ", depth) + name + ":")
		if depth < len(path)-1 {
			b.WriteString("\n")
		}
	}
	return b.String() + " " + text + "\n"
}

// The layers of viper are easy to set up so that some of them are ignored for
// some keys: an environment variable without a line in the file, or beside a
// file that lacks the key. So every leaf goes through every combination.
func TestEveryLeafTakesItsValueFromTheStrongestLayerThatHasOne(t *testing.T) {
	t.Parallel()
	defaults := Default()
	for _, l := range leavesOf(&defaults) {
		t.Run(l.key, func(t *testing.T) {
			t.Parallel()
			fileText, fileValue := sample(t, l, 1)
			envText, envValue := sample(t, l, 2)
			flagText, flagValue := sample(t, l, 3)
			inFile := write(t, yamlFor(l, fileText))
			notInFile := write(t, "tools: []\n")
			env := []string{l.env() + "=" + envText}
			flag := []string{l.key + "=" + flagText}

			for _, c := range []struct {
				name   string
				o      Options
				want   any
				source Source
			}{
				{"nothing is set", Options{}, l.value, SourceDefault},
				{"only the file", Options{File: inFile}, fileValue, SourceFile},
				{"environment and no file", Options{Environ: env}, envValue, SourceEnv},
				{"environment and a file without the key", Options{File: notInFile, Environ: env}, envValue, SourceEnv},
				{"environment over file", Options{File: inFile, Environ: env}, envValue, SourceEnv},
				{"an empty variable leaves the file", Options{File: inFile, Environ: []string{l.env() + "="}}, fileValue, SourceFile},
				{"flag and nothing else", Options{Set: flag}, flagValue, SourceFlag},
				{"flag over environment over file", Options{File: inFile, Environ: env, Set: flag}, flagValue, SourceFlag},
			} {
				cfg, err := Load(c.o)
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				for _, got := range leavesOf(cfg) {
					if got.key == l.key && !same(got.value, c.want) {
						t.Errorf("%s: got %v, want %v", c.name, got.value, c.want)
					}
				}
				for _, s := range cfg.Effective() {
					if s.Key == l.key && s.Source != c.source {
						t.Errorf("%s: came from %s, want %s", c.name, s.Source, c.source)
					}
					if s.Key != l.key && s.Source != SourceDefault {
						t.Errorf("%s: %s came from %s", c.name, s.Key, s.Source)
					}
				}
			}
		})
	}
}

func same(a, b any) bool {
	if s, ok := a.(Secret); ok {
		return s.Reveal() == b.(Secret).Reveal()
	}
	return reflect.DeepEqual(a, b)
}

func TestEnvironmentNamesAreUnique(t *testing.T) {
	t.Parallel()
	defaults := Default()
	seen := map[string]string{}
	for _, l := range leavesOf(&defaults) {
		if other, dup := seen[l.env()]; dup {
			t.Errorf("%s and %s share %s", l.key, other, l.env())
		}
		seen[l.env()] = l.key
	}
	if len(seen) < 30 {
		t.Errorf("found %d leaves only", len(seen))
	}
}

func TestEveryNumberHasLimitsAndItsDefaultIsWithinThem(t *testing.T) {
	t.Parallel()
	bounds := map[string]limits{}
	for _, l := range allLimits() {
		bounds[l.key] = l
	}
	defaults := Default()
	for _, l := range leavesOf(&defaults) {
		switch l.value.(type) {
		case int, time.Duration:
			b, ok := bounds[l.key]
			if !ok {
				t.Errorf("%s has no limits", l.key)
			} else if !b.hold(l.value) {
				t.Errorf("%s: default %v is outside of %v..%v", l.key, l.value, b.min, b.max)
			}
			delete(bounds, l.key)
		}
	}
	for key := range bounds {
		t.Errorf("limits for %s, which is no number", key)
	}
}

func TestTheDocumentedStartingPointsAreTheDefaults(t *testing.T) {
	t.Parallel()
	c, err := Load(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]time.Duration{
		"lease":   {c.Worker.LeaseTTL, 30 * time.Second},
		"beat":    {c.Worker.HeartbeatInterval, 5 * time.Second},
		"timeout": {c.Worker.HeartbeatTimeout, 2 * time.Second},
		"claim":   {c.Dispatcher.ClaimTTL, 60 * time.Second},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v, want %v", name, pair[0], pair[1])
		}
	}
}

func TestTheFileIsNamedByAFlagOrElseByTheEnvironment(t *testing.T) {
	t.Parallel()
	a, b := write(t, "worker: {slots: 7}\n"), write(t, "worker: {slots: 8}\n")
	c, err := Load(Options{Environ: []string{"LEASEHOLD_CONFIG=" + a}})
	if err != nil || c.Worker.Slots != 7 {
		t.Errorf("by environment: %v %v", c, err)
	}
	c, err = Load(Options{File: b, Environ: []string{"LEASEHOLD_CONFIG=" + a}})
	if err != nil || c.Worker.Slots != 8 {
		t.Errorf("flag over environment: %v %v", c, err)
	}
	if _, err = Load(Options{File: a + ".missing"}); err == nil || IsInvalid(err) {
		t.Errorf("a missing file: %v", err)
	}
}
