package token

import (
	"fmt"
	"strings"
	"testing"
)

func TestScan(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT a.`b c`, 'it''s\\n' -- x\n, \"q\"":  "w:SELECT w:a o:. q:b c o:, s:it's\n o:, s:q",
		"@x := @`y z` + @@global.v":                 "u:x o::= u:y z o:+ v:global.v",
		"1.5e-3 0x1F .5 1a ? /* c */ /*!50000 b */": "n:1.5e-3 n:0x1F n:.5 n:1a p:? w:b",
		"a--b -- c": "w:a o:- o:- w:b",
	} {
		var out []string
		for _, k := range Scan(text, Mode{}) {
			if k.Kind != End {
				out = append(out, fmt.Sprintf("%c:%s", " wqsnuvpo"[k.Kind], k.Text))
			}
		}
		if got := strings.Join(out, " "); got != want {
			t.Errorf("%s:\n%q, want\n%q", text, got, want)
		}
	}
}

func TestCutInto(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1, 2 INTO @a, b FROM t":                        "SELECT 1, 2   FROM t|@a b",
		"SELECT x FROM t WHERE y = 'into' INTO @`q`":           "SELECT x FROM t WHERE y = 'into'  |@q",
		"SELECT 1 INTO OUTFILE 'x'":                            "",
		"SELECT (SELECT 1 INTO @x)":                            "",
		"SELECT 1":                                             "",
		"WITH c AS (SELECT 1 a) INSERT INTO t SELECT a FROM c": "",
	} {
		got := ""
		if in := CutInto(text, Mode{}); in != nil {
			var names []string
			for _, v := range in.To {
				if v.User {
					v.Name = "@" + v.Name
				}
				names = append(names, v.Name)
			}
			got = in.Text + "|" + strings.Join(names, " ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
