package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/users"
)

// eventually waits for what is done in the background. The bound ends a test that hangs.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

// waits reports whether a goroutine whose stack has all these functions waits for something.
func waits(something string, functions ...string) bool {
	buf := make([]byte, 4<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		state, stack, _ := strings.Cut(g, "\n")
		other := func(f string) bool { return !strings.Contains(stack, f) }
		if strings.Contains(state, something) && !slices.ContainsFunc(functions, other) {
			return true
		}
	}
	return false
}

func TestSchemaChanges(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	exec(t, c, "INSERT INTO t VALUES (1,10),(2,20),(3,20)")
	exec(t, c, "ALTER TABLE t ADD COLUMN w VARCHAR(10) NOT NULL DEFAULT 'dflt'")
	exec(t, c, "ALTER TABLE t ADD COLUMN n INT AFTER id")
	expect(t, c, "SELECT * FROM t", "1|NULL|10|dflt", "2|NULL|20|dflt", "3|NULL|20|dflt")
	exec(t, c, "CREATE INDEX v ON t (v)")
	expect(t, c, "SELECT id FROM t WHERE v = 20", "2", "3")
	expectErr(t, c, 1062, "CREATE UNIQUE INDEX u ON t (v)")
	exec(t, c, "UPDATE t SET v = 30 WHERE id = 3")
	exec(t, c, "CREATE UNIQUE INDEX u ON t (v)")
	expectErr(t, c, 1062, "INSERT INTO t (id, v) VALUES (4, 30)")
	exec(t, c, "ALTER TABLE t DROP COLUMN n, RENAME COLUMN w TO x")
	expect(t, c, "SELECT * FROM t WHERE id = 1", "1|10|dflt")
	exec(t, c, "ALTER TABLE t MODIFY v BIGINT")
	exec(t, c, "UPDATE t SET v = 5000000000 WHERE id = 1")
	expect(t, c, "SELECT id FROM t WHERE v = 5000000000", "1")
	exec(t, c, "ALTER TABLE t MODIFY x TEXT")
	exec(t, c, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v)")
	expect(t, c, "SELECT v, id, x FROM t", "20|2|dflt", "30|3|dflt", "5000000000|1|dflt")
	exec(t, c, "ALTER TABLE t RENAME TO s")
	exec(t, c, "ALTER TABLE s DROP COLUMN x, DROP INDEX u")
	expect(t, c, "SELECT id FROM s ORDER BY v", "2", "3", "1")
	exec(t, c, "TRUNCATE s")
	expect(t, c, "SELECT COUNT(*) FROM s", "0")
	exec(t, c, "DROP TABLE s")
	expectErr(t, c, 1146, "SELECT * FROM s")
}

// TestGarbage checks that dropped rows go away.
func TestGarbage(t *testing.T) {
	db := memkv.New(4, "eu", "us")
	s, c := startServer(t, db)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT, u INT, KEY (v), UNIQUE KEY (u))")
	exec(t, c, "INSERT INTO t VALUES (1,10,1),(2,20,2),(3,20,NULL)")
	tab := s.g.Catalog.Loaded().Table("test", "t")
	if n := len(allRows(t, db, tab)); n != 9 {
		t.Fatalf("%d kv rows, want 9", n)
	}
	exec(t, c, "DROP TABLE t")
	eventually(t, "the rows are removed", func() bool { return len(allRows(t, db, tab)) == 0 })
	eventually(t, "the note is removed", func() bool {
		k := db.Begin(kv.Options{ReadOnly: true})
		res, err := k.Scan(context.Background(), kv.ScanRequest{Spans: []base.Span{schema.IndexSpan(schema.IxGarbage)}})
		return err == nil && len(res.Rows) == 0
	})
}

// TestOnlineIndex builds an index while others write, and compares it with the table.
func TestOnlineIndex(t *testing.T) {
	db := memkv.New(4, "eu", "us")
	_, c := startServer(t, db)
	_, us := startServer(t, db.Gateway(2))
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	for i := range 4 {
		var vals []string
		for k := range 500 {
			vals = append(vals, fmt.Sprintf("(%d,%d)", i*500+k, k%50))
		}
		exec(t, c, "INSERT INTO t VALUES "+strings.Join(vals, ","))
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for w, k := range []*sql.DB{c, us} {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				id := (i*37 + w) % 2000
				var err error
				switch i % 3 {
				case 0:
					_, err = k.Exec("UPDATE t SET v = ? WHERE id = ?", i%50, id)
				case 1:
					_, err = k.Exec("DELETE FROM t WHERE id = ?", id)
				case 2:
					_, err = k.Exec("INSERT IGNORE INTO t VALUES (?,?)", id, i%50)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		exec(t, c, "CREATE INDEX v ON t (v)")
		exec(t, us, "CREATE INDEX w ON t (v, id)")
		exec(t, c, "DROP INDEX w ON t")
		exec(t, us, "DROP INDEX v ON t")
	}
	exec(t, c, "CREATE INDEX v ON t (v)")
	stop.Store(true)
	wg.Wait()
	byTable := query(t, c, "SELECT v, COUNT(*), SUM(id) FROM t IGNORE INDEX (v) GROUP BY v ORDER BY v")
	var byIndex []string
	for v := range 50 {
		byIndex = append(byIndex, query(t, c, fmt.Sprintf("SELECT v, COUNT(*), SUM(id) FROM t WHERE v = %d GROUP BY v", v))...)
	}
	if fmt.Sprint(byTable) != fmt.Sprint(byIndex) {
		t.Errorf("index and table differ:\n%v\n%v", byTable, byIndex)
	}
}

// TestIndexOfManyBatches builds indexes of more rows than are written at once, while others write:
// the
// index is the table's; a duplicate in two batches that are written at once, or in two that are
// not,
// is found, and nothing is left of the index.
func TestIndexOfManyBatches(t *testing.T) {
	db := memkv.New(2, "eu")
	_, c := startServer(t, db)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT, u INT, w VARCHAR(10))")
	const rows = 20_000 // five batches
	for from := 0; from < rows; from += 2000 {
		var vals []string
		for i := from; i < from+2000; i++ {
			vals = append(vals, fmt.Sprintf("(%d,%d,%d,'w%d')", i, i*7919%rows, i, i))
		}
		exec(t, c, "INSERT INTO t VALUES "+strings.Join(vals, ","))
	}
	for _, twice := range []int{rows - 1, 4097} {
		exec(t, c, fmt.Sprintf("UPDATE t SET u = 4000, w = 'w4000' WHERE id = %d", twice))
		expectErr(t, c, 1062, "CREATE UNIQUE INDEX u ON t (u)")
		expectErr(t, c, 1062, "CREATE UNIQUE INDEX w ON t (w, u)")
		expect(t, c, "SELECT COUNT(*) FROM information_schema.statistics WHERE table_name = 't'", "1")
		exec(t, c, fmt.Sprintf("UPDATE t SET u = id, w = CONCAT('w', id) WHERE id = %d", twice))
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				id := (i*3371 + w) % rows
				if _, err := c.Exec("UPDATE t SET v = ? WHERE id = ?", i, id); err != nil {
					t.Error(err)
					return
				}
				if _, err := c.Exec("DELETE FROM t WHERE id = ?", (id+5000)%rows); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	exec(t, c, "CREATE INDEX v ON t (v)")
	exec(t, c, "CREATE UNIQUE INDEX u ON t (u)")
	stop.Store(true)
	wg.Wait()
	for _, x := range []string{"v", "u"} {
		byTable := query(t, c, "SELECT COUNT(*), SUM(id), SUM(id * (v + 1)) FROM t USE INDEX ()")
		byIndex := query(t, c, fmt.Sprintf("SELECT COUNT(*), SUM(id), SUM(id * (v + 1)) FROM t FORCE INDEX (%s) WHERE %s >= 0", x, x))
		if fmt.Sprint(byTable) != fmt.Sprint(byIndex) {
			t.Errorf("index %s and table differ: %v, %v", x, byIndex, byTable)
		}
	}
}

// TestSchemaPinned: a transaction that used a table cannot commit after the table has changed.
func TestSchemaPinned(t *testing.T) {
	db := memkv.New(2, "eu", "us")
	_, c := startServer(t, db)
	_, us := startServer(t, db.Gateway(2))
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	k := conn(t, c)
	exec(t, k, "BEGIN")
	exec(t, k, "INSERT INTO t VALUES (1,1)")
	exec(t, us, "ALTER TABLE t ADD COLUMN w INT NOT NULL DEFAULT 5")
	expectErr(t, k, 1213, "COMMIT")
	// The trap: the session must be out of the transaction now.
	exec(t, k, "INSERT INTO t (id, v) VALUES (2,2)")
	expect(t, us, "SELECT * FROM t", "2|2|5")
	// A change made in one region is seen in the other at once.
	for i := range 20 {
		exec(t, c, fmt.Sprintf("CREATE TABLE n%d (id INT PRIMARY KEY)", i))
		exec(t, us, fmt.Sprintf("INSERT INTO n%d VALUES (1)", i))
		exec(t, us, fmt.Sprintf("DROP TABLE n%d", i))
		expectErr(t, c, 1146, fmt.Sprintf("SELECT * FROM n%d", i))
	}
}

func TestAutoIncrement(t *testing.T) {
	db := memkv.New(2, "eu", "us")
	_, c := startServer(t, db)
	_, us := startServer(t, db.Gateway(2))
	exec(t, c, "CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, v INT)")
	for i := range 50 {
		r := exec(t, c, "INSERT INTO t (v) VALUES (?)", i)
		if id, _ := r.LastInsertId(); id != int64(i+1) {
			t.Fatalf("insert %d has id %d", i, id)
		}
	}
	exec(t, c, "INSERT INTO t VALUES (100, 1)")
	if id, _ := exec(t, c, "INSERT INTO t (v) VALUES (1)").LastInsertId(); id != 101 {
		t.Errorf("after 100 comes %d", id)
	}
	var mu sync.Mutex
	seen := map[int64]bool{}
	var wg sync.WaitGroup
	for _, k := range []*sql.DB{c, us, c, us} {
		wg.Go(func() {
			for range 50 {
				r, err := k.Exec("INSERT INTO t (v) VALUES (7)")
				if err != nil {
					t.Error(err)
					return
				}
				id, _ := r.LastInsertId()
				mu.Lock()
				if seen[id] {
					t.Errorf("id %d was given twice", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	expect(t, c, "SELECT COUNT(*) FROM t WHERE v = 7", "201")
	exec(t, c, "ALTER TABLE t AUTO_INCREMENT = 1000000")
	if id, _ := exec(t, us, "INSERT INTO t (v) VALUES (1)").LastInsertId(); id != 1000000 {
		t.Errorf("after ALTER comes %d", id)
	}
}

func TestForeignKeys(t *testing.T) {
	s, c := newServer(t)
	db := s.g.DB.(*memkv.DB)
	exec(t, c, "CREATE TABLE p (id INT PRIMARY KEY)")
	exec(t, c, "CREATE TABLE k (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)")
	exec(t, c, "INSERT INTO p VALUES (1),(2)")
	exec(t, c, "INSERT INTO k VALUES (1,1),(2,1),(3,2)")
	expectErr(t, c, 1452, "INSERT INTO k VALUES (4,9)")
	exec(t, c, "DELETE FROM p WHERE id = 1")
	expect(t, c, "SELECT id FROM k", "3")
	// A parent that is being deleted and a child that is being inserted exclude each other: the
	// child is tried until the parent's transaction has ended.
	a, b := conn(t, c), conn(t, c)
	exec(t, a, "BEGIN")
	exec(t, a, "DELETE FROM p WHERE id = 2")
	calls := db.Calls()
	done := make(chan error, 1)
	go func() {
		_, err := b.ExecContext(context.Background(), "INSERT INTO k VALUES (5,2)")
		done <- err
	}()
	eventually(t, "the child meets the lock of its parent", func() bool { return db.Calls() > calls+5 })
	exec(t, a, "COMMIT")
	var me *mysql.MySQLError
	if err := <-done; !errors.As(err, &me) || me.Number != 1452 {
		t.Errorf("child of a deleted parent: %v", err)
	}
	expect(t, c, "SELECT COUNT(*) FROM k", "0")
}

func TestUsersAreShared(t *testing.T) {
	db := memkv.New(1, "eu", "us")
	_, c := startServer(t, db)
	s2, _ := startServer(t, db.Gateway(2))
	exec(t, c, "CREATE USER joe@'%' IDENTIFIED BY 'secret'")
	exec(t, c, "GRANT ALL ON test.* TO joe@'%'")
	eventually(t, "the other gateway knows joe", func() bool {
		j := openDSN(t, fmt.Sprintf("joe:secret@tcp(%s)/test", s2.Addr()))
		_, err := tryQuery(j, "SELECT 1")
		return err == nil
	})
	s3, err := New(Config{DB: db.Gateway(2), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	go s3.Serve()
	defer s3.Close()
	if _, err := tryQuery(openDSN(t, fmt.Sprintf("joe:secret@tcp(%s)/test", s3.Addr())), "SELECT 1"); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// TestUsersAtOnce: grants through one gateway do not undo those through another.
func TestUsersAtOnce(t *testing.T) {
	db := memkv.New(1, "eu", "us")
	_, a := startServer(t, db)
	_, b := startServer(t, db.Gateway(2))
	var wg sync.WaitGroup
	for i, c := range []*sql.DB{a, b} {
		wg.Go(func() {
			for n := range 8 {
				for {
					if _, err := c.Exec(fmt.Sprintf("CREATE USER IF NOT EXISTS u%d_%d", i, n)); err == nil {
						break
					} else if !strings.Contains(err.Error(), "at the same time") {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	for _, c := range []*sql.DB{a, b} {
		eventually(t, "every gateway knows all users", func() bool {
			var n int
			err := c.QueryRow("SELECT COUNT(*) FROM mysql.user WHERE User LIKE 'u%'").Scan(&n)
			return err == nil && n == 16
		})
	}
}

// TestReadOfUsersComesLate: what was read of the users before a statement changed them does not
// replace what that has persisted.
func TestReadOfUsersComesLate(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE USER early")
	data, at, err := s.g.users.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, c, "CREATE USER late")
	if err := s.g.users.Apply(t.Context(), data, at); err != nil {
		t.Fatal(err)
	}
	expect(t, c, "SELECT user FROM mysql.user WHERE user LIKE '%l%' ORDER BY user", "early", "late")
}

// TestGrantTakenBack: a user who could not be made durable is gone at once, also if the store
// cannot be read.
func TestGrantTakenBack(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE USER before")
	db := s.g.engine.Analyzer.Catalog.MySQLDb
	st := users.New(s.g.DB, db, func(func(context.Context)) bool { return true }, errBehind)
	db.SetPersister(st)
	if err := st.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	k := s.g.DB.Begin(kv.Options{})
	defer k.Rollback(t.Context())
	if _, err := k.Get(t.Context(), []base.Key{schema.UsersKey}, kv.LockExclusive); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := st.Change(ctx, func(ctx *gms.Context, ed *mysql_db.Editor) error {
		db.AddSuperUser(ed, "after", "%", "")
		return db.Persist(ctx, ed)
	}); err == nil {
		t.Fatal("it was written, though another one has the lock")
	}
	expect(t, c, "SELECT user FROM mysql.user WHERE user IN ('before', 'after')", "before")
}

// TestGrantsInProcedures: users that a procedure makes are there for all nodes.
func TestGrantsInProcedures(t *testing.T) {
	_, eu, us, gs := startPair(t, 0)
	exec(t, us, "CREATE DATABASE p")
	exec(t, us, "CREATE PROCEDURE p.u() BEGIN CREATE USER inside; GRANT SELECT ON p.* TO inside; SET @x = 1; END")
	exec(t, us, "CALL p.u()")
	if err := gs[0].g.users.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, eu, "SELECT user FROM mysql.db WHERE user = 'inside'", "inside")
}

func TestKeylessTable(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (a INT, b VARCHAR(10), KEY (a))")
	exec(t, c, "INSERT INTO t VALUES (1,'x'),(1,'x'),(2,'y')")
	exec(t, c, "DELETE FROM t WHERE a = 1 LIMIT 1")
	expect(t, c, "SELECT a, b FROM t ORDER BY a", "1|x", "2|y")
	exec(t, c, "UPDATE t SET b = 'z' WHERE a = 1")
	exec(t, c, "UPDATE t SET a = a + 1")
	expect(t, c, "SELECT b FROM t WHERE a = 3", "y")
	exec(t, c, "DELETE FROM t WHERE b = 'z'")
	expect(t, c, "SELECT * FROM t", "3|y")
}

func TestLocks(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	exec(t, c, "INSERT INTO t VALUES (1,0),(2,0)")
	// Money moves by SELECT ... FOR UPDATE; lost conflicts are retried by the client.
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 15 {
				for {
					err := transfer(c, 1+(w+i)%2, 2-(w+i)%2)
					var me *mysql.MySQLError
					if err == nil {
						break
					}
					if !errors.As(err, &me) || me.Number != 1213 && me.Number != 1205 {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	expect(t, c, "SELECT SUM(v) FROM t", "0")
}

func transfer(c *sql.DB, from, to int) error {
	tx, err := c.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var a, b int
	if err := tx.QueryRow("SELECT v FROM t WHERE id = ? FOR UPDATE", from).Scan(&a); err != nil {
		return err
	}
	if err := tx.QueryRow("SELECT v FROM t WHERE id = ? FOR UPDATE", to).Scan(&b); err != nil {
		return err
	}
	if _, err := tx.Exec("UPDATE t SET v = ? WHERE id = ?", a-1, from); err != nil {
		return err
	}
	if _, err := tx.Exec("UPDATE t SET v = ? WHERE id = ?", b+1, to); err != nil {
		return err
	}
	return tx.Commit()
}

// TestAfterKeyword: the column behind which another is put may have the name of a keyword, as in
// MySQL.
func TestAfterKeyword(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, name INT, status INT)")
	exec(t, c, "ALTER TABLE t ADD COLUMN a VARCHAR(40) DEFAULT 'not AFTER name' AFTER name, "+
		"ADD b INT after  status /* AFTER name */")
	exec(t, c, "ALTER TABLE t MODIFY COLUMN b BIGINT AFTER `name`")
	exec(t, c, "INSERT INTO t (id) VALUES (1)")
	expect(t, c, "SELECT a FROM t", "not AFTER name")
	expect(t, c, "SELECT GROUP_CONCAT(column_name ORDER BY ordinal_position) FROM information_schema.columns WHERE "+
		"table_name = 't'", "id,name,b,a,status")
}

// TestNoFiles: statements read and write files of the client only.
func TestNoFiles(t *testing.T) {
	if os.Getenv(suiteEnv) != "" {
		t.Skip("the engine's suite has files")
	}
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY)")
	out := filepath.Join(t.TempDir(), "out")
	for _, q := range []string{"LOAD DATA INFILE '/etc/hostname' INTO TABLE t", "SELECT * FROM t INTO OUTFILE '" + out + "'",
		"SELECT 'x' INTO DUMPFILE '" + out + "'"} {
		expectErr(t, c, 1290, q)
	}
	expect(t, c, "SELECT LOAD_FILE('/etc/hostname')", "NULL")
	exec(t, c, "SELECT COUNT(*) FROM t INTO @n")
	if _, err := os.Stat(out); err == nil {
		t.Error("a file was written")
	}
}

// TestTriggersFollowTheirTable: a trigger fires for its table under another name, and goes with it.
func TestTriggersFollowTheirTable(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	exec(t, c, "CREATE TABLE told (n INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20))")
	exec(t, c, "CREATE TRIGGER plain AFTER INSERT ON t FOR EACH ROW INSERT INTO told (what) "+
		"VALUES (CONCAT('insert on t ', NEW.v))")
	exec(t, c, "CREATE TRIGGER quoted BEFORE UPDATE ON `t` FOR EACH ROW SET NEW.v = NEW.v + 1")
	exec(t, c, "RENAME TABLE t TO s")
	exec(t, c, "ALTER TABLE s RENAME TO `other one`")
	exec(t, c, "INSERT INTO `other one` VALUES (1, 10)")
	exec(t, c, "UPDATE `other one` SET v = 20")
	expect(t, c, "SELECT v FROM `other one`", "21")
	expect(t, c, "SELECT what FROM told", "insert on t 10")
	expect(t, c, "SELECT trigger_name, event_object_table FROM information_schema.triggers ORDER BY 1",
		"plain|other one", "quoted|other one")
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	exec(t, c, "INSERT INTO t VALUES (1, 1)")
	expect(t, c, "SELECT COUNT(*) FROM told", "1")
	exec(t, c, "DROP TABLE `other one`")
	expect(t, c, "SELECT COUNT(*) FROM information_schema.triggers", "0")
}
