package binlog_test

import (
	"database/sql"
	"fmt"
	"io"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/binlog"
)

// TestLoadInParts: replicas get a file that is loaded in parts as one transaction for each part, in
// the order of the file.
func TestLoadInParts(t *testing.T) {
	w := newWorld(t)
	exec(t, w.root, "SET GLOBAL local_infile = 1", "CREATE DATABASE d", "CREATE TABLE d.t (id VARCHAR(20) PRIMARY KEY, k INT, KEY (k))")
	w.db.(*memkv.DB).Most = kv.Volume{Bytes: 1 << 30, Writes: 640}
	begin := w.db.Clock()
	c, err := sql.Open("mysql", "root@tcp("+w.addr.String()+")/d")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const rows, first, each = 400, 322, 2
	var file strings.Builder
	for i := range rows {
		fmt.Fprintf(&file, "row-%06d\t%d\n", i+1, i%7)
	}
	driver.RegisterReaderHandler("replicated", func() io.Reader { return strings.NewReader(file.String()) })
	defer driver.DeregisterReaderHandler("replicated")
	if _, err := c.Exec("LOAD DATA LOCAL INFILE 'Reader::replicated' INTO TABLE t"); err != nil {
		t.Fatal(err)
	}
	all, err := w.from(binlog.File(begin), 4)
	if err != nil {
		t.Fatal(err)
	}
	var last base.Timestamp
	next, parts, n := 1, -1, 0
	ended := func() {
		if want := map[bool]int{true: first, false: each}[parts == 0]; parts >= 0 && n != want {
			t.Errorf("transaction %d has %d rows, want %d", parts, n, want)
		}
	}
	for _, e := range all {
		if ts, ok := gtid(e); ok {
			if ended(); ts <= last {
				t.Errorf("%d comes behind %d", ts, last)
			}
			last, n = ts, 0
			parts++
		}
		in := strings.Count(string(e.raw), "row-")
		for i := range in {
			if !strings.Contains(string(e.raw), fmt.Sprintf("row-%06d", next+i)) {
				t.Fatalf("transaction %d has no row %d", parts, next+i)
			}
		}
		next, n = next+in, n+in
	}
	if ended(); next != rows+1 || parts != (rows-first)/each {
		t.Errorf("%d rows in %d transactions", next-1, parts+1)
	}
}
