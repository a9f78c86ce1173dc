package migrations

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/pressly/goose/v3"
)

// source is what the program wants the database to be.
type source struct {
	schema   fs.FS
	versions []version // ascending, never empty
	roles    script
	// functions are in file-name order: a file may use what an earlier one creates.
	functions []script
	// digest covers roles and functions, which have no version of their own.
	digest string
}

type script struct{ name, text string }

type version struct {
	number int64
	name   string
}

func (s source) target() int64 { return s.versions[len(s.versions)-1].number }

func readSource(fsys fs.FS) (source, error) {
	var s source
	var err error
	if s.roles, err = readScript(fsys, "roles.sql"); err != nil {
		return s, err
	}
	if s.schema, err = fs.Sub(fsys, "schema"); err != nil {
		return s, fmt.Errorf("open schema migrations: %w", err)
	}
	names, err := fs.Glob(s.schema, "*.sql")
	if err != nil {
		return s, fmt.Errorf("list schema migrations: %w", err)
	}
	for _, name := range names {
		number, err := goose.NumericComponent(name)
		if err != nil {
			return s, fmt.Errorf("read version of %s: %w", name, err)
		}
		s.versions = append(s.versions, version{number: number, name: name})
	}
	if len(s.versions) == 0 {
		return s, errors.New("no schema migration is embedded")
	}
	slices.SortFunc(s.versions, func(a, b version) int { return int(a.number - b.number) })

	names, err = fs.Glob(fsys, "functions/*.sql")
	if err != nil {
		return s, fmt.Errorf("list functions: %w", err)
	}
	slices.Sort(names)
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %d\n%s", s.roles.name, len(s.roles.text), s.roles.text)
	for _, name := range names {
		file, err := readScript(fsys, name)
		if err != nil {
			return s, err
		}
		s.functions = append(s.functions, file)
		fmt.Fprintf(hash, "%s %d\n%s", path.Base(name), len(file.text), file.text)
	}
	s.digest = hex.EncodeToString(hash.Sum(nil))
	return s, nil
}

func readScript(fsys fs.FS, name string) (script, error) {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return script{}, fmt.Errorf("read %s: %w", name, err)
	}
	return script{name: name, text: string(text)}, nil
}

// Digest identifies the embedded schema, functions and roles: two programs with the same digest
// build the same database.
func Digest() (string, error) { return digestOf(files) }

func digestOf(fsys fs.FS) (string, error) {
	s, err := readSource(fsys)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintln(hash, s.digest)
	for _, v := range s.versions {
		file, err := readScript(s.schema, v.name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n%s", v.name, len(file.text), file.text)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
