package describe

import (
	"testing"

	"github.com/godwitdb/godwit/sql/token"
)

// TestBare: no literal and no comment is left, whatever sql_mode the text was written in.
func TestBare(t *testing.T) {
	for _, c := range []struct {
		text, want string
		mode       token.Mode
		table      bool
	}{
		{"SELECT a, 'x' /* secret */ FROM t -- secret\n WHERE b = \"secret\" AND c < 4711", "SELECT a, '?' FROM t\nWHERE b = '?' AND c < ?",
			token.Mode{}, false},
		{`SELECT "a" FROM t WHERE b = 'secret'`, `SELECT "a" FROM t WHERE b = '?'`, token.Mode{ANSIQuotes: true}, false},
		{`SELECT 'a\', 'secret'`, `SELECT '?', '?'`, token.Mode{NoBackslashEscapes: true}, false},
		{`SELECT 'a\', secret'`, `SELECT '?'`, token.Mode{}, false},
		{`SELECT 'secret`, `SELECT '?'`, token.Mode{}, false},
		{"CREATE TABLE `t` (\n  `a` decimal(10,2) DEFAULT '5',\n  `e` enum('x','y') DEFAULT 'x',\n  `b` bit(1) DEFAULT b'1',\n" +
			"  KEY `k` (`c`(7), (`a` + 5)),\n  CHECK ((`a` < 5))\n) COMMENT='secret'",
			"CREATE TABLE `t` (\n  `a` decimal(10,2) DEFAULT '?',\n  `e` enum('x','y') DEFAULT '?',\n  `b` bit(1) DEFAULT b'?',\n" +
				"  KEY `k` (`c`(7), (`a` + ?)),\n  CHECK ((`a` < ?))\n) COMMENT='?'", token.Mode{}, true},
		{"CREATE FUNCTION f(n VARCHAR(10)) RETURNS INT RETURN 0x1F", "CREATE FUNCTION f(n VARCHAR(?)) RETURNS INT RETURN ?",
			token.Mode{}, false},
	} {
		if got := bare(c.text, c.mode, c.table); got != c.want {
			t.Errorf("%s\nis %s\nwant %s", c.text, got, c.want)
		}
	}
}
