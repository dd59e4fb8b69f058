package feed_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/feed"
)

// TestLoadInParts: a file that is loaded in parts comes as one transaction for each, in the order
// of the file, also if parts lost conflicts, and to a reader that begins anew in the middle.
func TestLoadInParts(t *testing.T) {
	w := newWorld(t)
	const rows, first, each = 400, 322, 2
	d := w.db.(*memkv.DB)
	d.Most = kv.Volume{Bytes: 1 << 30, Writes: 640}
	w.exec("SET GLOBAL local_infile = 1", "CREATE TABLE t (id INT PRIMARY KEY, k INT, KEY (k))")
	r, err := feed.Open(t.Context(), feed.Env{DB: w.db}, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { r.Close() }()
	var file strings.Builder
	for i := range rows {
		fmt.Fprintf(&file, "%d\t%d\n", i+1, i%7)
	}
	mysql.RegisterReaderHandler("parts", func() io.Reader { return strings.NewReader(file.String()) })
	defer mysql.DeregisterReaderHandler("parts")
	commits := 0
	d.Lose = func(writes int) bool {
		commits++
		return writes > 3 && commits%3 == 1
	}
	w.exec("LOAD DATA LOCAL INFILE 'Reader::parts' INTO TABLE t")
	d.Lose = nil
	next, parts, open := 1, 0, 0 // open: rows of a transaction that goes on
	for now := w.db.Clock(); ; {
		txs, resolved, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, tx := range txs {
			seen := map[int]bool{}
			for _, c := range tx.Changes {
				var id int
				fmt.Sscan(fmt.Sprint(c.After[0]), &id)
				if c.Before != nil || seen[id] {
					t.Errorf("row %d is changed, or comes twice", id)
				}
				seen[id] = true
			}
			for range seen {
				if !seen[next] {
					t.Fatalf("row %d is not in the transaction behind that of the row before it, which has %d rows", next, len(seen))
				}
				next++
			}
			if open += len(seen); tx.More {
				continue
			}
			if want := map[bool]int{true: first, false: each}[parts == 0]; open > 0 && open != want {
				t.Errorf("transaction %d has %d rows, want %d", parts, open, want)
			}
			if open > 0 {
				parts++
			}
			open = 0
		}
		if parts == 3 && open == 0 && resolved < now { // a reader that begins anew
			r.Close()
			if r, err = feed.Open(t.Context(), feed.Env{DB: w.db}, feed.Options{Since: txs[len(txs)-1].TS}); err != nil {
				t.Fatal(err)
			}
		}
		if resolved >= now {
			break
		}
	}
	if next != rows+1 || parts != 1+(rows-first)/each {
		t.Errorf("%d rows in %d transactions", next-1, parts)
	}
}
