package recording

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/digest"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// feed is a recorder whose clients say something.
type feed struct {
	Recorder
	now time.Time
}

func newFeed() *feed {
	f := &feed{now: epoch}
	f.Keep(true)
	return f
}

type settings []string

func (s settings) Traits() []string { return s }

// say has a session execute a statement of 1 ms.
func (f *feed) say(session uint64, text string, was, goes bool) {
	n := &Note{Session: session, Began: f.now, Was: was, Goes: goes, Settings: settings(nil)}
	n.Schema, n.Text, n.Elapsed, n.End = "d", text, time.Millisecond, f.now.Add(time.Millisecond)
	f.now = n.End
	if f.Wants(n.End) {
		f.Add(n)
	}
}

func all(t *testing.T, r *Recorder) (Taken, []Statement) {
	t.Helper()
	taken := r.Take()
	s, err := taken.All()
	if err != nil {
		t.Fatal(err)
	}
	return taken, s
}

// TestRoundTrip: what was kept comes back, with the values of prepared statements in their places.
func TestRoundTrip(t *testing.T) {
	f := newFeed()
	n := &Note{Session: 7, Began: epoch, Goes: true, Lost: true, Settings: settings{"SET x = 1"}}
	n.Schema, n.Text = "d", "SELECT 'a', ?, NULL FROM t WHERE b = ? AND c IN (?, -5) -- why"
	n.Elapsed, n.Hops, n.Bytes, n.Failed, n.End = 3*time.Millisecond, 2, 345, true, epoch.Add(time.Second)
	n.Binds = map[string]*querypb.BindVariable{"v1": {Type: querypb.Type_INT64, Value: []byte("12")},
		"v2": {Type: querypb.Type_VARCHAR, Value: []byte(strings.Repeat("it's ", 100))}}
	f.Add(n)
	taken, got := all(t, &f.Recorder)
	if len(got) != 2 || !got[0].Trait || taken.Texts[got[0].Text].Text != "SET x = 1" {
		t.Fatalf("%+v", got)
	}
	s := got[1]
	if text := taken.Texts[s.Text]; text.Schema != "d" || text.Text != "SELECT ?, ?, NULL FROM t WHERE b = ? AND c IN (?, -?)  " {
		t.Errorf("the text is %q", text.Text)
	}
	if s.Session != 7 || !s.Goes || s.Was || !s.Failed || !s.Lost || s.Hops != 2 || s.Bytes != 345 || s.Elapsed != n.Elapsed ||
		s.Began != time.Duration(epoch.UnixNano()) {
		t.Errorf("%+v", s)
	}
	var lits []string
	for _, l := range s.Literals {
		lits = append(lits, fmt.Sprintf("%.8s/%d", l.Text, l.Size))
	}
	if g := strings.Join(lits, " "); g != `'a'/3 12/2 'it\'s i/553 NULL/4 5/1` {
		t.Errorf("literals %s", g)
	}
}

// TestBounds: however much is said, a recorder keeps so much at most, and then it is the newest,
// with transactions whole.
func TestBounds(t *testing.T) {
	f := newFeed()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 400_000 {
		s := rng.Uint64N(20)
		f.now = f.now.Add(-2500 * time.Microsecond)
		f.say(s, "BEGIN", false, true)
		f.say(s, fmt.Sprintf("UPDATE t SET v = %d WHERE id = '%s'", i, strings.Repeat("x", rng.IntN(50))), true, true)
		f.say(s, "COMMIT", true, false)
		if i%10_000 == 0 {
			f.now = f.now.Add(20 * time.Second)
		}
	}
	taken, got := all(t, &f.Recorder)
	size := 0
	for _, c := range taken.Chunks {
		size += len(c)
	}
	if size > MaxBytes || size < MaxBytes/2 {
		t.Errorf("%d bytes are kept, of at most %d", size, MaxBytes)
	}
	if taken.Missed == 0 {
		t.Error("nothing was left out")
	}
	open := map[uint64]bool{}
	for i, s := range got {
		if s.Was != open[s.Session] && i > 60 { // the oldest chunk begins anywhere
			t.Fatalf("statement %d of %d was in a transaction: %v, which had begun: %v", i, len(got), s.Was, open[s.Session])
		}
		open[s.Session] = s.Goes
	}
	last := got[len(got)-1]
	if d := time.Duration(f.now.UnixNano()) - last.Began; d > time.Minute {
		t.Errorf("the newest is of %v ago", d)
	}
	if f.following.Load() > 1 {
		t.Errorf("%d sessions are still followed", f.following.Load())
	}
}

// TestSlices: of more than it takes a recorder keeps all statements of a while, and then none.
func TestSlices(t *testing.T) {
	f := newFeed()
	said := 0
	for f.now.Sub(epoch) < 20*time.Second {
		f.now = f.now.Add(-990 * time.Microsecond) // 100,000 a second
		f.say(uint64(said%9), "SELECT 1 FROM t WHERE a = 12345", false, false)
		said++
	}
	_, got := all(t, &f.Recorder)
	by := map[int64]int{}
	for _, s := range got {
		by[s.Slice]++
	}
	if share := float64(len(got)) / float64(said); len(by) < 3 || share > 0.05 {
		t.Errorf("%d slices with %.3f of the statements", len(by), share)
	}
	if p := pausesOf(got); p[got[len(got)-1].Slice] < 10*time.Second {
		t.Errorf("pauses of %v", p)
	}
}

// TestTexts: too many texts, and all begins anew.
func TestTexts(t *testing.T) {
	f := newFeed()
	for i := range 3 * maxTexts {
		f.say(1, fmt.Sprintf("SELECT a%d FROM t", i), false, false)
		f.now = f.now.Add(10 * time.Millisecond)
		if f.bytes > maxTextBytes || len(f.names) > maxTexts {
			t.Fatalf("%d texts of %d bytes", len(f.names), f.bytes)
		}
	}
	taken, got := all(t, &f.Recorder)
	if len(got) == 0 || taken.Texts[got[len(got)-1].Text].Text != fmt.Sprintf("SELECT a%d FROM t", 3*maxTexts-1) {
		t.Errorf("%d are kept", len(got))
	}
}

// TestMask: equal literals stay equal, others stay apart, numbers, dates and strings keep their
// order, forms and lengths stay, and nothing of a string is left.
func TestMask(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var lits []string
	for range 500 {
		lits = append(lits, fmt.Sprint(rng.Uint64N(1<<uint(1+rng.IntN(40)))), Quote(randomWord(rng, 3+rng.IntN(100))),
			fmt.Sprintf("'2024-%02d-%02d'", 1+rng.IntN(12), 1+rng.IntN(28)))
	}
	m := Mask{}
	m.Keep("red")
	for _, l := range lits {
		m.Learn(Cut(l))
	}
	m.Seal()
	shown := map[string]string{}
	for _, l := range lits {
		s := m.Show(Cut(l))
		if was, ok := shown[s]; ok && was != l {
			t.Fatalf("%s and %s both are %s", was, l, s)
		}
		shown[s] = l
		if l[0] == '\'' && len(s) != len(l) || l[0] != '\'' && (len(s) > len(l) || s[0] == '\'') {
			t.Errorf("%s is shown as %s", l, s)
		}
		if l[0] == '\'' && strings.Contains(s, l[1:4]) && !strings.HasPrefix(l, "'20") {
			t.Errorf("something of %s is in %s", l, s)
		}
	}
	for i, a := range lits {
		for _, b := range lits[:i] {
			if x, y := m.Show(Cut(a)), m.Show(Cut(b)); (a[0] == '\'') == (b[0] == '\'') && strings.HasPrefix(a, "'20") == strings.HasPrefix(b, "'20") &&
				before(a, b) != before(x, y) {
				t.Fatalf("%s and %s became %s and %s", a, b, x, y)
			}
		}
	}
	for l, want := range map[string]string{"16": "16", "NULL": "NULL", "'red'": "'red'", "''": "''", "'$.a[0]'": "'$.a[0]'", "-7": "-7", "true": "true"} {
		if got := m.Show(Cut(l)); got != want {
			t.Errorf("%s became %s", l, got)
		}
	}
}

// before compares two literals of a form.
func before(a, b string) bool {
	if a[0] == '\'' {
		return a < b
	}
	return len(a) < len(b) || len(a) == len(b) && a < b
}

func randomWord(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijlmnopqrstuvwyzABC"[rng.IntN(27)]
	}
	return string(b)
}

// TestNoLiteralLeaves: of what clients say nothing is in the file but names, and what says nothing.
func TestNoLiteralLeaves(t *testing.T) {
	f := newFeed()
	for _, q := range []string{"SELECT 'secret1' FROM t WHERE a = 987654321 LIMIT 7000", "SET @x = 'secret2', @@sql_mode = 'secret3'",
		"SET SESSION read_staleness = '2s'", "INSERT INTO t VALUES (1, \"secret4\", N'secret5', X'736563')", "SET PASSWORD = 'secret6'",
		"GRANT ALL ON *.* TO 'secret7'@'secret8' IDENTIFIED BY 'secret9'", "SELECT @secret10, 'secret11''s' COLLATE utf8mb4_bin"} {
		f.say(1, q, false, false)
	}
	file := File{}
	err := file.Build([]Part{{0, f.Take()}}, []Source{{Table: Table{DB: "d", Name: "t",
		Create:    "CREATE TABLE `t` (`a` int DEFAULT '987654321', `e` enum('red','o''k') COMMENT 'secret12', `s` varchar(9) DEFAULT 'secret13') COMMENT='secret14'",
		Placement: "PLACEMENT BY (`a`) ((?, ?) IN `p` AT 'eu', DEFAULT IN NONE)"},
		Values: []Literal{Cut("987654321"), Cut("'secret15'")},
		Rows:   [][]Literal{{Cut("987654321"), Cut("'red'"), Cut("'secret1'")}}, Home: []string{"eu"}, Pinned: []bool{true}}},
		[]Program{{DB: "d", Kind: "procedure", Name: "p", Create: "CREATE DEFINER = `secret16`@'secret17' PROCEDURE p(e ENUM('red'), d DECIMAL(31,4))\n" +
			"COMMENT 'secret18' BEGIN -- secret19\n /* secret20 */ DECLARE CONTINUE HANDLER FOR 1062 SET @secret10 = X'736563';\n" +
			"IF d > 987654321 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'secret21', MYSQL_ERRNO = 4711; END IF;\n" +
			"SELECT CHAR(73, 1987), CHAR(73, 74, 75, 88), year(20191817) FROM t WHERE s = 'secret1' AND e = 'red' LIMIT 5, 99; END"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(file, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"secret", "987654321", "736563", "73,", "88", "1987", "20191817"} {
		if strings.Contains(string(b), s) {
			t.Errorf("%s is in %s", s, b)
		}
	}
	for _, s := range []string{"7000", "'2s'", "enum('red','o\\\\'k')", "AT 'eu'", "DECIMAL(31,4)", "FOR 1062", "'45000'", "4711",
		"ENUM('red')", "e = 'red' LIMIT 5, 99", "CREATE PROCEDURE p("} {
		if !strings.Contains(string(b), s) {
			t.Errorf("%s is not in %s", s, b)
		}
	}
	for _, w := range []string{"s = " + file.Sessions[0].Steps[0].Args[0], "@" + file.Sessions[0].Steps[len(file.Sessions[0].Steps)-1].Args[0] + " ="} {
		if !strings.Contains(file.Programs[0].Create, w) {
			t.Errorf("the program does not say %s, as the statements do: %s", w, file.Programs[0].Create)
		}
	}
	if v := file.Tables[0].Rows[0].Values[0]; !strings.Contains(file.Tables[0].Placement, "(("+v+", ") {
		t.Errorf("the row has %s, and the placement is %s", v, file.Tables[0].Placement)
	}
	// The row is still the one that the statement asks for.
	if a, want := file.Sessions[0].Steps[0].Args[0], file.Tables[0].Rows[0].Values[2]; a != want {
		t.Errorf("the statement asks for %s, and the row has %s", a, want)
	}
}

// TestFill is a text with its literals again.
func TestFill(t *testing.T) {
	for _, q := range []string{"SELECT 'a', 5 FROM t WHERE x IN (1, -2, 'c''d')", "SELECT a FROM t", "INSERT INTO t VALUES (NULL, 1.5e3)"} {
		text, lits := digest.Split(q, 0, nil, nil)
		if got := Fill(string(text), lits); got != q {
			t.Errorf("%s became %s", q, got)
		}
	}
}

// BenchmarkAdd is what a statement costs that is kept, BenchmarkAddNot one for which there is no
// room.
func BenchmarkAdd(b *testing.B) {
	f := newFeed()
	b.ReportAllocs()
	for b.Loop() {
		f.now = f.now.Add(100 * time.Millisecond)
		f.say(1, "SELECT c FROM sbtest1 WHERE id = 5017 AND k = 'abc'", false, false)
	}
}

func BenchmarkAddNot(b *testing.B) {
	f := newFeed()
	f.open.Store(false)
	f.opens.Store(1 << 62)
	for b.Loop() {
		f.say(1, "SELECT c FROM sbtest1 WHERE id = 5017 AND k = 'abc'", false, false)
	}
}
