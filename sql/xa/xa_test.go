package xa

import (
	"bytes"
	"testing"

	"github.com/godwitdb/godwit/sql/token"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct {
		verb string
		id   ID
		rest string
		bad  bool
	}{
		"XA START 'a'":                     {verb: "start", id: ID{1, []byte("a"), nil}},
		"xa begin 'a','b',0x10; SELECT 1":  {verb: "start", id: ID{16, []byte("a"), []byte("b")}, rest: " SELECT 1"},
		"XA END X'00ff', 0x1":              {verb: "end", id: ID{1, []byte{0, 255}, []byte{1}}},
		"XA PREPARE 'it''s'":               {verb: "prepare", id: ID{1, []byte("it's"), nil}},
		"XA COMMIT \"a\",'' , 7 ONE PHASE": {verb: "commit", id: ID{7, []byte("a"), nil}},
		"XA ROLLBACK '',''":                {verb: "rollback", bad: true},
		"XA RECOVER CONVERT XID":           {verb: "recover"},
		"XA RECOVER 'a'":                   {verb: "recover", bad: true},
		"XA END 'a' SUSPEND FOR MIGRATE":   {verb: "end", id: ID{1, []byte("a"), nil}, bad: true},
		"XA START a":                       {verb: "start", bad: true},
		"XA START X'0'":                    {verb: "start", bad: true},
		"XA START 'a','b','c'":             {verb: "start", bad: true},
		"XA START 'a','b',2147483648":      {verb: "start", bad: true},
		"XA FLY 'a'":                       {verb: "fly", bad: true},
		"XA /* */ START 'a'":               {verb: "start", id: ID{1, []byte("a"), nil}},
	} {
		st, rest := Parse(text, token.Mode{})
		switch {
		case st == nil || st.verb != want.verb || rest != want.rest || (st.bad != nil) != want.bad:
			t.Errorf("%s: %+v, rest %q", text, st, rest)
		case !want.bad && (st.id.Format != want.id.Format || !bytes.Equal(st.id.Global, want.id.Global) || !bytes.Equal(st.id.Own, want.id.Own)):
			t.Errorf("%s: %+v", text, st.id)
		}
	}
	for _, text := range []string{"", "X", "XA", "SELECT 1", "XAB 1", "EXPLAIN XA START 'a'"} {
		if st, _ := Parse(text, token.Mode{}); st != nil {
			t.Errorf("%q is taken for %+v", text, st)
		}
	}
}

// FuzzParse: no text makes it panic, and what is read has a name of its own.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"XA START 'a','b',3", "XA COMMIT X'00' ONE PHASE;", "XA END 0x1 SUSPEND", "XA RECOVER", "XA X' '", "xa start '\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		st, rest := Parse(text, token.Mode{})
		if st == nil {
			return
		}
		if len(rest) > len(text) {
			t.Fatalf("%q: what is left is longer", text)
		}
		if st.bad != nil || st.verb == "recover" {
			return
		}
		x, ok := Parsed(st.id.Name())
		if !ok || x.Format != st.id.Format || !bytes.Equal(x.Global, st.id.Global) || !bytes.Equal(x.Own, st.id.Own) {
			t.Fatalf("%q: the name of %+v is that of %+v", text, st.id, x)
		}
	})
}

func TestEnds(t *testing.T) {
	for text, want := range map[string]bool{"COMMIT": true, "rollback to s": false, "ROLLBACK WORK TO SAVEPOINT s": false, "ROLLBACK": true,
		"CREATE TEMPORARY TABLE t (a INT)": false, "create table t (a int)": true, "START TRANSACTION": true, "INSERT INTO t VALUES (1)": false,
		"/* x */ BEGIN": true, "UNLOCK TABLES": true, "": false} {
		if ends(text) != want {
			t.Errorf("%q: ends is %v", text, !want)
		}
	}
	for text, want := range map[string]bool{"SELECT 1": false, "SELECT a FROM t": true, "SET @a = 1": false, "INSERT INTO t VALUES (1)": true,
		"SELECT 'from'": false} {
		if uses(text) != want {
			t.Errorf("%q: uses is %v", text, !want)
		}
	}
}
