package backup_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/backup"
)

// watched is a gateway of which a test knows what it reads.
type watched struct {
	*memkv.DB
	bytes atomic.Int64 // of keys and values that were read
	// collected is below what versions are gone.
	collected atomic.Uint64
	// asked changes what Changes is asked, and told what it answers; nil: they do not.
	asked func(*kv.ChangesRequest)
	told  func(*kv.ChangesResult)
}

func (w *watched) old(ts base.Timestamp) error {
	if at := base.Timestamp(w.collected.Load()); ts < at {
		return base.Errorf(base.CodeTooOld, "versions older than %s have been collected", at)
	}
	return nil
}

func (w *watched) count(rows []kv.Row) {
	for i := range rows {
		w.bytes.Add(int64(len(rows[i].Key) + len(rows[i].Value)))
	}
}

// Changes implements kv.DB.
func (w *watched) Changes(ctx context.Context, q kv.ChangesRequest) (kv.ChangesResult, error) {
	if err := w.old(q.Since); err != nil {
		return kv.ChangesResult{}, err
	}
	if w.asked != nil {
		w.asked(&q)
	}
	res, err := w.DB.Changes(ctx, q)
	w.count(res.Rows)
	if err == nil && w.told != nil {
		w.told(&res)
	}
	return res, err
}

// Begin implements kv.DB.
func (w *watched) Begin(o kv.Options) kv.Txn {
	t := w.DB.Begin(o)
	if o.ReadTS == 0 {
		return t
	}
	return &watchedTxn{t, t, t, t, t, t, t, t, t, w, o.ReadTS}
}

// watchedTxn watches what a transaction reads, and all else is the transaction's.
type watchedTxn struct {
	kv.Prefetcher
	kv.Writer
	kv.Patcher
	kv.Mover
	kv.Pinner
	kv.Savepoints
	kv.Snapshots
	kv.Ender
	in kv.Txn
	w  *watched
	at base.Timestamp
}

func (t *watchedTxn) ID() base.TxnID { return t.in.ID() }

func (t *watchedTxn) Get(ctx context.Context, keys []base.Key, m kv.LockMode) ([]kv.Row, error) {
	if err := t.w.old(t.at); err != nil {
		return nil, err
	}
	rows, err := t.in.Get(ctx, keys, m)
	t.w.count(rows)
	return rows, err
}

func (t *watchedTxn) Scan(ctx context.Context, q kv.ScanRequest) (kv.ScanResult, error) {
	if err := t.w.old(t.at); err != nil {
		return kv.ScanResult{}, err
	}
	res, err := t.in.Scan(ctx, q)
	t.w.count(res.Rows)
	return res, err
}

// newest is the last backup that SHOW BACKUP shows, column by column.
func (w *world) newest() []string {
	w.t.Helper()
	all := w.query("SHOW BACKUP FROM '" + w.url + "'")
	return strings.Split(all[len(all)-1], "|")
}

// TestIncrementalReadsLittle: an incremental backup behind the change of one row in 100,000 reads
// less than a hundredth of what a full one reads, and one whose parent's versions have been
// collected reads all rows, and is right.
func TestIncrementalReadsLittle(t *testing.T) {
	w := newWorld(t, "eu", "us")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
	const rows = 100_000
	for i := 0; i < rows; i += 5000 {
		var values []string
		for j := i; j < i+5000; j++ {
			values = append(values, fmt.Sprintf("(%d, %d)", j, j))
		}
		w.exec("INSERT INTO t VALUES " + strings.Join(values, ","))
	}
	db := &watched{DB: w.db.(*memkv.DB).Gateway(2)}
	m := newMortalOver(t, w, db)
	take := func(options string) (read int64) {
		t.Helper()
		before := db.bytes.Load()
		if err := m.run("BACKUP DATABASE test INTO '" + w.url + "'" + options); err != nil {
			t.Fatal(err)
		}
		return db.bytes.Load() - before
	}
	full := take("")
	w.exec("UPDATE t SET v = -1 WHERE id = 777")
	little := take(" WITH INCREMENTAL")
	t.Logf("a full backup has read %d bytes, an incremental one %d", full, little)
	if little*100 > full {
		t.Errorf("an incremental backup of one row has read %d bytes, a full one %d", little, full)
	}
	if got := w.newest(); got[7] != fmt.Sprint(rows) || got[len(got)-1] != "changes" {
		t.Errorf("SHOW BACKUP: %q", got)
	}
	w.exec("DELETE FROM t WHERE id = 778")
	db.collected.Store(uint64(db.Clock()))
	if read := take(" WITH INCREMENTAL"); read < full/2 {
		t.Errorf("a backup that had to read all rows has read %d bytes of %d", read, full)
	}
	if got := w.newest(); got[7] != fmt.Sprint(rows-1) || got[len(got)-1] != "changes; all rows of test.t" {
		t.Errorf("SHOW BACKUP: %q", got)
	}
	w.exec("INSERT INTO t VALUES (-5, 5)")
	take(" WITH INCREMENTAL")
	if got := w.query("VERIFY BACKUP '" + w.url + "' WITH TABLES"); !strings.Contains(got[0], "|test.t|ok|100000|") {
		t.Errorf("VERIFY BACKUP: %q", got)
	}
}

// chain takes backups that build on each other of tables that change at random, one at a time.
type chain struct {
	w       *world
	db      *watched
	r       *rand.Rand
	tables  []string
	moments []string
	read    map[string]int        // what SHOW BACKUP says that they have read
	homes   []map[string][]string // of rows, by moments and tables
	deaths  int
}

func newChain(t *testing.T, seed uint64) *chain {
	t.Helper()
	w := newWorld(t, "eu", "us")
	c := &chain{w: w, db: &watched{DB: w.db.(*memkv.DB).Gateway(2)}, r: rand.New(rand.NewPCG(seed, 1)), read: map[string]int{}}
	for i := range 3 {
		c.make(fmt.Sprint("t", i))
	}
	return c
}

func (c *chain) make(name string) {
	c.w.exec("CREATE TABLE " + name + " (id INT PRIMARY KEY, v INT, s VARCHAR(200), KEY (v))")
	c.tables = append(c.tables, name)
	c.insert(name, 0, 300)
}

func (c *chain) insert(name string, from, to int) {
	var values []string
	for i := from; i < to; i++ {
		values = append(values, fmt.Sprintf("(%d, %d, REPEAT('x', %d))", i, c.r.IntN(1000), c.r.IntN(100)))
	}
	c.w.exec("INSERT IGNORE INTO " + name + " (id, v, s) VALUES " + strings.Join(values, ","))
}

// change changes something.
func (c *chain) change() {
	i := c.r.IntN(len(c.tables))
	name := c.tables[i]
	id := c.r.IntN(400)
	switch c.r.IntN(24) {
	case 0:
		c.w.exec("TRUNCATE TABLE " + name)
		c.insert(name, 0, c.r.IntN(100)+1)
	case 1:
		c.w.exec("DROP TABLE " + name)
		c.tables = slices.Delete(c.tables, i, i+1)
		c.make(name) // under its old name
	case 2:
		c.w.exec(fmt.Sprintf("ALTER TABLE %s ADD COLUMN c%d INT DEFAULT %d", name, c.r.IntN(1<<30), id))
	case 3:
		c.make(fmt.Sprint("n", c.r.IntN(1<<30)))
	case 4, 5, 6:
		c.insert(name, id, id+1+c.r.IntN(60))
	case 7, 8, 9:
		c.w.exec(fmt.Sprintf("DELETE FROM %s WHERE id BETWEEN %d AND %d", name, id, id+c.r.IntN(20)))
	case 10, 11: // gone and there again
		c.w.exec(fmt.Sprintf("DELETE FROM %s WHERE id = %d", name, id))
		c.insert(name, id, id+1)
	case 12, 13: // there and gone again
		c.insert(name, 1000+id, 1001+id)
		c.w.exec(fmt.Sprintf("DELETE FROM %s WHERE id = %d", name, 1000+id))
	case 14, 15, 16:
		c.w.exec(fmt.Sprintf("UPDATE %s__homes SET home_region = '%s' WHERE id BETWEEN %d AND %d", name, []string{"eu", "us"}[c.r.IntN(2)],
			id, id+10))
	default:
		c.w.exec(fmt.Sprintf("UPDATE %s SET v = v + 1 WHERE id BETWEEN %d AND %d", name, id, id+c.r.IntN(30)))
	}
}

// take takes the next backup. Some gateways die meanwhile.
func (c *chain) take(mortal bool) error {
	t := c.w.t.(*testing.T)
	homes := map[string][]string{}
	for _, name := range c.tables {
		homes[name] = c.w.query("SELECT id, home_region FROM " + name + "__homes ORDER BY id")
	}
	c.homes = append(c.homes, homes)
	q := "BACKUP DATABASE test INTO '" + c.w.url + "'"
	if len(c.moments) > 0 {
		q += " WITH INCREMENTAL"
	}
	m := newMortalOver(t, c.w, c.db)
	if mortal && c.r.IntN(2) == 0 {
		m.lastWrite = int64(2 + c.r.IntN(20))
	}
	err := m.run(q)
	for err != nil && strings.Contains(err.Error(), "this node stops") {
		c.deaths++
		m = newMortalOver(t, c.w, c.db)
		if c.r.IntN(3) == 0 {
			m.lastWrite = int64(1 + c.r.IntN(10))
		}
		if c.r.IntN(3) == 0 { // while nobody held them
			c.db.collected.Store(uint64(c.parent()) + 1)
		}
		err = m.env.GoOn(t.Context())
	}
	if err != nil {
		return err
	}
	got := c.w.newest()
	c.moments = append(c.moments, got[4])
	c.read[strings.Split(got[len(got)-1], ";")[0]]++
	if strings.Contains(got[len(got)-1], "all rows of") {
		c.read["compared"]++
	}
	return nil
}

// parent is the moment of the last backup.
func (c *chain) parent() base.Timestamp {
	if len(c.moments) == 0 {
		return 0
	}
	sec := c.w.query("SELECT UNIX_TIMESTAMP('" + c.moments[len(c.moments)-1] + "') * 1000000")[0]
	var us float64
	fmt.Sscan(sec, &us)
	return base.Timestamp(int64(us)) * 1000
}

// judge compares each moment, as it is restored, with reads AS OF it, and its checksums with those
// of a full backup of that moment. It returns the first difference.
func (c *chain) judge() error {
	w := c.w
	for i, m := range c.moments {
		asOf := " AS OF SYSTEM TIME '" + m + "'"
		db := fmt.Sprint("r", i)
		if _, err := ask(w.c, "RESTORE DATABASE test FROM '"+w.url+"'"+asOf+" AS "+db); err != nil {
			return err
		}
		tables := w.query("SHOW TABLES FROM " + db)
		if len(tables) != len(c.homes[i]) {
			return fmt.Errorf("moment %d: tables %q", i, tables)
		}
		for _, name := range tables {
			got := w.query("SELECT * FROM " + db + "." + name + " ORDER BY id")
			if want := w.query("SELECT * FROM " + name + asOf + " ORDER BY id"); !slices.Equal(got, want) {
				return fmt.Errorf("moment %d: table %s has %d rows that differ from the %d AS OF it", i, name, len(got), len(want))
			}
			got = w.query("SELECT id, home_region FROM " + db + "." + name + "__homes ORDER BY id")
			if !slices.Equal(got, c.homes[i][name]) {
				return fmt.Errorf("moment %d: the homes of table %s differ", i, name)
			}
		}
		w.exec("DROP DATABASE " + db)
	}
	place := w.url + "/full"
	w.query("BACKUP DATABASE test INTO '" + place + "' AS OF SYSTEM TIME '" + c.moments[len(c.moments)-1] + "'")
	sums := func(place string) (out []string) {
		for _, l := range w.query("VERIFY BACKUP '" + place + "' WITH TABLES") {
			out = append(out, l[strings.IndexByte(l, '|'):])
		}
		return out
	}
	if got, want := sums(w.url), sums(place); !slices.Equal(got, want) {
		return fmt.Errorf("checksums: %q, of a full backup %q", got, want)
	}
	return nil
}

// TestIncrementalsAtRandom: tables change at random, gateways die, versions are collected: each
// backup of the chain is what its moment was.
func TestIncrementalsAtRandom(t *testing.T) {
	defer backup.Small(1<<10, 100)()
	seeds := 3
	if os.Getenv("GODWIT_LONG") != "" {
		seeds = 30
	}
	read, deaths := map[string]int{}, 0
	for seed := range seeds {
		c := newChain(t, uint64(seed))
		for i := range 8 {
			if i > 0 {
				for range 1 + c.r.IntN(20) {
					c.change()
				}
			}
			if c.r.IntN(4) == 0 {
				c.db.collected.Store(uint64(c.parent()) + 1)
			}
			if err := c.take(true); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if err := c.judge(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		for k, n := range c.read {
			read[k] += n
		}
		deaths += c.deaths
	}
	t.Logf("%v, %d deaths", read, deaths)
	if read["changes"] == read["compared"] || read["compared"] == 0 || deaths == 0 {
		t.Errorf("too little was tried: %v, %d deaths", read, deaths)
	}
}

// TestBrokenIncrementals: a store that tells changes wrongly is found by what finds nothing else.
func TestBrokenIncrementals(t *testing.T) {
	defer backup.Small(1<<10, 100)()
	for what, breaks := range map[string]func(*watched){
		"deletions are left out": func(w *watched) {
			w.told = func(res *kv.ChangesResult) {
				res.Rows = slices.DeleteFunc(res.Rows, func(r kv.Row) bool { return r.Value == nil })
			}
		},
		"an old version in the place of the newest": func(w *watched) {
			w.told = func(res *kv.ChangesResult) {
				for i := 1; i < len(res.Rows); i++ {
					if a, b := &res.Rows[i-1], &res.Rows[i]; a.Key.Compare(b.Key) == 0 {
						*a, *b = *b, *a
					}
				}
			}
		},
		"a block is skipped": func(w *watched) {
			n := 0
			w.told = func(res *kv.ChangesResult) {
				if n++; n%3 == 0 {
					res.Rows = nil
				}
			}
		},
		"the first commit of a table is left out": func(w *watched) {
			first := map[base.TableID]base.Timestamp{}
			w.told = func(res *kv.ChangesResult) { // what was committed first of a table is missing
				for i := range res.Rows {
					id := res.Rows[i].Key.Table()
					if first[id] == 0 {
						first[id] = res.Rows[i].TS
					}
				}
				res.Rows = slices.DeleteFunc(res.Rows, func(r kv.Row) bool { return r.TS == first[r.Key.Table()] })
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := newChain(t, 7)
			for i := range 4 {
				for range 30 {
					if i > 0 {
						c.change()
					}
				}
				if i == 1 {
					breaks(c.db)
				}
				if err := c.take(false); err != nil {
					t.Logf("found when it was taken: %v", err)
					return
				}
			}
			err := c.judge()
			if err == nil {
				t.Error("nothing was found")
			}
			t.Log("found: ", err)
		})
	}
}

// TestOldChain: a chain that a release before format 3 has taken is restored, and goes on.
func TestOldChain(t *testing.T) {
	w := newWorld(t, "eu", "us")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), KEY (v))") // it gets the id that it had then
	if err := os.CopyFS(w.dir, os.DirFS(filepath.Join("testdata", "format1"))); err != nil {
		t.Fatal(err)
	}
	w.query("VERIFY BACKUP '" + w.url + "' WITH TABLES")
	w.query("RESTORE DATABASE test FROM '" + w.url + "' AS old")
	w.expect("SELECT * FROM old.t ORDER BY id", "1|one", "2|TWO", "3|three", "5|five", "6|six")
	w.exec("INSERT INTO t VALUES (1, 'one'), (2, 'TWO'), (3, 'three'), (5, 'five'), (6, 'six')")
	w.exec("DELETE FROM t WHERE id = 5")
	w.backup("DATABASE test", " WITH INCREMENTAL")
	if got := w.newest(); got[2] != "incremental" || got[len(got)-1] != "changes; all rows of test.t" {
		t.Errorf("SHOW BACKUP: %q", got)
	}
	w.exec("UPDATE t SET v = 'ten' WHERE id = 1")
	w.exec("DELETE FROM t WHERE id = 6")
	w.backup("DATABASE test", " WITH INCREMENTAL")
	if got := w.newest(); got[len(got)-1] != "changes" {
		t.Errorf("SHOW BACKUP: %q", got)
	}
	w.query("VERIFY BACKUP '" + w.url + "' WITH TABLES")
	w.query("RESTORE DATABASE test FROM '" + w.url + "' AS new")
	w.expect("SELECT * FROM new.t ORDER BY id", "1|ten", "2|TWO", "3|three")
}
