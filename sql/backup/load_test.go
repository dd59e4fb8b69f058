package backup_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
)

// lookedAt is a file that has somebody look at what is loaded after each few lines.
type lookedAt struct {
	lines []string
	look  func()
}

// Read implements io.Reader.
func (f *lookedAt) Read(b []byte) (int, error) {
	if len(f.lines) == 0 {
		return 0, io.EOF
	}
	if len(f.lines)%50 == 0 {
		f.look()
	}
	n := copy(b, f.lines[0])
	f.lines = f.lines[1:]
	return n, nil
}

// TestLoadInParts: of a file that is loaded in parts a backup, and the log of changes behind one,
// have whole parts: at each moment the rows that could be read then.
func TestLoadInParts(t *testing.T) {
	w := newWorld(t, "eu", "us")
	w.exec("SET GLOBAL local_infile = 1")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, k INT, KEY (k))")
	m := newMortal(t, w)
	l := m.env.NewLog(m.ctx, "BACKUP LOG DATABASE test INTO '"+w.url+"'")
	w.backup("DATABASE test", "")
	w.db.(*memkv.DB).Most = kv.Volume{Bytes: 1 << 30, Writes: 640}
	other := w.as("root", "test")
	at := map[string]string{} // moments, by what was read
	var order []string
	look := func() {
		got, err := ask(other, "SELECT CONCAT(COUNT(*), ' ', COALESCE(SUM(id), 0), ' ', COALESCE(MAX(id), 0)) FROM t")
		if err != nil {
			t.Error(err)
			return
		}
		if at[got[0]] != "" {
			return
		}
		now, err := ask(other, "SELECT NOW(6)")
		if err != nil {
			t.Error(err)
			return
		}
		again, err := ask(other, "SELECT CONCAT(COUNT(*), ' ', COALESCE(SUM(id), 0), ' ', COALESCE(MAX(id), 0)) FROM t")
		if err != nil || again[0] != got[0] {
			return // a part was committed meanwhile
		}
		at[got[0]] = now[0]
		order = append(order, got[0])
	}
	const rows = 1000
	mysql.RegisterReaderHandler("looked", func() io.Reader {
		f := &lookedAt{look: look}
		for i := range rows {
			f.lines = append(f.lines, fmt.Sprintf("%d\t%d\n", i+1, i%7))
		}
		return f
	})
	defer mysql.DeregisterReaderHandler("looked")
	w.exec("LOAD DATA LOCAL INFILE 'Reader::looked' INTO TABLE t")
	look()
	l.Segment(t)
	if len(order) < 2 {
		t.Fatalf("seen were %q", order)
	}
	check := func(db, want string) {
		t.Helper()
		w.expect("SELECT CONCAT(COUNT(*), ' ', COALESCE(SUM(id), 0), ' ', COALESCE(MAX(id), 0)) FROM "+db+".t", want)
		w.expect("SELECT COUNT(*) FROM "+db+".t FORCE INDEX (k) WHERE k >= 0", strings.Fields(want)[0])
	}
	for i, seen := range order {
		if i > 5 && i < len(order)-3 {
			continue
		}
		var n, sum, most int
		fmt.Sscan(seen, &n, &sum, &most)
		if most != n || sum != n*(n+1)/2 {
			t.Errorf("read were %q", seen)
		}
		w.query(fmt.Sprintf("RESTORE DATABASE test FROM '%s' AS OF SYSTEM TIME '%s' AS c%d", w.url, at[seen], i))
		check(fmt.Sprintf("c%d", i), seen)
	}
	w.query("RESTORE DATABASE test FROM '" + w.url + "' AS latest")
	check("latest", fmt.Sprintf("%d %d %d", rows, rows*(rows+1)/2, rows))
	w.backup("DATABASE test", "")
	w.query("RESTORE DATABASE test FROM '" + w.url + "' AS behind")
	check("behind", fmt.Sprintf("%d %d %d", rows, rows*(rows+1)/2, rows))
}
