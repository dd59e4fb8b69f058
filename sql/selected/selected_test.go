package selected

import (
	"testing"

	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/token"
)

// TestCreate: the columns of the query stand behind those that the statement alone defines, options
// and keys stay, and words in strings and parentheses are no query.
func TestCreate(t *testing.T) {
	const text = "`b``c` text CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin"
	cols := []Column{{Name: "a", Type: types.Int32, NotNull: true}, {Name: "b`c", Type: types.Text}}
	for _, c := range []struct {
		text, want string
		own        bool
	}{
		{"CREATE TABLE t AS SELECT 1", "CREATE TABLE t (`a` int NOT NULL DEFAULT '0', " + text + ")", false},
		{"create temporary table if not exists d.t (SELECT 1)",
			"create temporary table if not exists d.t (`a` int NOT NULL DEFAULT '0', " + text + ")", false},
		{"CREATE TABLE `t` COMMENT='(SELECT' IGNORE AS WITH x AS (SELECT 1) SELECT * FROM x",
			"CREATE TABLE `t` (`a` int NOT NULL DEFAULT '0', " + text + ") COMMENT='(SELECT'", false},
		{"CREATE TABLE t (a BIGINT, z DECIMAL(4,2) DEFAULT 1.5, KEY (a, z)) ENGINE=InnoDB REPLACE SELECT 1",
			"CREATE TABLE t (z DECIMAL(4,2) DEFAULT 1.5, a BIGINT, " + text + ", KEY (a, z)) ENGINE=InnoDB", true},
		{"CREATE TABLE t (a INT)", "", false},
		{"CREATE TABLE t (a INT COMMENT 'SELECT')", "", false},
		{"CREATE TABLE t", "", false},
		{"SELECT 'CREATE TABLE t'", "", false},
	} {
		o := Cut(c.text, token.Mode{})
		if (o == nil) != (c.want == "") {
			t.Errorf("%s is cut to %+v", c.text, o)
		}
		if o == nil {
			continue
		}
		if got, err := o.Create(map[string]bool{"a": c.own, "z": c.own}, cols); err != nil || got != c.want {
			t.Errorf("%s\nbecomes %s, %v\nwant    %s", c.text, got, err, c.want)
		}
	}
	o := &Table{}
	if _, err := o.Create(nil, []Column{{Name: "a", Type: types.Int32}, {Name: "A", Type: types.Int32}}); err == nil {
		t.Error("two columns have one name")
	}
}

func FuzzCut(f *testing.F) {
	f.Add("CREATE TABLE t (a INT, KEY (a)) ENGINE=InnoDB AS SELECT 1")
	f.Add("create table a.b(select 1)")
	f.Fuzz(func(_ *testing.T, text string) {
		if o := Cut(text, token.Mode{}); o != nil {
			o.Plain()
			_, _ = o.Create(nil, []Column{{Name: "x", Type: types.Int32}})
		}
	})
}
