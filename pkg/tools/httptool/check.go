package httptool

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// checker collects mistakes, each with the YAML key it is about.
type checker struct{ errs []error }

func (c *checker) add(key string, err error) {
	if err != nil {
		c.errs = append(c.errs, fmt.Errorf("%s: %w", key, err))
	}
}

func (c *checker) refuse(key, format string, args ...any) {
	c.add(key, fmt.Errorf(format, args...))
}

// url checks everything before the path. No placeholder may stand there: an
// operation's request must not choose which host gets the tool's credentials.
func (c *checker) url(key, raw string, allowed []string) template {
	if raw == "" {
		c.refuse(key, "is missing")
		return template{}
	}
	t, err := parseTemplate(raw, inURL, allowed...)
	if err != nil {
		c.add(key, err)
		return t
	}
	head := ""
	if len(t.parts) > 0 {
		head = t.parts[0].literal
	}
	scheme, rest, _ := strings.Cut(head, "://")
	host, _, whole := strings.Cut(rest, "/")
	u, err := url.Parse(scheme + "://" + host)
	switch {
	case scheme != "http" && scheme != "https":
		c.refuse(key, "must begin with http:// or https://")
	case !whole && len(t.parts) > 1:
		c.refuse(key, "has a placeholder in its host")
	case err != nil:
		c.refuse(key, "cannot be read")
	case u.Hostname() == "":
		c.refuse(key, "has no host")
	case u.User != nil:
		c.refuse(key, "must not hold a password: use a header with value_env or value_file")
	case strings.Contains(raw, "#"):
		c.refuse(key, "has a fragment, which is never sent")
	}
	return t
}

func (c *checker) pointer(key, pointer string) { c.add(key, protocol.ValidatePointer(pointer)) }

func (c *checker) place(key string, p Place) Place {
	if p.Header != "" {
		c.headerName(key+".header", p.Header)
	}
	return p
}

// Headers that belong to the connection. Setting Expect would add a wait and a
// second chance to lose the request.
func ownHeader(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Connection", "Content-Length", "Content-Type", "Expect", "Host", "Keep-Alive",
		"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

func (c *checker) headerName(key, name string) {
	token := func(r rune) bool {
		return r > 0x20 && r < 0x7f && !strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	}
	switch {
	case name == "":
		c.refuse(key, "is missing")
	case strings.ContainsFunc(name, func(r rune) bool { return !token(r) }):
		c.refuse(key, "%q is no header name", name)
	case strings.EqualFold(name, "Content-Type"):
		c.refuse(key, "set content_type instead")
	case ownHeader(name):
		c.refuse(key, "%s belongs to the connection and cannot be set", name)
	}
}

func (c *checker) paramList(key string, list []Param, allowed []string, name func(key, name string)) []param {
	var out []param
	for i, p := range list {
		at := fmt.Sprintf("%s[%d]", key, i)
		name(at+".name", p.Name)
		made := param{name: p.Name, prefix: p.Prefix}
		given := 0
		if p.ValueEnv != "" {
			given++
			made.secret = fromEnv(p.ValueEnv)
		}
		if p.ValueFile != "" {
			given++
			made.secret = fromFile(p.ValueFile)
		}
		if p.Value != "" || given == 0 {
			given++
			t, err := parseTemplate(p.Prefix+p.Value, always(asText), allowed...)
			c.add(at+".value", err)
			made.value = t
		}
		if given > 1 {
			c.refuse(at, "has more than one of value, value_env and value_file")
		}
		out = append(out, made)
	}
	return out
}

// The formats of a key. Each is frozen: see protocol.ShortKey.
const (
	formatRaw    = "raw"
	formatQuoted = "quoted"
	formatUUID   = "uuid"
	formatShort  = "short"
)

func (c *checker) key(k Key) func(protocol.OperationID) (string, error) {
	switch k.Format {
	case formatRaw:
		return func(id protocol.OperationID) (string, error) { return string(id), nil }
	case formatQuoted:
		return func(id protocol.OperationID) (string, error) { return string(quote(string(id))), nil }
	case formatUUID:
		return func(id protocol.OperationID) (string, error) { return protocol.UUIDKey(id), nil }
	case formatShort:
		if _, err := protocol.ShortKey("probe", k.Length); err != nil {
			c.refuse("key.length", "must be at least %d, not %d", protocol.MinShortKey, k.Length)
		}
		return func(id protocol.OperationID) (string, error) { return protocol.ShortKey(id, k.Length) }
	}
	c.refuse("key.format", "%q is not raw, quoted, uuid or short", k.Format)
	return nil
}
