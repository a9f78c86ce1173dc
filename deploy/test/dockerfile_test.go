package deploy_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const dockerfile = "../Dockerfile"

// image is one stage of the Dockerfile.
type image struct {
	name, from string
	lines      []string // "INSTRUCTION arguments", continuations joined
}

func (i image) get(instruction string) string {
	for _, line := range i.lines {
		if rest, ok := strings.CutPrefix(line, instruction+" "); ok {
			return rest
		}
	}
	return ""
}

func readDockerfile(t *testing.T) []image {
	t.Helper()
	text, err := os.ReadFile(dockerfile)
	if err != nil {
		t.Fatal(err)
	}
	joined := regexp.MustCompile(`\\\n\s*`).ReplaceAllString(string(text), "")
	var images []image
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if f := strings.Fields(line); f[0] == "FROM" {
			f = slices.DeleteFunc(f, func(s string) bool { return strings.HasPrefix(s, "--") })
			images = append(images, image{name: f[3], from: f[1]})
			continue
		}
		last := &images[len(images)-1]
		last.lines = append(last.lines, line)
	}
	return images
}

func stage(t *testing.T, name string) image {
	t.Helper()
	images := readDockerfile(t)
	i := slices.IndexFunc(images, func(i image) bool { return i.name == name })
	if i < 0 {
		t.Fatalf("the Dockerfile has no target %q", name)
	}
	return images[i]
}

// buildCommand is the RUN line that makes the programs.
func buildCommand(t *testing.T) string {
	t.Helper()
	for _, line := range stage(t, "build").lines {
		if run, ok := strings.CutPrefix(line, "RUN "); ok && strings.Contains(run, "go build") {
			return run
		}
	}
	t.Fatal("the Dockerfile builds nothing")
	return ""
}

func TestEveryImageOfTheManifestsIsATargetThatHoldsOnlyItsProgram(t *testing.T) {
	t.Parallel()
	base := stage(t, "base")
	if base.from != "scratch" {
		t.Errorf("images are built from %s, not scratch", base.from)
	}
	if want := strconv.Itoa(unprivileged); base.get("USER") != want+":"+want {
		t.Errorf("images run as %s, pods as %s", base.get("USER"), want)
	}
	eachManifest(t, func(t *testing.T, m *manifest) {
		for _, w := range m.workloads() {
			name, _, _ := strings.Cut(w.container().Image, ":")
			target := stage(t, strings.TrimPrefix(name, "leasehold-"))
			if target.from != "base" || target.get("USER") != "" {
				t.Errorf("target %s is from %s with user %q", target.name, target.from, target.get("USER"))
			}
			// Exec form: there is no shell in the image.
			if want := `["/` + target.name + `"]`; target.get("ENTRYPOINT") != want {
				t.Errorf("target %s starts %s, want %s", target.name, target.get("ENTRYPOINT"), want)
			}
			if want := "--from=build /out/" + target.name + " /" + target.name; target.get("COPY") != want {
				t.Errorf("target %s copies %q, want %q", target.name, target.get("COPY"), want)
			}
		}
	})
}

func TestTheBuilderIsTheModulesGo(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile(filepath.Join(rootDir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(mod)
	if from := stage(t, "build").from; from != "golang:"+string(version[1]) {
		t.Errorf("built from %s, but go.mod asks for %s", from, version[1])
	}
}

// An image from scratch holds no loader: a program that needs one ends with "no
// such file or directory" on its own path.
func TestTheBuildCommandMakesStaticProgramsThatKnowTheirVersion(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	command := strings.Replace(buildCommand(t), " -o /out/ ", " -o "+out+"/ ", 1)
	build := exec.CommandContext(t.Context(), "sh", "-ec", command)
	build.Dir = rootDir
	build.Env = append(os.Environ(), "TARGETOS=", "TARGETARCH=", "VERSION=v9.8.7-test")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, text)
	}
	for _, name := range []string{"worker", "dispatcher", "reconciler", "leasehold"} {
		program, err := elf.Open(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range program.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s is not static", name)
			}
		}
		if err := program.Close(); err != nil {
			t.Error(err)
		}
	}
	text, err := exec.CommandContext(t.Context(), filepath.Join(out, "leasehold"), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(text), "v9.8.7-test") {
		t.Errorf("leasehold version: %v, %q", err, text)
	}
}

func TestTheMakefileBuildsWithTheDockerfilesFlags(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(rootDir, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	flags := func(text string) string {
		text = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text, "")
		text = strings.NewReplacer("$(VERSION)", "$VERSION").Replace(text)
		found := regexp.MustCompile(`go build (-trimpath .*VERSION")`).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("no go build in %q", text)
		}
		return found[1]
	}
	run := buildCommand(t)
	if !strings.Contains(string(makefile), "CGO_ENABLED=0 go build") || flags(string(makefile)) != flags(run) {
		t.Errorf("make build uses %s, the image %s", flags(string(makefile)), flags(run))
	}
}
