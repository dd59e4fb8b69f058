package backup_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/backup"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/place"
)

// three is a cluster of three regions, whose nodes each see a directory of their own.
type three struct {
	all          string // what has the directories of all
	eu, us, asia *world
	everywhere   *world // in eu, and sees all directories
	clause       string
}

func newThree(t *testing.T) *three {
	t.Helper()
	x := &three{all: t.TempDir()}
	db := memkv.New(4, "eu", "us", "asia")
	at := func(g *memkv.DB, dir string) *world {
		dir = filepath.Join(x.all, dir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		w := startAt(t, g, place.Policy{Dir: dir})
		w.exec("CREATE DATABASE IF NOT EXISTS test")
		w.exec("USE test")
		return w
	}
	x.eu, x.us, x.asia, x.everywhere = at(db, "eu"), at(db.Gateway(2), "us"), at(db.Gateway(3), "asia"), at(db.Gateway(1), "")
	x.clause = fmt.Sprintf(" 'file://%s/eu/main' PLACES ('EU' = 'file://%[1]s/eu/own', 'us' = 'file://%[1]s/us')", filepath.ToSlash(x.all))
	return x
}

// contents is all that the files of a place say: names, manifests and records, decoded.
func contents(t *testing.T, dir string) (text string) {
	t.Helper()
	var out strings.Builder
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(name)
		out.Write(b)
		return b
	}
	records := func(folder string, f archive.File, kind archive.Kind) {
		d, err := archive.Open(folder, f, kind, read(folder+"/"+f.Name), nil)
		for ok := err == nil; ok; {
			var r archive.Record
			if ok, err = d.Next(&r); ok {
				out.Write(r.PK)
				out.Write(r.Value)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		folder, name := filepath.Base(filepath.Dir(path)), e.Name()
		switch {
		case name == archive.ManifestName:
			m, _, err := archive.DecodeManifest(folder, read(folder+"/"+name), nil)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%+v %s", *m, m.Users)
			for _, x := range m.Tables {
				out.Write(x.Desc)
				for _, s := range x.Streams {
					for _, f := range s.Rows {
						records(folder, f, archive.RowPiece)
					}
					for _, f := range s.Keys {
						records(folder, f, archive.KeyPiece)
					}
				}
			}
		case strings.HasSuffix(name, archive.SegmentSuffix):
			s, _, err := archive.DecodeSegment(folder, strings.TrimSuffix(name, archive.SegmentSuffix), read(folder+"/"+name), nil)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%+v", *s)
			for _, f := range s.Pieces {
				records(folder, f, archive.LogPiece)
			}
		default:
			read(folder + "/" + name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// resides fails if a place has, or lacks, what rows of regions say.
func (x *three) resides(t *testing.T) {
	t.Helper()
	for dir, own := range map[string]string{"eu/main": "asian", "eu/own": "european", "us": "american"} {
		text := contents(t, filepath.Join(x.all, dir))
		for _, what := range []string{"asian", "european", "american"} {
			if strings.Contains(text, what) != (what == own) {
				t.Errorf("%s has rows that say %s: %v", dir, what, what != own)
			}
		}
	}
	if !empty(t, filepath.Join(x.all, "asia")) {
		t.Error("there are files where nobody was told to write")
	}
}

// TestPlacesOfRegions: the rows of each region, and their keys, get to the region's place and
// nowhere else, written by a node of the region; also in incremental backups, when rows have moved.
// All of them together come back, and what is missing is named.
func TestPlacesOfRegions(t *testing.T) {
	if testing.Short() {
		t.Skip("nodes look for jobs of their regions every 5 s")
	}
	x := newThree(t)
	x.eu.exec("CREATE TABLE t (id VARCHAR(40) PRIMARY KEY, v VARCHAR(40), n INT AUTO_INCREMENT, KEY (v), UNIQUE KEY (n))")
	x.eu.exec("CREATE TABLE g (id INT PRIMARY KEY, v VARCHAR(20)) LOCALITY GLOBAL")
	x.eu.exec("CREATE TABLE only (id INT PRIMARY KEY, v VARCHAR(20)) LOCALITY REGIONAL BY TABLE IN 'us'")
	x.eu.exec("CREATE VIEW vw AS SELECT COUNT(*) AS n FROM t")
	fill := func(from, to int) {
		for what, w := range map[string]*world{"european": x.eu, "american": x.us, "asian": x.asia} {
			var rows []string
			for i := from; i < to; i++ {
				rows = append(rows, fmt.Sprintf("('%s %d', 'value %s %d')", what, i, what, i))
			}
			w.exec("INSERT INTO t (id, v) VALUES " + strings.Join(rows, ","))
		}
	}
	fill(0, 40)
	x.eu.exec("INSERT INTO g VALUES (1, 'everywhere')")
	x.eu.exec("INSERT INTO only VALUES (1, 'american')")
	into := "BACKUP DATABASE test INTO" + x.clause
	x.eu.refused("there is no region 'moon'", "BACKUP INTO '"+x.eu.url+"' PLACES ('moon' = '"+x.eu.url+"/m')")
	x.eu.refused("give each a place of its own", "BACKUP INTO '"+x.eu.url+"/a' PLACES ('us' = '"+x.eu.url+"/a/')")
	var moments []string
	var want [][]string
	take := func(options string) {
		t.Helper()
		got := strings.Split(x.eu.query(into + options)[0], "|")
		if n := x.eu.query("SELECT COUNT(*) + 2 FROM t")[0]; got[3] != n {
			t.Errorf("the backup has %s rows, want %s", got[3], n)
		}
		moments = append(moments, got[1])
		want = append(want, x.eu.query("SELECT * FROM t ORDER BY id"))
	}
	take("")
	x.resides(t)
	if got := x.eu.query("SHOW BACKUP FROM 'file://" + x.all + "/eu/main'"); len(got) != 1 ||
		!strings.HasSuffix(got[0], "|eu = file://"+x.all+"/eu/own, us = file://"+x.all+"/us|all rows") {
		t.Errorf("SHOW BACKUP: %q", got)
	}
	// Rows go, come, change and move. What has moved away is gone from the place where it was.
	fill(40, 50)
	x.us.exec("DELETE FROM t WHERE id LIKE '% 7'")
	x.us.exec("UPDATE t SET v = REPLACE(v, 'value', 'other') WHERE id LIKE '% 8'")
	x.eu.exec("INSERT INTO t (id, v) VALUES ('traveller', 'unknown')")
	x.eu.refused("has other places of regions", "BACKUP DATABASE test INTO 'file://"+x.all+"/eu/main' WITH INCREMENTAL")
	take(" WITH INCREMENTAL")
	x.eu.exec("UPDATE t__homes SET home_region = 'us' WHERE id = 'traveller'")
	take(" WITH INCREMENTAL")
	x.resides(t)
	if text := contents(t, filepath.Join(x.all, "us")); !strings.Contains(text, "traveller") {
		t.Error("a row that has moved to us is not in its place")
	}

	from := " FROM 'file://" + x.all + "/eu/main'"
	for i, m := range moments {
		db := fmt.Sprintf("r%d", i)
		x.everywhere.query("RESTORE DATABASE test" + from + " AS OF SYSTEM TIME '" + m + "' AS " + db)
		if got := x.eu.query("SELECT * FROM " + db + ".t ORDER BY id"); !slices.Equal(got, want[i]) {
			t.Errorf("moment %s: %d rows, want %d", m, len(got), len(want[i]))
		}
		x.eu.expect("SELECT COUNT(*) FROM "+db+".t FORCE INDEX (v) WHERE v > ''", fmt.Sprint(len(want[i])))
		x.eu.expect("SELECT * FROM "+db+".vw", fmt.Sprint(len(want[i])))
	}
	x.eu.expect("SELECT home_region FROM r1.t__homes WHERE id = 'traveller'", "eu")
	x.eu.expect("SELECT home_region FROM r2.t__homes WHERE id = 'traveller'", "us")
	x.eu.expect("SELECT DISTINCT home_region FROM r2.t__homes WHERE id LIKE 'asian%'", "asia")
	x.eu.expect("SELECT v FROM r2.only", "american")
	x.eu.expect("SELECT v FROM r2.g", "everywhere")
	for _, line := range x.everywhere.query("VERIFY BACKUP 'file://" + x.all + "/eu/main'") {
		if !strings.Contains(line, "|ok|") {
			t.Errorf("VERIFY BACKUP: %s", line)
		}
	}
	for _, line := range x.everywhere.query("VERIFY BACKUP 'file://" + x.all + "/eu/main' WITH TABLES") {
		f := strings.Split(line, "|")
		if want := map[string]string{"test.t": fmt.Sprint(len(want[2])), "test.g": "1", "test.only": "1"}[f[1]]; f[2] != "ok" || f[3] != want || f[4] != f[5] {
			t.Errorf("VERIFY BACKUP WITH TABLES: %s", line)
		}
	}
	missingPlaces(t, x, from)
}

// missingPlaces: a place that cannot be read, or lacks something, is named.
func missingPlaces(t *testing.T, x *three, from string) {
	t.Helper()
	us := "file://" + x.all + "/us"
	for _, q := range []string{"RESTORE DATABASE test" + from + " AS other", "VERIFY BACKUP" + strings.TrimPrefix(from, " FROM")} {
		x.eu.refused("the rows of region us lie in '"+us+"', which this node cannot read", q)
	}
	x.everywhere.refused("it has the rows of region us only, of the backup in 'file://"+x.all+"/eu/main'", "RESTORE DATABASE test FROM '"+us+"' AS other")
	moved := filepath.Join(x.all, "moved")
	if err := os.Rename(filepath.Join(x.all, "us"), moved); err != nil {
		t.Fatal(err)
	}
	x.everywhere.refused("the rows of region us lie in '"+us+"'", "RESTORE DATABASE test"+from+" AS other")
	x.everywhere.query("RESTORE DATABASE test" + from + " PLACES ('us' = 'file://" + moved + "') AS other")
	x.eu.expect("SELECT COUNT(*) FROM other.t WHERE id LIKE 'american%'", "49")
	// A manifest of another backup, and none.
	ids, err := os.ReadDir(moved)
	if err != nil {
		t.Fatal(err)
	}
	last := filepath.Join(moved, ids[len(ids)-1].Name(), archive.ManifestName)
	old, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	given := " PLACES ('us' = 'file://" + moved + "')"
	for _, b := range [][]byte{old[:len(old)-1], nil} {
		if err := os.WriteFile(last, b, 0o600); err != nil {
			t.Fatal(err)
		}
		x.everywhere.refused("in 'file://"+moved+"', the place of region us: backup file "+ids[len(ids)-1].Name()+"/manifest",
			"RESTORE DATABASE test"+from+given+" AS another")
	}
	if err := os.Remove(last); err != nil {
		t.Fatal(err)
	}
	x.everywhere.refused("/manifest: it is missing", "RESTORE DATABASE test"+from+given+" AS another")
	x.everywhere.refused("/manifest: it is missing", "VERIFY BACKUP"+strings.TrimPrefix(from, " FROM")+given)
}

// TestLogsOfRegions: the logs of changes of regions have their rows alone, and together lead to any
// moment, also when a row has moved to and fro between segments that end at different times.
func TestLogsOfRegions(t *testing.T) {
	x := newThree(t)
	x.eu.exec("CREATE TABLE t (id VARCHAR(40) PRIMARY KEY, v VARCHAR(40), KEY (v))")
	row := func(w *world, what string) {
		w.exec("INSERT INTO t VALUES ('" + what + " 1', 'x'), ('" + what + " 2', 'y'), ('" + what + " 3', 'z')")
	}
	row(x.eu, "european")
	row(x.us, "american")
	row(x.asia, "asian")
	m := newMortal(t, x.everywhere)
	text := "BACKUP LOG DATABASE test INTO" + x.clause
	main, eu, us := m.env.NewLog(m.ctx, text), m.env.NewLogOf(m.ctx, text, "eu"), m.env.NewLogOf(m.ctx, text, "us")
	x.eu.query("BACKUP DATABASE test INTO" + x.clause)
	var moments []string
	var want [][]string
	step := func(logs []interface{ Segment(*testing.T) }, qs ...string) {
		t.Helper()
		for _, q := range qs {
			x.us.exec(q)
		}
		moments = append(moments, x.eu.query("SELECT NOW(6)")[0])
		want = append(want, x.eu.query("SELECT id, v, home_region FROM t JOIN t__homes USING (id) ORDER BY id"))
		for _, l := range logs {
			l.Segment(t)
		}
	}
	type logs = []interface{ Segment(*testing.T) }
	move := func(id, to string) string {
		return "UPDATE t__homes SET home_region = '" + to + "' WHERE id = '" + id + "'"
	}
	x.eu.exec("INSERT INTO t VALUES ('mover', '0')")
	step(logs{eu}, "UPDATE t SET v = 'xx' WHERE v = 'x'", move("mover", "us"))
	step(logs{main}, "UPDATE t SET v = '1' WHERE id = 'mover'", "DELETE FROM t WHERE id LIKE '% 2'")
	step(logs{us, main}, move("mover", "eu"), "UPDATE t SET v = '2' WHERE id = 'mover'")
	step(logs{eu, main}, move("mover", "us"), "DELETE FROM t WHERE id = 'mover'")
	x.eu.exec("INSERT INTO t VALUES ('mover', '3')")
	step(logs{main, us}, "CREATE TABLE late (id VARCHAR(40) PRIMARY KEY)", "INSERT INTO late VALUES ('american')")
	x.eu.exec("INSERT INTO late VALUES ('european')")
	step(logs{eu, us, main, eu, us})
	x.resides(t)
	from := " FROM 'file://" + x.all + "/eu/main'"
	for i, at := range moments {
		db := fmt.Sprintf("r%d", i)
		x.everywhere.query("RESTORE DATABASE test" + from + " AS OF SYSTEM TIME '" + at + "' AS " + db)
		x.eu.expect("SELECT id, v, home_region FROM "+db+".t JOIN "+db+".t__homes USING (id) ORDER BY id", want[i]...)
		x.eu.expect("SELECT id FROM "+db+".t WHERE v = 'xx' ORDER BY id", "american 1", "asian 1", "european 1")
		of := "VERIFY BACKUP 'file://" + x.all + "/eu/main' AS OF SYSTEM TIME '" + at + "' WITH TABLES"
		if got, want := x.everywhere.rehearsed(of), fmt.Sprintf("test.t %d", len(want[i])); got[len(got)-1] != want {
			t.Errorf("moment %d: %q, want %s", i, got, want)
		}
	}
	x.eu.expect("SELECT id FROM r5.late ORDER BY id", "american", "european")
	for _, line := range x.everywhere.query("VERIFY BACKUP 'file://" + x.all + "/eu/main'") {
		if !strings.Contains(line, "|ok|") {
			t.Errorf("VERIFY BACKUP: %s", line)
		}
	}
	// A gap in the log of one region is named.
	segments, err := filepath.Glob(filepath.Join(x.all, "us", "log-2*", "*"+archive.SegmentSuffix))
	if err != nil || len(segments) < 3 {
		t.Fatalf("segments: %q, %v", segments, err)
	}
	if err := os.Remove(segments[1]); err != nil {
		t.Fatal(err)
	}
	x.everywhere.refused("the log of changes of region us leads from", "RESTORE DATABASE test"+from+" AS OF SYSTEM TIME '"+moments[5]+"' AS again")
}

// TestPartGoesOn: a node that dies while it writes the part of its region is followed by another
// one of the region, which writes what is missing; the backup waits for it.
func TestPartGoesOn(t *testing.T) {
	defer backup.Small(1<<10, 100)()
	w := newWorld(t, "eu", "us")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100))")
	var values []string
	for i := range 3000 {
		values = append(values, fmt.Sprintf("(%d, 'an american row with the number %d')", i, i))
	}
	w.exec("INSERT INTO t VALUES " + strings.Join(values, ","))
	w.exec("UPDATE t__homes SET home_region = 'us' WHERE id >= 0")
	w.exec("INSERT INTO t VALUES (-1, 'european')")
	id := w.query("BACKUP DATABASE test INTO '" + w.url + "/main' PLACES ('us' = '" + w.url + "/us') WITH DETACHED")[0]
	part := func() bool {
		for _, line := range w.query("SHOW JOBS") {
			if strings.Contains(line, "rows of us for job "+id) {
				return true
			}
		}
		return false
	}
	for begin := time.Now(); !part(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("there is no job for the rows of us")
		}
	}
	pieces, deaths := int64(0), []int64{30, 25}
	for _, last := range deaths {
		m := newMortal(t, w)
		m.lastWrite = last
		if err := m.env.GoOn(t.Context()); err == nil || !strings.Contains(err.Error(), "this node stops") {
			t.Fatalf("the gateway ends with %v", err)
		}
		pieces += m.pieces.Load()
	}
	m := newMortal(t, w)
	if err := m.env.GoOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pieces += m.pieces.Load(); pieces < 40 || m.pieces.Load() == 0 {
		t.Errorf("%d pieces were written, the last gateway has written %d", pieces, m.pieces.Load())
	}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if got := fmt.Sprint(w.query("SHOW JOBS")); strings.Contains(got, "|succeeded|3001|") {
			break
		} else if time.Since(begin) > time.Minute {
			t.Fatalf("jobs: %s", got)
		}
	}
	for _, line := range w.query("VERIFY BACKUP '" + w.url + "/main' WITH TABLES") {
		if !strings.Contains(line, "|test.t|ok|3001|") {
			t.Errorf("VERIFY BACKUP: %s", line)
		}
	}
	if text := contents(t, filepath.Join(w.dir, "main")); strings.Contains(text, "american") || !strings.Contains(text, "european") {
		t.Error("the main place has rows of us, or lacks its own")
	}
}

// TestPartsEnd: with the job that they belong to parts end, and leave no files; a region without a
// node is named; and parts of backups that are gone go with the next backup.
func TestPartsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("nodes look for jobs of their regions every 5 s")
	}
	x := newThree(t)
	x.eu.exec("CREATE TABLE t (id VARCHAR(40) PRIMARY KEY)")
	x.us.exec("INSERT INTO t VALUES ('american')")
	main := "file://" + filepath.ToSlash(x.all) + "/eu/main"
	ids := func(dir string) (out []string) {
		es, _ := os.ReadDir(filepath.Join(x.all, dir))
		for _, e := range es {
			out = append(out, e.Name())
		}
		return out
	}
	var all []string
	for range 3 {
		all = append(all, strings.Split(x.eu.query("BACKUP INTO" + x.clause)[0], "|")[0])
		if len(all) == 2 { // as a schedule does that does not keep it
			if err := os.RemoveAll(filepath.Join(x.all, "eu", "main", all[0])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := ids("us"); !slices.Equal(got, all[1:]) {
		t.Errorf("the place of us has %q, want %q", got, all[1:])
	}
	// A place that no node of the region sees.
	defer backup.ClaimWithin(time.Second)()
	x.eu.refused("the rows of region asia did not get to 'file:///elsewhere/asia'", "BACKUP INTO '"+main+"' PLACES ('asia' = 'file:///elsewhere/asia')")
	backup.ClaimWithin(time.Minute)
	if got := ids("eu/main"); !slices.Equal(got, all[1:]) {
		t.Errorf("the main place has %q, want %q", got, all[1:])
	}
	// A log, and its parts, end together.
	id := x.eu.query("BACKUP LOG INTO" + x.clause)[0]
	running := func() (n int) {
		for _, line := range x.eu.query("SHOW JOBS") {
			if strings.Contains(line, "|BACKUP LOG|") && (strings.Contains(line, "|running|") || strings.Contains(line, "|waiting|")) {
				n++
			}
		}
		return n
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for begin := time.Now(); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("never: %s: %q", what, x.eu.query("SHOW JOBS"))
			}
		}
	}
	until("segments of us", func() bool {
		files, _ := filepath.Glob(filepath.Join(x.all, "us", "log-2*", "*"+archive.SegmentSuffix))
		return len(files) > 0
	})
	x.eu.exec("CANCEL JOB " + id)
	until("the logs end", func() bool { return running() == 0 })
	until("the marks are gone", func() bool { // the log of us ends when its node has seen that the job has
		for _, dir := range []string{"eu/main", "eu/own", "us"} {
			if marks, _ := filepath.Glob(filepath.Join(x.all, dir, "log-job-*")); len(marks) > 0 {
				return false
			}
		}
		return true
	})
}
