package protocol

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
)

// The layout rule is RFC 8785's: for every double, in whatever spelling its
// shortest digits come, the result is what a library for RFC 8785 writes.
func TestNumbersThatAreADoublesShortestFormAreWrittenAsRFC8785Has(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	floats := []float64{
		0, math.SmallestNonzeroFloat64, math.MaxFloat64, -math.MaxFloat64, 9007199254740992, -9007199254740992,
		295147905179352830000, 9.999999999999997e22, 1e23, 1.0000000000000001e23, 999999999999999700000,
		999999999999999900000, 1e21, 9.999999999999997e-7, 0.000001, 333333333.3333332, 1424953923781206.2,
		5e-324, 2.2250738585072014e-308, 123456789012345680, 0.1, 1.0 / 3,
	}
	for range 20_000 {
		f := math.Float64frombits(random.Uint64())
		if !math.IsNaN(f) && !math.IsInf(f, 0) {
			floats = append(floats, f)
		}
		floats = append(floats, math.Ldexp(random.Float64(), random.IntN(120)-40))
	}
	for _, f := range floats {
		want, err := jcs.NumberToJSON(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []byte{'e', 'f', 'E'} {
			token := strconv.FormatFloat(f, format, -1, 64)
			d, fits, fitsAsWritten := parseDecimal([]byte(token))
			if got := d.String(); got != want || !fits || !fitsAsWritten {
				t.Fatalf("%s is written %s (fits %t, %t), want %s", token, got, fits, fitsAsWritten, want)
			}
		}
	}
}

func TestEveryDoubleWrittenOutInFullFits(t *testing.T) {
	t.Parallel()
	for _, f := range []float64{math.MaxFloat64, math.SmallestNonzeroFloat64, math.Nextafter(1, 0)} {
		token := strconv.FormatFloat(f, 'f', 1074, 64)
		if _, fits, fitsAsWritten := parseDecimal([]byte(token)); !fits || !fitsAsWritten {
			t.Errorf("%g in full does not fit", f)
		}
	}
}

func TestFittingCountsZerosOnlyAsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		token               string
		fits, fitsAsWritten bool
	}{
		{"0e99999", true, false},
		{"0e-99999", true, false},
		{"1." + strings.Repeat("0", 1101), true, false},
		{"1000e1097", false, false},
		{"0." + strings.Repeat("0", 1100) + "1e1101", true, false},
		{strings.Repeat("1", maxNumberBytes+1), false, false},
		// Cut down, this exponent would bring the value back into bounds.
		{"1" + strings.Repeat("0", 2*maxNumberBytes+499) + "e-9999999999999999999", false, false},
		{strings.Repeat("1", maxNumberBytes/2) + "e-9999999999999999999", false, false},
		{"1e9223372036854775807", false, false},
		{"1e-9223372036854775808", false, false},
	} {
		if _, fits, asWritten := parseDecimal([]byte(c.token)); fits != c.fits || asWritten != c.fitsAsWritten {
			t.Errorf("%.30s: fits %t, as written %t; want %t, %t", c.token, fits, asWritten, c.fits, c.fitsAsWritten)
		}
	}
}
