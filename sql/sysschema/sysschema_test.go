package sysschema

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestColumnsBesideMariaDB: a table that MariaDB 10.11 has, too, has its columns in its order, but
// for those that are MariaDB's own, and others of MySQL 8.0 besides. The file was made by
//
//	SELECT table_name, GROUP_CONCAT(column_name ORDER BY ordinal_position SEPARATOR ' ')
//	  FROM information_schema.columns WHERE table_schema = 'sys' GROUP BY table_name
func TestColumnsBesideMariaDB(t *testing.T) {
	text, err := os.ReadFile("testdata/mariadb.txt")
	if err != nil {
		t.Fatal(err)
	}
	common := 0
	for line := range strings.Lines(strings.ToLower(string(text))) {
		words := strings.Fields(line)
		have, ok := columnsOf(words[0])
		if !ok {
			continue
		}
		common++
		at := -1
		for _, name := range words[1:] {
			i := slices.Index(have, name)
			switch {
			case i < 0 && !slices.Contains(theirs, name):
				t.Errorf("%s has no column %s", words[0], name)
			case i >= 0 && i < at:
				t.Errorf("%s has its column %s too early", words[0], name)
			}
			at = max(at, i)
		}
	}
	if common < 80 {
		t.Errorf("only %d tables are in both", common)
	}
}

// theirs are columns that MariaDB has and MySQL 8.0 has not: there are none.
var theirs []string

func columnsOf(table string) (out []string, ok bool) {
	if !slices.Contains(names(), table) {
		return nil, false
	}
	for _, c := range schemas()[strings.TrimPrefix(table, "x$")][0] {
		out = append(out, strings.ToLower(c.Name))
	}
	return out, true
}

// TestFormat: figures are worded as the functions of sys word them.
func TestFormat(t *testing.T) {
	for ps, want := range map[uint64]string{0: "0 ps", 999: "999 ps", 3501: "3.50 ns", 1e9: "1.00 ms", 188732396662000: "3.15 m", 90000e12: "1.04 d"} {
		if got := formatTime(ps); got != want {
			t.Errorf("%d ps: %s, want %s", ps, got, want)
		}
	}
	for n, want := range map[uint64]string{512: "512 bytes", 1024: "1.00 KiB", 1234567890: "1.15 GiB", 1 << 50: "1.00 PiB", 1 << 62: "4096.00 PiB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
	if got := formatStatement(strings.Repeat("é", 70)); got != strings.Repeat("é", 30)+" ... "+strings.Repeat("é", 30) {
		t.Error(got)
	}
}

// TestRedundant: an index does nothing of its own if another one begins with its columns, unless it
// is unique and the other one is not, or is longer.
func TestRedundant(t *testing.T) {
	ix := func(name string, unique bool, cols ...string) flat {
		return flat{name: name, unique: unique, cols: cols}
	}
	for _, x := range []struct {
		a, b flat
		want bool
	}{
		{ix("a", false, "x"), ix("b", false, "x", "y"), true}, {ix("a", true, "x"), ix("b", true, "x", "y"), false},
		{ix("a", false, "x", "y"), ix("b", false, "x"), false}, {ix("a", false, "x"), ix("b", false, "y", "x"), false},
		{ix("a", false, "x"), ix("b", true, "x"), true}, {ix("a", true, "x"), ix("b", false, "x"), false},
		{ix("a", false, "x"), ix("b", false, "X"), false}, {ix("b", false, "x"), ix("a", false, "X"), true},
		{ix("u", true, "x"), ix("PRIMARY", true, "x"), true}, {ix("PRIMARY", true, "x"), ix("u", true, "x"), false},
		{flat{name: "p", cols: []string{"x"}, partly: true}, ix("b", false, "x", "y"), false},
	} {
		if got := x.a.redundantTo(&x.b); got != x.want {
			t.Errorf("%v beside %v: %v", x.a, x.b, got)
		}
	}
}
