package expr

import (
	"math"
	"strconv"
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

// TestLongFloats: a DOUBLE of a long text is the one that its whole text is.
func TestLongFloats(t *testing.T) {
	long := strings.Repeat("1234567890", 500)
	for _, s := range []string{"0." + long, "-" + long[:300] + "." + long, long + "e-4990", "0." + strings.Repeat("0", 5000) + long + "e5100",
		"17976931348623157" + strings.Repeat("0", 292) + "." + long, "4.9" + long + "e-324", "9007199254740993." + strings.Repeat("0", 900) + "1"} {
		want, err := strconv.ParseFloat(s, 64)
		if got, ok := FloatOf(s); got != want || !ok || err != nil {
			t.Errorf("%.30s...: %v, %v; want %v, %v", s, got, ok, want, err)
		}
	}
	if got, ok := FloatOf("-" + long); got != -math.MaxFloat64 || ok {
		t.Errorf("out of range: %v, %v", got, ok)
	}
	if got, ok := FloatOf(long + "e-9999"); got != 0 || !ok {
		t.Errorf("too small: %v, %v", got, ok)
	}
}
