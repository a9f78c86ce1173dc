package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/httptool"
)

var update = flag.Bool("update", false, "rewrite the generated parts of docs/configuration.md")

const (
	examplePath   = "../../config.example.yaml"
	referencePath = "../../docs/configuration.md"
)

func TestTheExampleIsLoadedStrictlyAndShowsTheDefaults(t *testing.T) {
	t.Parallel()
	c, err := Load(Options{File: examplePath})
	if err != nil {
		t.Fatal(err)
	}
	defaults := Default()
	want := leavesOf(&defaults)
	for i, got := range leavesOf(c) {
		if !same(got.value, want[i].value) {
			t.Errorf("%s: the example says %v, the default is %v", got.key, got.value, want[i].value)
		}
		if c.sources[got.key] != SourceFile {
			t.Errorf("%s is not in the example", got.key)
		}
	}
	b, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	var top map[string]yaml.Node
	if err := yaml.Unmarshal(b, &top); err != nil {
		t.Fatal(err)
	}
	if _, ok := top[toolsKey]; !ok {
		t.Error("tools is not in the example")
	}
}

func TestTheToolsThatTheExampleShowsCanBeMade(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	_, shown, found := strings.Cut(string(b), "\n# tools:\n")
	if !found {
		t.Fatal("the example shows no tools")
	}
	var content strings.Builder
	content.WriteString("tools:\n")
	for line := range strings.Lines(shown) {
		content.WriteString(strings.TrimPrefix(line, "# "))
	}
	c, err := Load(Options{File: write(t, content.String()), Environ: []string{"PAYMENTS_TOKEN=x"}})
	if err != nil {
		t.Fatal(err)
	}
	promises, err := Promises(c, []tools.Factory{httptool.Factory()}, tools.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if promises["charge"].Class != tools.ClassIdempotencyKey || promises["notify"].Class != tools.ClassNone {
		t.Errorf("promises %+v", promises)
	}
}

// The reference is made of the comments of the structs, so that a key cannot be
// added without a word about it.
func TestTheReferenceSaysWhatTheStructsSay(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	comments := readComments(t)
	text := string(b)
	for name, content := range map[string]string{
		"keys":      keyTables(t, comments),
		"relations": relationList(),
		"tools":     toolTable(t, comments),
	} {
		text = replaceSection(t, text, name, content)
	}
	if *update {
		if err := os.WriteFile(referencePath, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text != string(b) && !*update {
		t.Error("docs/configuration.md is out of date: run go test ./internal/config -update")
	}
}

func replaceSection(t *testing.T, text, name, content string) string {
	t.Helper()
	begin := strings.Index(text, "<!-- generated: "+name)
	if begin < 0 {
		t.Fatalf("no generated section %s", name)
	}
	begin += strings.Index(text[begin:], "\n") + 1
	end := begin + strings.Index(text[begin:], "<!-- end -->")
	return text[:begin] + content + text[end:]
}

// readComments returns the comment of each field by Type.Field, and of each
// type by Type.
func readComments(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"config.go", "tools.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			spec := g.Specs[0].(*ast.TypeSpec)
			typ, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			out[spec.Name.Name] = oneLine(g.Doc)
			for _, f := range typ.Fields.List {
				for _, id := range f.Names {
					out[spec.Name.Name+"."+id.Name] = oneLine(f.Doc)
				}
			}
		}
	}
	return out
}

func oneLine(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}

func keyTables(t *testing.T, comments map[string]string) string {
	t.Helper()
	defaults := Default()
	var b strings.Builder
	v := reflect.ValueOf(defaults)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Tag.Get(tagName) == toolsKey {
			continue
		}
		name := f.Tag.Get(tagName)
		fmt.Fprintf(&b, "\n### `%s`\n\n%s\n\n| key | default | meaning |\n|---|---|---|\n", name, comments[f.Type.Name()])
		keyRows(t, &b, v.Field(i), name, comments)
	}
	return b.String() + "\n"
}

func keyRows(t *testing.T, b *strings.Builder, v reflect.Value, path string, comments map[string]string) {
	t.Helper()
	bounds := map[string]limits{}
	for _, l := range allLimits() {
		bounds[l.key] = l
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key := path + "." + f.Tag.Get(tagName)
		comment := comments[v.Type().Name()+"."+f.Name]
		if comment == "" {
			t.Errorf("%s.%s has no comment", v.Type().Name(), f.Name)
		}
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[Secret]() {
			fmt.Fprintf(b, "| `%s` | | %s |\n", key, comment)
			keyRows(t, b, v.Field(i), key, comments)
			continue
		}
		if l, ok := bounds[key]; ok {
			comment += fmt.Sprintf(" (%s to %s)", display(l.min), display(l.max))
		}
		value := display(v.Field(i).Interface())
		if value != "" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", key, value, comment)
	}
}

func toolTable(t *testing.T, comments map[string]string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n| key | meaning |\n|---|---|\n")
	for f := range reflect.TypeFor[Tool]().Fields() {
		if !f.IsExported() {
			continue
		}
		comment := comments["Tool."+f.Name]
		if comment == "" {
			t.Errorf("Tool.%s has no comment", f.Name)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ToLower(f.Name), comment)
	}
	return b.String() + "\n"
}

func relationList() string {
	var b strings.Builder
	b.WriteString("\n")
	for _, r := range allRelations() {
		fmt.Fprintf(&b, "- %s: %s.\n", r.text, r.why)
	}
	for _, text := range toolRelations() {
		fmt.Fprintf(&b, "- %s.\n", text)
	}
	return b.String() + "\n"
}

// toolRelations are the rules of checkTimeout in words.
func toolRelations() []string {
	return []string{
		"a tool's request timeout + dispatcher.send_margin must be less than dispatcher.claim_ttl and reconciler.claim_ttl: an answer must come while it may be stored",
		"a tool's request timeout must be at most dispatcher.drain_timeout: otherwise each restart leaves doubts",
	}
}
