package program

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/token"
)

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]int{
		"CREATE PROCEDURE p() BEGIN SELECT 1 END":                                                             1064,
		"CREATE PROCEDURE p() BEGIN SELECT 1; DECLARE x INT; END":                                             1064,
		"CREATE PROCEDURE p() BEGIN LEAVE nowhere; END":                                                       1308,
		"CREATE PROCEDURE p() l: BEGIN ITERATE l; END":                                                        1308,
		"CREATE PROCEDURE p() l: BEGIN SELECT 1; END m":                                                       1310,
		"CREATE PROCEDURE p(a INT, A INT) SELECT 1":                                                           1330,
		"CREATE PROCEDURE p() BEGIN DECLARE x, X INT; END":                                                    1331,
		"CREATE PROCEDURE p() BEGIN DECLARE c CURSOR FOR SELECT 1; DECLARE x INT; END":                        1337,
		"CREATE PROCEDURE p() BEGIN DECLARE EXIT HANDLER FOR 1 BEGIN END; DECLARE c CURSOR FOR SELECT 1; END": 1338,
		"CREATE PROCEDURE p() BEGIN OPEN c; END":                                                              1324,
		"CREATE PROCEDURE p() BEGIN SIGNAL c; END":                                                            1319,
		"CREATE PROCEDURE p() BEGIN DECLARE c CONDITION FOR 5; SIGNAL c; END":                                 1646,
		"CREATE PROCEDURE p() BEGIN DECLARE c CONDITION FOR SQLSTATE '00000'; END":                            1407,
		"CREATE PROCEDURE p() USE test":                                                                       1314,
		"CREATE PROCEDURE p(n CHAR(3)) SELECT 1 LIMIT n":                                                      1691,
		"CREATE PROCEDURE p() CREATE PROCEDURE q() SELECT 1":                                                  1303,
		"CREATE PROCEDURE p() BEGIN CREATE FUNCTION f() RETURNS INT RETURN 1; END":                            1303,
		"CREATE PROCEDURE p() " + strings.Repeat("BEGIN ", 600) + strings.Repeat("END; ", 600):                1436,
	} {
		_, err := Parse(text, token.Mode{})
		var me *mysql.SQLError
		if !errors.As(err, &me) || me.Num != want {
			t.Errorf("%.80s: %v, want error %d", text, err, want)
		}
		if want == 1303 && strings.Contains(text, "FUNCTION") != strings.Contains(me.Message, "FUNCTION") {
			t.Errorf("%.80s: %v names another kind", text, err)
		}
	}
	// A text is cut between characters.
	_, err := Parse("CREATE PROCEDURE p() BEGIN DECLARE ; "+strings.Repeat("é", 60), token.Mode{})
	_, odd := Parse("CREATE PROCEDURE p() BEGIN DECLARE ; a"+strings.Repeat("é", 60), token.Mode{})
	if err == nil || odd == nil || !utf8.ValidString(err.Error()) || !utf8.ValidString(odd.Error()) {
		t.Errorf("errors of long texts: %q, %q", err, odd)
	}
}

func TestParse(t *testing.T) {
	p, err := Parse("CREATE DEFINER = `a b`@`%` PROCEDURE d.p(IN a INT, INOUT `b c` DECIMAL(10, 2) UNSIGNED, o varchar(5) CHARACTER SET utf8mb4)\n"+
		"COMMENT 'it''s' READS SQL DATA SQL SECURITY INVOKER l: BEGIN -- end;\n"+
		"DECLARE x, y INT DEFAULT (CASE WHEN a > 1 THEN 2 ELSE 3 END); IF a IN (1, 2) THEN SET x = IF(a, 1, 2), @y := ';'; "+
		"ELSEIF REPEAT('x', 2) = 'xx' THEN LEAVE l; END IF; END l;", token.Mode{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Params) != 3 || !p.Params[1].Out || p.Params[1].Type != "DECIMAL(10, 2) UNSIGNED" || p.Params[2].Name != "o" ||
		p.Params[2].Type != "varchar(5) CHARACTER SET utf8mb4" {
		t.Errorf("parameters: %+v", p.Params)
	}
	b := p.Body.(*Block)
	if b.Label != "l" || string(b.Vars[0].Default) != "(CASE WHEN a > 1 THEN 2 ELSE 3 END)" {
		t.Errorf("block: %+v", b)
	}
	n := b.Body[0].(*If)
	s := n.Whens[0].Then[0].(*Set)
	if len(n.Whens) != 2 || string(n.Whens[1].Cond) != "REPEAT('x', 2) = 'xx'" || len(s.To) != 2 || string(s.To[0].Value) != "IF(a, 1, 2)" ||
		!s.To[1].User || string(s.To[1].Value) != "';'" {
		t.Errorf("statements: %+v %+v", n, s)
	}
	tr, err := Parse("create trigger t after update on `x` for each row follows u set new.a = old.b + new.c", token.Mode{})
	if err != nil {
		t.Fatal(err)
	}
	if h := tr.Trigger; h.Before || h.Event != "update" || h.Table != "x" || h.Follows != "u" ||
		strings.Join(tr.Reads, ",") != "b,c" || strings.Join(tr.Sets, ",") != "a" {
		t.Errorf("trigger: %+v", tr)
	}
}

// FuzzParse: no text makes the parser panic or stand still.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"CREATE PROCEDURE p() BEGIN DECLARE x INT; SET x = 1; END", "CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
		"CREATE PROCEDURE p() CASE 1 WHEN 1 THEN SELECT 1; END CASE", "CREATE PROCEDURE p() GET DIAGNOSTICS CONDITION 1 @a = MESSAGE_TEXT", "@`", "1e", "/*", "'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, _ = Parse(s, token.Mode{})
		_, _ = ParseCall(s, token.Mode{})
		_ = token.CutInto(s, token.Mode{})
	})
}
