package expr

import (
	"strings"
	"testing"
)

// TestShortNumber: the end of a long number does not matter, and its beginning does.
func TestShortNumber(t *testing.T) {
	zeros, nines := strings.Repeat("0", 5000), strings.Repeat("9", 5000)
	kept := nines[:keptDigits]
	for _, x := range []struct{ in, want string }{
		{"12.5", "12.5"},
		{nines, nines[:MaxPrecision+1]},
		{"-" + nines, "-" + nines[:MaxPrecision+1]},
		{nines + "e-4990", "0" + kept + ".e-190"},
		{"-" + zeros + "7.5", "-07.5e0"},
		{"0." + zeros + "7", "0.7e-5000"},
		{"12." + nines, "012." + kept + "e0"},
		{zeros, "0.e0"},
		{"1." + zeros + "e9", "01." + zeros[:keptDigits] + "e9"},
	} {
		if got := ShortNumber(x.in); got != x.want {
			t.Errorf("%.20s...: %s, want %s", x.in, got, x.want)
		}
	}
}
