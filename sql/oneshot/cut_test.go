package oneshot

import (
	"slices"
	"strings"
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

// TestStraight: which statements of a procedure are those of its program, if each UPDATE changes a
// row, and each SELECT returns some.
func TestStraight(t *testing.T) {
	for body, want := range map[string][]string{
		"BEGIN START TRANSACTION; UPDATE t SET n = 1; SELECT 1; COMMIT; END":                 {"UPDATE t SET n = 1", "SELECT 1", "COMMIT"},
		"BEGIN SELECT 2; START TRANSACTION; UPDATE t SET n = 1; COMMIT; END":                 {"UPDATE t SET n = 1", "COMMIT"},
		"BEGIN START TRANSACTION; UPDATE t SET n = 1; COMMIT; SELECT 2; END":                 {"UPDATE t SET n = 1", "COMMIT"},
		"BEGIN DECLARE i INT; START TRANSACTION; SELECT 1; COMMIT; END":                      {"SELECT 1", "COMMIT"},
		"BEGIN UPDATE t SET n = 1; SELECT 1; COMMIT; END":                                    nil,
		"BEGIN START TRANSACTION; UPDATE t SET n = 1; END":                                   nil,
		"BEGIN START TRANSACTION; UPDATE t SET n = 1; ROLLBACK; END":                         nil,
		"BEGIN START TRANSACTION; IF 1 THEN SELECT 1; END IF; COMMIT; END":                   nil,
		"BEGIN START TRANSACTION; SELECT 1; SET @a = 1; COMMIT; END":                         nil,
		"BEGIN START TRANSACTION; CALL q(); COMMIT; END":                                     nil,
		"BEGIN START TRANSACTION; WHILE ROW_COUNT() > 5 DO SELECT 1; END WHILE; COMMIT; END": nil,
		"UPDATE t SET n = 1": nil,
		"BEGIN DECLARE i INT; SET i = 1; IF i > 2 THEN SIGNAL SQLSTATE '45000'; END IF; START TRANSACTION; SELECT 1; COMMIT; END": {
			"SELECT 1", "COMMIT"},
		"BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END; START TRANSACTION; SELECT 1; COMMIT; END": {
			"SELECT 1", "COMMIT"},
		"BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION START TRANSACTION; SELECT 2; START TRANSACTION; SELECT 1; COMMIT; END": nil,
		"BEGIN IF 1 THEN START TRANSACTION; END IF; SELECT 2; START TRANSACTION; SELECT 1; COMMIT; END":                         nil,
		"BEGIN CALL q(); START TRANSACTION; SELECT 1; COMMIT; END":                                                              nil,
		"BEGIN START TRANSACTION; UPDATE t SET n = 1; IF ROW_COUNT() = 0 THEN SIGNAL SQLSTATE '45000'; END IF; SELECT 1; COMMIT; END": {
			"UPDATE t SET n = 1", "SELECT 1", "COMMIT"},
		"BEGIN START TRANSACTION; UPDATE t SET n = 1; IF row_count() <> 1 THEN ROLLBACK; ELSE UPDATE t SET n = 2; COMMIT; END IF; END": {
			"UPDATE t SET n = 1", "UPDATE t SET n = 2", "COMMIT"},
		"BEGIN START TRANSACTION; SELECT 1; IF (ROW_COUNT() < 0) THEN SELECT 2; ELSEIF ROW_COUNT() > 7 THEN SELECT 3; END IF; COMMIT; END": {
			"SELECT 1", "SELECT 2", "COMMIT"},
		"BEGIN START TRANSACTION; UPDATE t SET n = 1; IF ROW_COUNT() THEN SELECT 2; END IF; COMMIT; END":     nil,
		"BEGIN START TRANSACTION; UPDATE t SET n = 1; IF ROW_COUNT() = 1 THEN ROLLBACK; END IF; COMMIT; END": nil,
	} {
		p, err := program.Parse("CREATE PROCEDURE p() "+body, token.Mode{})
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		var got []string
		rows := int64(0)
		ended, why := straight(transaction(p.Body), &rows, func(text string) (int64, string) {
			got = append(got, text)
			if strings.HasPrefix(text, "SELECT") {
				return -1, ""
			}
			return 1, ""
		})
		if !ended || why != "" {
			got = nil
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q", body, got)
		}
	}
}

func TestCompares(t *testing.T) {
	for cond, want := range map[string]string{"ROW_COUNT() = 0": "010", "row_count( ) <> 1": "110", "(ROW_COUNT() >= 1)": "001"} {
		got := ""
		for _, n := range []int64{-1, 0, 1} {
			yes, ok := compares(cond, n)
			got += map[bool]string{true: "1", false: "0"}[yes && ok]
		}
		if got != want {
			t.Errorf("%s is %s of -1, 0 and 1", cond, got)
		}
	}
	for _, cond := range []string{"ROW_COUNT() = n", "ROW_COUNT() = 1 OR 1", "NOT ROW_COUNT() = 1", "f(ROW_COUNT()) = 1", "ROW_COUNT()"} {
		if _, ok := compares(cond, 1); ok {
			t.Errorf("%s is computed", cond)
		}
	}
}
