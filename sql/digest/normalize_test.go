package digest

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ q, want string }{
		{"select * from T where id=1", "SELECT * FROM `T` WHERE `id` = ?"},
		{"SELECT  *\n FROM T /* c */ WHERE id = 17 -- end", "SELECT * FROM `T` WHERE `id` = ?"},
		{"SELECT a FROM t WHERE b = -17 AND -1 < +5 OR c BETWEEN -1 AND -2",
			"SELECT `a` FROM `t` WHERE `b` = - ? AND ? < + ? OR `c` BETWEEN ? AND ?"}, // as MySQL does
		{"SELECT a-1, b - -1, +1 FROM d.t;", "SELECT `a` - ? , `b` - ?, ... FROM `d` . `t`"},
		{"SELECT * FROM t WHERE a IN (1)", "SELECT * FROM `t` WHERE `a` IN (...)"},
		{"SELECT * FROM t WHERE a IN (1,2,'x',0x1F,null)", "SELECT * FROM `t` WHERE `a` IN (...)"},
		{"SELECT * FROM t WHERE a NOT IN (b, 1, 2)", "SELECT * FROM `t` WHERE `a` NOT IN ( `b` , ?, ... )"},
		{"SELECT * FROM t WHERE (a,b) IN ((1,2),(3,4))", "SELECT * FROM `t` WHERE ( `a` , `b` ) IN ( (...) /* , ... */ )"},
		{"INSERT INTO t VALUES (1)", "INSERT INTO `t` VALUES (?)"},
		{"INSERT INTO t VALUES (1),(2), (3)", "INSERT INTO `t` VALUES (?) /* , ... */"},
		{"INSERT INTO t (a,b) VALUES (1,'b')", "INSERT INTO `t` ( `a` , `b` ) VALUES (...)"},
		{"INSERT INTO t (a,b) VALUES (1,'b'), (?,NULL),(-1,x'00')", "INSERT INTO `t` ( `a` , `b` ) VALUES (...) /* , ... */"},
		{"INSERT INTO t VALUES (1, NOW()), (2, now())", "INSERT INTO `t` VALUES ( ? , NOW ( ) ) , ( ? , NOW ( ) )"},
		{"SELECT a FROM t WHERE a IS NULL OR b IS NOT NULL OR c <=> NULL LIMIT 5, 10",
			"SELECT `a` FROM `t` WHERE `a` IS NULL OR `b` IS NOT NULL OR `c` <=> ? LIMIT ?, ..."},
		{"SELECT @@version_comment LIMIT 1", "SELECT @@`version_comment` LIMIT ?"},
		{"SELECT @@global.sql_mode, @a, @`b c`, @'d'", "SELECT @@GLOBAL . `sql_mode` , @? , @`b c` , @?"},
		{"SELECT COUNT(*), count (x), t.count FROM t", "SELECT COUNT ( * ) , `count` ( `x` ) , `t` . `count` FROM `t`"},
		{"SELECT 'it''s', \"a\\\"b\", N'x', _utf8mb4 'y', b'01', 0b01, 1.5e-3, .5, 1e3, 1e, 0xZZ, 1a",
			"SELECT ?, ... , (_charset) ?, ... , `1e` , `0xZZ` , `1a`"},
		{"SELECT 1 <> 2, 1 != 2 # no more", "SELECT ? != ?, ... != ?"},
		{"SELECT /*! 1, */ 2, /*!80000 a */ , /*!99 b*/", "SELECT ?, ... , `a` , `b`"},
		{"SELECT /*+ MAX_EXECUTION_TIME(1000) */ 1", "SELECT /*+ MAX_EXECUTION_TIME (?) */ ?"},
		{"SELECT a /*+ none */ FROM t", "SELECT `a` FROM `t`"},
		{"SELECT 1; SELECT 2", "SELECT ?"},
		{"CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END", "CREATE PROCEDURE `p` ( ) BEGIN SELECT ? ; SELECT ? ; END"},
		{"select doc->>'$.a' from t where a=b or a:=c", "SELECT `doc` ->> ? FROM `t` WHERE `a` = `b` OR `a` := `c`"},
		{"SELECT 'unterminated secret", "SELECT ?"},
		{"SELECT `a``b`, `é`, é", "SELECT `a``b` , `é` , `é`"},
		{"", ""},
		{"-- x", ""},
		{"SELECT 5-- x", "SELECT ?"},
		{"SELECT 5--1", "SELECT ? - ?"},
		{"CREATE USER u@localhost IDENTIFIED BY 'secret'", "CREATE USER `u` @? IDENTIFIED BY ?"},
		{"ALTER USER u IDENTIFIED BY pa$$-w0rd, v IDENTIFIED WITH x BY select",
			"ALTER USER `u` IDENTIFIED BY ? `v` IDENTIFIED WITH `x` BY ?"},
		{"SET PASSWORD = hunter2", "SET PASSWORD = ?"},
		{"SET PASSWORD FOR 'a'@'b' = 'hunter2'", "SET PASSWORD FOR ? @? = ?"},
	} {
		if got := Text(c.q, 0); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.q, got, c.want)
		}
	}
}

// TestTextModes: what is a literal, and where one ends, is what the session's sql_mode says.
func TestTextModes(t *testing.T) {
	for _, c := range []struct {
		q    string
		mode Mode
		want string
	}{
		{`SELECT "a", 'b'`, AnsiQuotes, "SELECT `a` , ?"},
		{`SELECT 'a\', 'secret'`, NoBackslashEscapes, "SELECT ?, ..."},
		{`SELECT 'a\', 'secret'`, 0, "SELECT ? `secret` ?"},
	} {
		if got := Text(c.q, c.mode); got != c.want {
			t.Errorf("%s (%d)\ngot  %s\nwant %s", c.q, c.mode, got, c.want)
		}
	}
}

// TestTextIsBounded: a text that is too long is cut between two characters.
func TestTextIsBounded(t *testing.T) {
	for _, part := range []string{"a, ", "é, ", "世界, "} {
		got := Text("SELECT "+strings.Repeat(part, MaxText), 0)
		if len(got) > MaxText+3 || len(got) < MaxText || !strings.HasSuffix(got, "...") || strings.ToValidUTF8(got, "#") != got {
			t.Errorf("%q: %d bytes, ends with %q", part, len(got), got[len(got)-20:])
		}
	}
	if got := Text("INSERT INTO t VALUES "+strings.Repeat("(1, 'x'), ", 100_000)+"(2, 'y')", 0); len(got) > 60 {
		t.Errorf("rows are not one: %s", got)
	}
}

// TestWords: no keyword is longer than lookup looks.
func TestWords(t *testing.T) {
	n := 0
	for w := range words {
		n = max(n, len(w))
	}
	if n != longest {
		t.Errorf("the longest keyword has %d letters", n)
	}
	for pair := range strings.SplitSeq(synonyms, "|") {
		f := strings.Fields(pair)
		if words[f[0]] == nil || words[f[1]] == nil || words[f[1]].text != words[f[0]].text {
			t.Errorf("%s and %s are not one", f[0], f[1])
		}
	}
}

// FuzzText: no text breaks the scanner, nothing of a literal is in a digest text, and what was
// normalised stays as it is but for what digest texts have of their own.
func FuzzText(f *testing.F) {
	for _, q := range []string{"SELECT 'a' FROM t WHERE x IN (1,2)", "a.1.2e5 .5 @@x @'", "/*!50000 x */ /*+", "\\'", "'\\"} {
		f.Add(q, uint8(0))
	}
	f.Fuzz(func(t *testing.T, q string, mode uint8) {
		got := Text(q, Mode(mode&3))
		if len(got) > MaxText+3 {
			t.Errorf("%d bytes", len(got))
		}
		if got := Redact(q, Mode(mode&3)); len(got) > MaxSample {
			t.Errorf("%d bytes of a sample", len(got))
		}
		if literal := strings.ReplaceAll(q, "'", "''"); mode == uint8(NoBackslashEscapes) {
			if got := Text("SELECT '"+literal+"' FROM t", NoBackslashEscapes); got != "SELECT ? FROM `t`" {
				t.Errorf("%q is no literal: %s", q, got)
			}
		}
	})
}
