package server

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
)

// insertsDB calls each for every row that is inserted, with how many there were.
type insertsDB struct {
	*memkv.DB
	rows atomic.Int64
	each func(n int64)
}

// Begin implements kv.DB.
func (d *insertsDB) Begin(o kv.Options) kv.Txn {
	return &insertsTxn{&slowTxn{t: d.DB.Begin(o), d: &slowDB{}}, d}
}

type insertsTxn struct {
	*slowTxn
	db *insertsDB
}

// Insert implements kv.Txn.
func (t *insertsTxn) Insert(k base.Key, v []byte, home base.RegionID) error {
	if t.db.each != nil {
		t.db.each(t.db.rows.Add(1))
	}
	return t.slowTxn.Insert(k, v, home)
}

// TestWritesAsk: a statement asks every few rows that it writes whether it may go on. It is also
// how it lets others compute: rows of a transaction that lie in files take long.
func TestWritesAsk(t *testing.T) {
	db := &insertsDB{DB: memkv.New(4, "eu", "us")}
	_, c := startServer(t, db)
	exec(t, c, "CREATE TABLE t (a INT PRIMARY KEY)")
	exec(t, c, "CREATE TABLE u (a INT PRIMARY KEY)")
	values := make([]string, 64)
	for i := range values {
		values[i] = fmt.Sprintf("(%d)", i)
	}
	exec(t, c, "INSERT INTO t VALUES "+strings.Join(values, ", "))
	k, killer := conn(t, c), conn(t, c)
	id := query(t, k, "SELECT CONNECTION_ID()")[0]
	const at, few = 100, 32
	db.each = func(n int64) {
		if n == at {
			if _, err := killer.ExecContext(t.Context(), "KILL QUERY "+id); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := k.ExecContext(t.Context(), "INSERT INTO u SELECT x.a * 64 + y.a FROM t x, t y"); err == nil {
		t.Error("it was not killed")
	}
	if n := db.rows.Load(); n < at || n > at+few {
		t.Errorf("%d rows were written, and it was killed after %d", n, at)
	}
}
