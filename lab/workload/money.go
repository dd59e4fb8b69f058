package workload

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// money is an amount in cents. It travels as decimal text, so no rounding happens on the way.
type money int64

func (m money) String() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	return fmt.Sprintf("%s%d.%02d", sign, int64(m)/100, int64(m)%100)
}

// rate is a tax or discount in hundredths of a percent.
type rate int

func (r rate) String() string { return fmt.Sprintf("0.%04d", int(r)) }

// Scan implements sql.Scanner for DECIMAL columns and for sums of them. NULL, the sum of no rows,
// is zero.
func (m *money) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*m = 0
		return nil
	case int64:
		*m = money(v * 100)
		return nil
	case float64: // some peers return sums as DOUBLE
		*m = money(math.Round(v * 100))
		return nil
	case []byte:
		return m.parse(string(v))
	case string:
		return m.parse(v)
	}
	return fmt.Errorf("cannot read an amount from %T", v)
}

func (m *money) parse(s string) error {
	digits, negative := strings.CutPrefix(s, "-")
	whole, frac, _ := strings.Cut(digits, ".")
	frac = strings.TrimRight(frac, "0")
	if len(frac) <= 2 {
		n, err := strconv.ParseInt(whole+(frac + "00")[:2], 10, 64)
		if err == nil {
			*m = money(n)
			if negative {
				*m = -*m
			}
			return nil
		}
	}
	f, err := strconv.ParseFloat(s, 64) // 1.2e+06, or more than two decimals
	if err != nil {
		return fmt.Errorf("cannot read an amount from %q", s)
	}
	*m = money(math.Round(f * 100))
	return nil
}

// whole is a sum of integers, which peers return as BIGINT, DECIMAL or DOUBLE.
type whole int64

// Scan implements sql.Scanner; NULL, the sum of no rows, is zero.
func (w *whole) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*w = 0
		return nil
	case int64:
		*w = whole(v)
		return nil
	case float64:
		*w = whole(math.Round(v))
		return nil
	case []byte:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			*w = whole(n)
			return nil
		}
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return fmt.Errorf("cannot read a sum of integers from %q", v)
		}
		*w = whole(f)
		return nil
	}
	return fmt.Errorf("cannot read a sum of integers from %T", v)
}
