package server

import (
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestLoadDataRights: LOAD DATA takes INSERT for the columns that it names, and for those that it
// sets.
func TestLoadDataRights(t *testing.T) {
	s, root := newServer(t)
	mysql.RegisterReaderHandler("rights", func() io.Reader { return strings.NewReader("1\t2\n3\t4\n") })
	defer mysql.DeregisterReaderHandler("rights")
	exec(t, root, "SET GLOBAL local_infile = 1")
	exec(t, root, "CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT)")
	exec(t, root, "CREATE TABLE secret (x INT)")
	exec(t, root, "INSERT INTO secret VALUES (42)")
	few := as(t, s, root, "few", "INSERT (a, c) ON test.t", "SELECT (a) ON test.t")
	writer := as(t, s, root, "writer", "INSERT ON test.t")
	nobody := as(t, s, root, "nobody", "SELECT ON test.t")
	load := func(what string) string { return "LOAD DATA LOCAL INFILE 'Reader::rights' " + what }
	for _, x := range []struct {
		c    execer
		q    string
		want uint16
	}{
		{few, load("INTO TABLE t (a, c)"), 0},
		{few, load("INTO TABLE t (a, @x)"), 0},
		{few, load("INTO TABLE t (a, @x) SET c = @x + 1"), 0},
		{few, load("INTO TABLE t (a, b)"), 1143},
		{few, load("INTO TABLE t"), 1142},
		{few, load("INTO TABLE t (a, @x) SET b = @x"), 1143},
		{few, load("INTO TABLE t (@x, c)"), 0},
		{few, load("INTO TABLE t (a, @x) SET c = (SELECT MAX(x) FROM secret)"), 1142},
		{few, load("REPLACE INTO TABLE t (a, c)"), 1142},
		{writer, load("INTO TABLE t (a, b)"), 0},
		{writer, load("INTO TABLE t"), 0},
		{writer, load("REPLACE INTO TABLE t (a, b)"), 1142},
		{writer, load("INTO TABLE t (a, @x) SET c = (SELECT MAX(x) FROM secret)"), 1142},
		{nobody, load("INTO TABLE t (a, b)"), 1142},
		{few, "LOAD DATA INFILE '/etc/hostname' INTO TABLE t (a, c)", 1290},
	} {
		exec(t, root, "DELETE FROM t")
		_, err := tryQuery(x.c, x.q)
		switch {
		case x.want == 0 && err != nil:
			t.Errorf("%s: %v", x.q, err)
		case x.want != 0 && (err == nil || errNumber(t, err) != x.want):
			t.Errorf("%s: %v, want error %d", x.q, err, x.want)
		}
		if rows := query(t, root, "SELECT a, b, c FROM t ORDER BY a"); x.want != 0 && len(rows) > 0 {
			t.Errorf("%s: %v", x.q, rows)
		}
	}
}
