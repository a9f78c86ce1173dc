package protocol

import (
	"bytes"
	"strconv"
	"strings"
)

// MaxNumberDigits bounds a number written out without an exponent: at most so
// many digits before the point, and so many after it. Every double fits even
// when its exact value is written out (309 before, 1,074 after), and the
// database's numeric can hold far more; without a bound, seven bytes
// ("1e99999") would be printed as a hundred thousand digits.
const MaxNumberDigits = 1100

// decimal is the exact value of a JSON number: 0.digits * 10^point, negated if
// neg is set.
//
// Invariant: digits neither begins nor ends with '0'; it is empty for zero.
type decimal struct {
	neg    bool
	digits string
	point  int
}

// maxNumberBytes bounds a number's token. It is far above what MaxNumberDigits
// lets pass without padding by zeros, and keeps the arithmetic below small.
const maxNumberBytes = 1 << 20

// parseDecimal reads a token that follows JSON's number grammar. fits says
// whether the value is inside MaxNumberDigits; fitsAsWritten, whether the token
// is too when its zeros count (the database counts them).
func parseDecimal(token []byte) (d decimal, fits, fitsAsWritten bool) {
	if len(token) > maxNumberBytes {
		return decimal{}, false, false
	}
	d.neg = token[0] == '-'
	mantissa := bytes.TrimPrefix(token, []byte("-"))
	exp := 0
	if i := bytes.IndexAny(mantissa, "eE"); i >= 0 {
		// Atoi reports an exponent beyond int as the nearest int, which is out
		// of bounds too; cut down, so that adding lengths to it cannot wrap.
		exp, _ = strconv.Atoi(string(mantissa[i+1:]))
		exp = min(max(exp, -2*maxNumberBytes), 2*maxNumberBytes)
		mantissa = mantissa[:i]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	fitsAsWritten = len(whole)+exp <= MaxNumberDigits && len(fraction)-exp <= MaxNumberDigits

	written := string(whole) + string(fraction)
	d.digits = strings.TrimLeft(written, "0")
	d.point = len(whole) + exp - (len(written) - len(d.digits))
	d.digits = strings.TrimRight(d.digits, "0")
	if d.digits == "" {
		return decimal{}, true, fitsAsWritten // minus zero is zero
	}
	fits = d.point <= MaxNumberDigits && len(d.digits)-d.point <= MaxNumberDigits
	return d, fits, fitsAsWritten
}

// String lays the digits out as ECMAScript's Number::toString does, which is
// RFC 8785's rule. There the digits are the shortest ones that pick the nearest
// double; here they are the number's own, so two numbers that share a double
// stay two numbers.
func (d decimal) String() string {
	k, n := len(d.digits), d.point
	var b strings.Builder
	if d.neg {
		b.WriteByte('-')
	}
	switch {
	case k == 0:
		b.WriteByte('0')
	case k <= n && n <= 21:
		b.WriteString(d.digits)
		b.WriteString(strings.Repeat("0", n-k))
	case 0 < n && n <= 21:
		b.WriteString(d.digits[:n])
		b.WriteByte('.')
		b.WriteString(d.digits[n:])
	case -6 < n && n <= 0:
		b.WriteString("0.")
		b.WriteString(strings.Repeat("0", -n))
		b.WriteString(d.digits)
	default:
		b.WriteString(d.digits[:1])
		if k > 1 {
			b.WriteByte('.')
			b.WriteString(d.digits[1:])
		}
		b.WriteByte('e')
		if n > 0 {
			b.WriteByte('+')
		}
		b.WriteString(strconv.Itoa(n - 1))
	}
	return b.String()
}
