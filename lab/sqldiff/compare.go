package sqldiff

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Result is what a server answered.
type Result struct {
	Types    []Kind     // of the columns; Other: a NULL without type, or unknown
	Rows     [][]string // values as text; null is NULL
	Affected int64
	Errno    int // MySQL's number; 0: no error
	Message  string
}

// null stands for NULL. No value of the generator is equal to it.
const null = "\x00NULL"

// Classes of differences.
const (
	Same      = ""
	Lost      = "connection"   // the connection was lost, or the statement did not end
	ErrorHere = "error here"   // an error where the reference answers
	ErrorGone = "no error"     // an answer where the reference has an error
	ErrorNo   = "error number" // another error
	Width     = "columns"      // another number of columns
	Rows      = "rows"         // more or fewer rows, or others
	Order     = "order"        // the same rows in another order
	Digits    = "digits"       // equal numbers with other digits
	TypeClass = "type"         // another type of a column
	Affected  = "affected"     // other affected rows
	Stored    = "stored"       // other rows in a table after a change
)

// Compare says how an answer differs from that of the reference; Same if it does not.
func Compare(st *Statement, sql string, got, want *Result) (class, detail string) {
	switch {
	case want.unjudged():
		return Same, "" // the reference does not know the statement, or does not end
	case got.Errno == lostConnection:
		return Lost, got.Message
	case got.Errno != 0 && want.Errno == 0:
		return ErrorHere, fmt.Sprintf("%d %s", got.Errno, got.Message)
	case got.Errno == 0 && want.Errno != 0:
		return ErrorGone, fmt.Sprintf("instead of %d %s", want.Errno, want.Message)
	case got.Errno != 0:
		if sameError(got.Errno, want.Errno) {
			return Same, ""
		}
		return ErrorNo, fmt.Sprintf("%d %s instead of %d %s", got.Errno, got.Message, want.Errno, want.Message)
	case len(got.Types) != len(want.Types):
		return Width, fmt.Sprintf("%d columns instead of %d", len(got.Types), len(want.Types))
	case got.Affected != want.Affected:
		return Affected, fmt.Sprintf("%d instead of %d", got.Affected, want.Affected)
	}
	c := comparer{loose: loose(sql), types: make([]Kind, len(got.Types))}
	for i, t := range got.Types {
		c.types[i] = widest(t, want.Types[i])
	}
	if class, detail = c.rows(st, got, want); class != Same {
		return class, detail
	}
	for i, t := range got.Types {
		if t != want.Types[i] && t != Other && want.Types[i] != Other && valued(want.Rows, i) {
			return TypeClass, fmt.Sprintf("column %d is %s instead of %s", i+1, kindNames[t], kindNames[want.Types[i]])
		}
	}
	return c.digits(st, got, want)
}

// valued reports whether a column has a value: the type of nothing but NULL matters to nobody.
func valued(rows [][]string, col int) bool {
	return slices.ContainsFunc(rows, func(r []string) bool { return r[col] != null })
}

var kindNames = map[Kind]string{Int: "integer", Decimal: "decimal", Double: "double", Text: "text", Date: "date",
	Datetime: "datetime", Time: "time"}

// unjudged reports whether the reference says nothing: that it cannot parse the statement, or has
// no time for it.
func (r *Result) unjudged() bool {
	return r.Errno == syntaxError || r.Errno == outOfTime || r.Errno == lostConnection
}

// outOfTime is MariaDB's number for a statement that takes too long.
const outOfTime = 1969

// syntaxError is MySQL's number for what the parser refuses.
const syntaxError = 1064

// sameErrors are numbers that MySQL 8 has where MariaDB has another one.
var sameErrors = map[[2]int]bool{
	{3020, 1365}: true, // the logarithm of what is not above 0
	{1292, 1916}: true, // a DECIMAL that is cast to an integer and is none
}

func sameError(a, b int) bool { return a == b || sameErrors[[2]int{a, b}] }

// widest is the kind as which values of two kinds are compared.
func widest(a, b Kind) Kind {
	number := func(k Kind) bool { return k == Int || k == Decimal || k == Double }
	switch {
	case a == b:
		return a
	case number(a) && number(b):
		return max(a, b)
	case a == Other:
		return b
	case b == Other:
		return a
	}
	return Text
}

// loose reports whether a statement may show any of texts that compare equal.
func loose(sql string) bool {
	for _, w := range []string{"DISTINCT", "GROUP BY", "UNION", "EXCEPT", "INTERSECT", "MIN(", "MAX(", "GREATEST(", "LEAST("} {
		if strings.Contains(sql, w) {
			return true
		}
	}
	return false
}

type comparer struct {
	loose bool
	types []Kind
}

var accents = strings.NewReplacer("é", "e", "ñ", "n", "ú", "u", "ss", "s", "ß", "s", "\u0301", "", "ﬁ", "fi")

// cell is a value as it is compared, but for the last digits of doubles.
func (c comparer) cell(i int, v string) string {
	if v == null {
		return v
	}
	switch c.types[i] {
	case Int, Decimal:
		if r, ok := new(big.Rat).SetString(v); ok {
			return r.RatString()
		}
	case Double:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return v
		}
		if f == 0 {
			f = 0 // no negative zero
		}
		return strconv.FormatFloat(f, 'e', 4, 64)
	case Datetime, Time:
		if whole, frac, ok := strings.Cut(v, "."); ok && strings.Trim(frac, "0") == "" {
			return whole
		}
		if strings.Contains(v, ".") {
			return strings.TrimRight(v, "0")
		}
	case Text:
		if c.loose {
			return strings.TrimRight(accents.Replace(strings.ToLower(v)), " ")
		}
	}
	return v
}

// keyed are rows as they are compared, up to a number of columns.
func (c comparer) keyed(rows [][]string, cols int) (out []string) {
	for _, r := range rows {
		var b strings.Builder
		for i, v := range r[:cols] {
			b.WriteString(c.cell(i, v))
			b.WriteByte('|')
		}
		out = append(out, b.String())
	}
	return out
}

func (c comparer) rows(st *Statement, got, want *Result) (class, detail string) {
	cols := len(c.types)
	n := min(st.Ordered, cols)
	if st.Cut {
		cols, c.loose = n, true // any of texts that are equal may be the last one
	}
	g, w := c.keyed(got.Rows, cols), c.keyed(want.Rows, cols)
	bag := func(s []string) []string { s = slices.Clone(s); slices.Sort(s); return s }
	bg, bw := bag(g), bag(w)
	if !slices.Equal(bg, bw) && !c.close(bg, bw) {
		return Rows, fmt.Sprintf("%d rows instead of %d: %s instead of %s", len(g), len(w), missing(bg, bw), missing(bw, bg))
	}
	c.loose = true // texts that are equal come in any order
	if go_, wo := c.keyed(got.Rows, n), c.keyed(want.Rows, n); n > 0 && !slices.Equal(go_, wo) && !c.close(go_, wo) {
		return Order, fmt.Sprintf("%q instead of %q", firstOf(g), firstOf(w))
	}
	return Same, ""
}

func firstOf(s []string) []string { return s[:min(len(s), 5)] }

// missing are the first rows of a that b does not have.
func missing(a, b []string) string {
	left := map[string]int{}
	for _, r := range b {
		left[r]++
	}
	var out []string
	for _, r := range a {
		if left[r]--; left[r] < 0 && len(out) < 3 {
			out = append(out, strings.ReplaceAll(r, null, "NULL"))
		}
	}
	return strings.Join(out, " ; ")
}

// close reports whether rows are equal but for the last digits of doubles.
func (c comparer) close(a, b []string) bool {
	if len(a) != len(b) || !slices.Contains(c.types, Double) {
		return false
	}
	for i := range a {
		x, y := strings.Split(a[i], "|"), strings.Split(b[i], "|")
		if len(x) != len(y) {
			return false
		}
		for j := range x {
			f, e1 := strconv.ParseFloat(x[j], 64)
			g, e2 := strconv.ParseFloat(y[j], 64)
			if x[j] != y[j] && (e1 != nil || e2 != nil || math.Abs(f-g) > 2e-4*max(math.Abs(f), math.Abs(g), 1e-9)) {
				return false
			}
		}
	}
	return true
}

// digits compares the texts of exact numbers.
func (c comparer) digits(st *Statement, got, want *Result) (class, detail string) {
	if st.Cut {
		return Same, ""
	}
	texts := func(rows [][]string, col int) (out []string) {
		for _, r := range rows {
			out = append(out, r[col])
		}
		slices.Sort(out)
		return out
	}
	for i, k := range c.types {
		if k != Decimal {
			continue
		}
		g, w := texts(got.Rows, i), texts(want.Rows, i)
		for j := range g {
			if g[j] != w[j] && !c.loose {
				return Digits, fmt.Sprintf("column %d: %s instead of %s", i+1, g[j], w[j])
			}
		}
	}
	return Same, ""
}
