package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// TestIndexThatIsKilled: a killed ADD INDEX leaves nothing behind: not its name, and no index that
// nobody sees and all writers keep up.
func TestIndexThatIsKilled(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT, w INT)")
	exec(t, c, "INSERT INTO t (v, w) VALUES (1, 2), (3, 4)")
	for range 13 {
		exec(t, c, "INSERT INTO t (v, w) SELECT v + id, w FROM t")
	}
	k := conn(t, c)
	id := query(t, k, "SELECT CONNECTION_ID()")[0]
	killed := 0
	for i := 0; killed < 4; i++ {
		if i == 200 {
			t.Fatal("no statement was killed")
		}
		kind := []string{"INDEX", "UNIQUE INDEX"}[i%2]
		ended := make(chan error, 1)
		go func() {
			_, err := k.ExecContext(t.Context(), "ALTER TABLE t ADD "+kind+" x (w, id, v)")
			ended <- err
		}()
		eventually(t, "the index is filled", func() bool {
			return len(ended) == 1 || strings.Contains(strings.Join(query(t, c, "SHOW JOBS"), "\n"), "running")
		})
		exec(t, c, "KILL QUERY "+id)
		err := <-ended
		var e *mysql.MySQLError
		if err == nil {
			exec(t, c, "ALTER TABLE t DROP INDEX x")
			continue
		}
		if !errors.As(err, &e) || e.Number != 1317 {
			t.Fatal(err)
		}
		killed++
		eventually(t, "its definition is gone", func() bool { return len(half(t, s)) == 0 })
	}
	exec(t, c, "ALTER TABLE t ADD INDEX x (w, id, v)")
	expect(t, c, "SELECT COUNT(*), COUNT(DISTINCT id) FROM t FORCE INDEX (x) WHERE w >= 0", "16384|16384")
}

// half are the indexes of table t that are not shown.
func half(t *testing.T, s *Server) (out []string) {
	t.Helper()
	snap, err := s.g.Catalog.Fresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range snap.Table("test", "t").Desc.Indexes {
		if x.State != schema.IndexPublic {
			out = append(out, x.Name)
		}
	}
	return out
}

// TestIndexThatNobodyFills: an index whose statement is over, or whose node has begun anew, is
// dropped. One of a node that lives is left alone.
func TestIndexThatNobodyFills(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT, INDEX mine (v), INDEX other (v), INDEX done (v))")
	exec(t, c, "INSERT INTO t VALUES (1, 1), (2, 2)")
	own := s.g.DB.Node()
	_, err := kv.Run(t.Context(), s.g.DB, kv.Options{}, func(k kv.Txn) error {
		snap, err := s.g.Catalog.Fresh(t.Context())
		if err != nil {
			return err
		}
		cur := snap.Table("test", "t")
		d := cur.Desc.Clone()
		for i := range d.Indexes {
			switch x := &d.Indexes[i]; x.Name {
			case "mine":
				x.State, x.Builder = schema.IndexWriteOnly, own
			case "other":
				x.State, x.Builder = schema.IndexWriteOnly, own+1
			}
		}
		k.Put(cur.Key, schema.Marshal(d), 0)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := half(t, s); len(got) != 2 {
		t.Fatal(got)
	}
	eventually(t, "the index of this node is dropped", func() bool { return fmt.Sprint(half(t, s)) == "[other]" })
	exec(t, c, "ALTER TABLE t ADD INDEX mine (v)")
	expect(t, c, "SELECT id FROM t FORCE INDEX (mine) WHERE v = 2", "2")
}
