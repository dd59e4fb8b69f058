package expr

import (
	"strings"
	"testing"
)

// TestShortNumber: the end of a long number does not matter, and its beginning does.
func TestShortNumber(t *testing.T) {
	zeros, nines := strings.Repeat("0", 5000), strings.Repeat("9", 5000)
	kept, most := nines[:keptDigits], nines[:readDigits+1]
	for _, x := range []struct{ in, want string }{
		{"12.5", "12.5"},
		{nines, most},
		{"-" + nines, "-" + most},
		{"1e999999999", most},
		{"-0.001E99999999999999999999", "-" + most},
		{"1e81", most},
		{"1e80", "01.e80"},
		{"0.00012e3", "0.12e0"},
		{"0e999999999", "0"},
		{"1e-999999999", "0"},
		{"-1e-99999999999999999999", "0"},
		{nines + "e-4990", "0" + kept + ".e-190"},
		{"-" + zeros + "7.5", "-07.5e0"},
		{"0." + zeros + "7", "0"},
		{"12." + nines, "012." + kept + "e0"},
		{zeros, "0"},
		{"1." + zeros + "e9", "01." + zeros[:keptDigits] + "e9"},
	} {
		if got := ShortNumber(x.in); got != x.want {
			t.Errorf("%.20s...: %s, want %s", x.in, got, x.want)
		}
	}
}
