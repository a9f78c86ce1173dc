// Package secret reads a tool's secrets and cuts them out of what is kept.
//
// It promises that a secret is read when it is needed, so that a rotated file
// takes effect without a restart, and that a known secret is not found in what
// a Redactor returns, be it as it is, as the inside of a JSON string or escaped
// for a URL.
//
// It does not promise to recognise a secret that somebody encoded otherwise, nor
// one of fewer than six bytes: cutting those out would destroy half of every
// answer, and guessing them is easy anyway.
package secret

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Source yields a secret each time that it is asked. It is safe for concurrent
// use.
type Source func() (string, error)

// From is the source that a pair of settings names: an environment variable or
// a file, exactly one of the two.
func From(env, file string) (Source, error) {
	switch {
	case (env == "") == (file == ""):
		return nil, errors.New("needs exactly one of value_env and value_file")
	case env != "":
		return func() (string, error) { return fromEnv(env) }, nil
	}
	return func() (string, error) { return fromFile(file) }, nil
}

func fromEnv(name string) (string, error) {
	value := os.Getenv(name)
	if value == "" {
		return "", fmt.Errorf("environment variable %s is empty", name)
	}
	return value, nil
}

func fromFile(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if value == "" {
		return "", fmt.Errorf("read secret: %s is empty", path)
	}
	return value, nil
}
