package jsontable

import (
	"fmt"
	"strings"
	"testing"
)

func TestCut(t *testing.T) {
	put := func(doc string, n int) string { return fmt.Sprintf("<%s|%d>", doc, n) }
	for in, want := range map[string]string{
		"SELECT 1": "SELECT 1",
		"SELECT * FROM JSON_TABLE(t.j, '$' COLUMNS (a INT PATH '$.a')) x":                                                                                 "SELECT * FROM <t.j|0> x",
		"SELECT * FROM json_table ( f(a, 'b,c') , '$' columns(n for ordinality)) x, JSON_TABLE(x.n, \"$\" COLUMNS (a JSON EXISTS PATH '$')) y":            "SELECT * FROM <f(a, 'b,c')|0> x, <x.n|1> y",
		"SELECT 'json_table(', `json_table`, \"JSON_TABLE(\" /* JSON_TABLE( */ FROM t -- json_table(":                                                     "",
		"SELECT * FROM JSON_TABLE(j, '$' COLUMNS (a DECIMAL(4, 2) PATH '$.a' DEFAULT -1 ON EMPTY ERROR ON ERROR, NESTED '$' COLUMNS (b INT PATH '$'))) x": "SELECT * FROM <j|0> x",
		// None of these is JSON_TABLE.
		"SELECT * FROM JSON_TABLE(j, '$') x":                                                      "",
		"SELECT * FROM JSON_TABLE(j, p COLUMNS (a INT PATH '$')) x":                               "",
		"SELECT * FROM JSON_TABLE(, '$' COLUMNS (a INT PATH '$')) x":                              "",
		"SELECT * FROM JSON_TABLE(j, '$' COLUMNS ()) x":                                           "",
		"SELECT * FROM JSON_TABLE(j, '$' COLUMNS (a PATH '$')) x":                                 "",
		"SELECT * FROM JSON_TABLE(j, '$' COLUMNS (a INT PATH '$' NULL ON EMPTY NULL ON EMPTY)) x": "",
		"SELECT * FROM JSON_TABLE(j, '$' COLUMNS (a INT PATH '$' DEFAULT ON EMPTY)) x":            "",
		"SELECT * FROM JSON_TABLE(j, '$' COLUMNS (a INT PATH '$'":                                 "",
		"SELECT * FROM JSON_TABLE((j, '$' COLUMNS":                                                "",
	} {
		if want == "" {
			want = in
		}
		got, calls := Cut(in, Mode{}, put)
		if got != want || (calls == nil) != (want == in) {
			t.Errorf("%s\nis  %s\nnot %s", in, got, want)
		}
		for _, c := range calls {
			if !strings.Contains(in, c.Written) {
				t.Errorf("%q was not written", c.Written)
			}
		}
	}
	_, calls := Cut(`SELECT * FROM JSON_TABLE(j, '$\n' COLUMNS ("a" INT PATH '$.''a' DEFAULT +1 ON ERROR)) x`, Mode{ANSIQuotes: true,
		NoBackslashEscapes: true}, put)
	if len(calls) != 1 || calls[0].Def.Path != `$\n` || calls[0].Def.Cols[0].Name != "a" ||
		calls[0].Def.Cols[0].OnError != (Response{Default, "1"}) || calls[0].Def.Cols[0].Path != "$.'a" {
		t.Errorf("%+v", calls)
	}
}

func FuzzCut(f *testing.F) {
	f.Add("SELECT * FROM JSON_TABLE(j, '$' COLUMNS (a INT PATH '$')) x")
	f.Fuzz(func(t *testing.T, in string) {
		got, calls := Cut(in, Mode{}, func(string, int) string { return "" })
		if calls == nil && got != in {
			t.Errorf("%q became %q", in, got)
		}
	})
}
