package server

import (
	"testing"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// TestPadSpaceOfOlderStores: the keys of a column that an older version has made have the spaces at
// the end of texts. MODIFY, also with the same definition, writes them anew, and says so if two of
// them are one.
func TestPadSpaceOfOlderStores(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (s VARCHAR(10) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT)")
	_, err := s.g.Redefine(t.Context(), "test", "t", func(_ kv.Txn, _ *schema.Table, d *schema.TableDesc) error {
		if !d.Cols[0].Padded {
			t.Error("a new table has such keys")
		}
		d.Cols[0].Padded = false
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, c, "INSERT INTO t VALUES ('a', 1), ('a ', 2), ('b ', 3)")
	expect(t, c, "SELECT n FROM t WHERE s = 'a'", "1")
	expect(t, c, "SELECT COUNT(*) FROM t WHERE CONCAT(s, '') = 'a'", "2")
	expectErr(t, c, 1062, "ALTER TABLE t MODIFY s VARCHAR(10) COLLATE utf8mb4_general_ci")
	exec(t, c, "DELETE FROM t WHERE n = 2")
	exec(t, c, "ALTER TABLE t MODIFY s VARCHAR(10) COLLATE utf8mb4_general_ci")
	expect(t, c, "SELECT n FROM t WHERE s = 'b'", "3")
	expect(t, c, "SELECT n FROM t WHERE s = 'a   '", "1")
	expectErr(t, c, 1062, "INSERT INTO t VALUES ('a  ', 4)")
}

// TestExpansionsOfOlderStores: the keys of a column that an older version has made have one weight
// for each character. What is compared without them is not; MODIFY writes them anew.
func TestExpansionsOfOlderStores(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (s VARCHAR(10) PRIMARY KEY, n INT)")
	_, err := s.g.Redefine(t.Context(), "test", "t", func(_ kv.Txn, _ *schema.Table, d *schema.TableDesc) error {
		if !d.Cols[0].Expanded {
			t.Error("a new table has such keys")
		}
		d.Cols[0].Expanded = false
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, c, "INSERT INTO t VALUES ('Maß', 1), ('Mass', 2), ('Fuß', 3)")
	expect(t, c, "SELECT n FROM t WHERE s = 'mass'", "2")
	expect(t, c, "SELECT n FROM t WHERE s LIKE 'fuß%'", "3")
	expect(t, c, "SELECT COUNT(*) FROM t WHERE CONCAT(s, '') = 'mass'", "2")
	expectErr(t, c, 1062, "ALTER TABLE t MODIFY s VARCHAR(10)")
	exec(t, c, "DELETE FROM t WHERE n = 2")
	exec(t, c, "ALTER TABLE t MODIFY s VARCHAR(10)")
	expect(t, c, "SELECT n FROM t WHERE s = 'MASS'", "1")
	expect(t, c, "SELECT n FROM t WHERE s = 'fuss'", "3")
	expectErr(t, c, 1062, "INSERT INTO t VALUES ('fuss', 4)")
}
