package config

import (
	"net/url"
	"strings"
)

// MaskDSN returns a connection string with its passwords replaced by ***, or
// only *** if it cannot tell which part that is.
func MaskDSN(dsn string) string {
	if dsn == "" {
		return ""
	}
	if strings.Contains(dsn, "://") {
		return maskURL(dsn)
	}
	return maskKeywords(dsn)
}

// maskURL works on the text and not on a parsed URL: a list of hosts is no URL
// to the standard library, and an encoder would turn *** into %2A%2A%2A.
func maskURL(dsn string) string {
	scheme, rest, _ := strings.Cut(dsn, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	if strings.Contains(tail, "@") {
		// A password with an unescaped slash or question mark ends up here.
		return masked
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, _, hasPassword := strings.Cut(authority[:at], ":")
		if hasPassword {
			authority = user + ":" + masked + authority[at:]
		}
	}
	path, query, hasQuery := strings.Cut(tail, "?")
	if hasQuery {
		path += "?" + maskQuery(query)
	}
	return scheme + "://" + authority + path
}

func maskQuery(raw string) string {
	pairs := strings.Split(raw, "&")
	for i, p := range pairs {
		key, _, _ := strings.Cut(p, "=")
		if name, err := url.QueryUnescape(key); err != nil || secretKey(name) {
			pairs[i] = key + "=" + masked
		}
	}
	return strings.Join(pairs, "&")
}

// maskKeywords reads libpq's keyword/value form, whose values may be quoted
// with backslash escapes and may have blanks around the equals sign.
func maskKeywords(dsn string) string {
	var out []string
	rest := strings.TrimSpace(dsn)
	for rest != "" {
		key, after, ok := strings.Cut(rest, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" || strings.ContainsAny(key, " \t\n\r'\\") {
			return masked
		}
		value, tail, ok := keywordValue(strings.TrimLeft(after, " \t\n\r"))
		if !ok {
			return masked
		}
		if secretKey(key) {
			value = masked
		}
		out = append(out, key+"="+value)
		rest = strings.TrimSpace(tail)
	}
	return strings.Join(out, " ")
}

func keywordValue(s string) (value, rest string, ok bool) {
	quoted := strings.HasPrefix(s, "'")
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case quoted && i > 0 && c == '\'':
			return s[:i+1], s[i+1:], true
		case !quoted && strings.ContainsRune(" \t\n\r", rune(c)):
			return s[:i], s[i:], true
		}
	}
	return s, "", !quoted
}
