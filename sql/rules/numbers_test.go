package rules

import (
	"strings"
	"testing"
)

// TestShortNumber: what decides about a DECIMAL stays, and everything that is no number.
func TestShortNumber(t *testing.T) {
	many := strings.Repeat("9", 5_000_000)
	for _, k := range []struct{ in, want string }{
		{"", ""}, {"abc", "abc"}, {"-", "-"}, {".", "."}, {" 12.5 apples", " 12.5 apples"}, {"1e3", "1e3"}, {"1e+8192", "1e+8192"},
		{strings.Repeat("x", 1_000_000), strings.Repeat("x", mostOther)},
		{"12.5" + strings.Repeat(" ", 1_000_000) + "x", "12.5" + strings.Repeat(" ", mostOther)},
		{"1e5" + strings.Repeat("x", 1_000_000), "1e5" + strings.Repeat("x", mostOther)},
		{many, many[:mostDigits]},
		{"-" + many + "." + many + "abc", "-" + many[:mostDigits] + "." + many[:mostDigits]},
		{strings.Repeat("0", 5_000_000) + "7.5", "7.5"},
		{"0." + strings.Repeat("0", 5_000_000) + "7", "0." + strings.Repeat("0", mostDigits)},
		{"1e999999999", "1e8192"}, {"-1.5E-" + many, "-1.5e-8192"}, {"1e" + strings.Repeat("0", 5000) + "3", "1e" + strings.Repeat("0", 5000) + "3"},
		{"." + many, "0." + many[:mostDigits]},
	} {
		if got := shortNumber(k.in); got != k.want {
			t.Errorf("%.40q: %.60q (%d bytes), want %.60q", k.in, got, len(got), k.want)
		}
	}
}
