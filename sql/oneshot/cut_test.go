package oneshot

import (
	"slices"
	"testing"

	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/token"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text, head, rest string
		ok               bool
	}{
		{"BEGIN; UPDATE t", "BEGIN", "UPDATE t", true},
		{"a ;\n ; b;", "a ", "b;", true},
		{"a", "a", "", true},
		{"", "", "", true},
		{"x = 'a;b'; y", "x = 'a;b'", "y", true},
		{"x = 'a''b;c'; y", "x = 'a''b;c'", "y", true},
		{"x = `a;b`; y", "x = `a;b`", "y", true},
		{"n - 1; y", "n - 1", "y", true},
		{"n / 2; y", "n / 2", "y", true},
		{"x = 'a", "", "", false},
		{`x = 'a\'; b'; y`, "", "", false},
		{`x = "a;b"; y`, "", "", false},
		{"x -- a;b\n; y", "", "", false},
		{"x /* a;b */; y", "", "", false},
		{"x # a;b\n; y", "", "", false},
	} {
		head, rest, ok := Cut(c.text)
		if head != c.head || rest != c.rest || ok != c.ok {
			t.Errorf("Cut(%q) is %q, %q, %v", c.text, head, rest, ok)
		}
	}
}

func TestTxOf(t *testing.T) {
	for text, want := range map[string]Tx{"begin": TxBegin, " START transaction;": TxBegin, "Commit": TxCommit,
		"ROLLBACK ;": TxRollback, "BEGIN WORK": TxNone, "COMMIT AND CHAIN": TxNone, "": TxNone,
		"START TRANSACTION READ ONLY": TxNone} {
		if got := TxOf(text); got != want {
			t.Errorf("TxOf(%q) is %v", text, got)
		}
	}
	for text, want := range map[string]bool{"BEGIN; x": true, "begin": false, "\n start transaction; x": true, "select 1; begin": false,
		"beginning; x": true} { // the last one is told apart by TxOf
		if got := begins(text); got != want {
			t.Errorf("begins(%q) is %v", text, got)
		}
	}
	for text, want := range map[string]bool{"SELECT(1)": true, "call p()": true, "CREATE PROCEDURE p() BEGIN x": false,
		"COMMIT": true, "": false, "UPDATE\tt": true} {
		if got := Plain(text); got != want {
			t.Errorf("Plain(%q) is %v", text, got)
		}
	}
}

func TestStraight(t *testing.T) {
	for body, want := range map[string][]string{
		"BEGIN START TRANSACTION; UPDATE t SET n = 1; SELECT 1; COMMIT; END": {"UPDATE t SET n = 1", "SELECT 1"},
		"BEGIN UPDATE t SET n = 1; SELECT 1; COMMIT; END":                    nil,
		"BEGIN START TRANSACTION; UPDATE t SET n = 1; END":                   nil,
		"BEGIN START TRANSACTION; COMMIT; END":                               nil,
		"BEGIN START TRANSACTION; COMMIT; SELECT 1; COMMIT; END":             nil,
		"BEGIN DECLARE i INT; START TRANSACTION; SELECT 1; COMMIT; END":      nil,
		"BEGIN START TRANSACTION; IF 1 THEN SELECT 1; END IF; COMMIT; END":   nil,
		"BEGIN START TRANSACTION; CALL q(); COMMIT; END":                     nil,
		"UPDATE t SET n = 1": nil,
	} {
		p, err := program.Parse("CREATE PROCEDURE p() "+body, token.Mode{})
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got := straight(p.Body); !slices.Equal(got, want) {
			t.Errorf("%s: %q", body, got)
		}
	}
}
