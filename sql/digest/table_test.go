package digest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func ended(text string, took time.Duration) *Statement {
	return &Statement{Schema: "d", Text: text, End: noon, Elapsed: took}
}

// find is the row of a digest text.
func find(t *testing.T, tab *Table, schema, text string) Row {
	t.Helper()
	for _, r := range tab.Rows() {
		if r.Schema == schema && r.Text == text {
			return r
		}
	}
	t.Fatalf("there is no row of %q, %s", schema, text)
	return Row{}
}

func TestRecord(t *testing.T) {
	tab := New(10, nil)
	a := ended("SELECT 1 FROM t; SELECT 'other'", 3*time.Millisecond)
	a.Hops, a.Bytes, a.Moves, a.Sent, a.Waited, a.Retries = 2, 100, 1, 5, time.Millisecond, 3
	tab.Record(a)
	b := ended("select 2 from t", time.Millisecond)
	b.End, b.Failed, b.Warnings, b.Affected = noon.Add(time.Second), true, 3, 7
	tab.Record(b)
	c := ended("SELECT 3 FROM t", 0)
	c.Schema = "e"
	tab.Record(c)
	got := find(t, tab, "d", "SELECT ? FROM `t`")
	want := Totals{Count: 2, Errors: 1, Warnings: 3, Affected: 7, Sent: 5, Sum: 4 * time.Millisecond, Min: time.Millisecond,
		Max: 3 * time.Millisecond, Waited: time.Millisecond, Hops: 2, Bytes: 100, Moves: 1, Retries: 3, Crossed: 1, First: noon,
		Last: noon.Add(time.Second)}
	if got.Totals != want {
		t.Errorf("got  %+v\nwant %+v", got.Totals, want)
	}
	if got.Sample != "SELECT ? FROM t" || got.SampleTook != 3*time.Millisecond {
		t.Errorf("the sample is %q, %v: not the slowest, alone", got.Sample, got.SampleTook)
	}
	elsewhere := find(t, tab, "e", "SELECT ? FROM `t`")
	if d := got.Digest(); len(d) != 64 || d != elsewhere.Digest() {
		t.Errorf("the digest is %q, or another one in another database", d)
	}
	tab.Truncate()
	if rows := tab.Rows(); len(rows) != 0 {
		t.Errorf("%d rows are left", len(rows))
	}
	tab.Record(c)
	if got := find(t, tab, "e", "SELECT ? FROM `t`"); got.Count != 1 {
		t.Errorf("%d statements after one", got.Count)
	}
}

// TestFull: what does not fit is counted together, and what was there goes on.
func TestFull(t *testing.T) {
	tab := New(3, nil)
	for i := range 10 {
		tab.Record(ended(fmt.Sprintf("SELECT a FROM t%d", i), time.Millisecond))
		tab.Record(ended("SELECT a FROM t0", time.Millisecond))
	}
	rows := tab.Rows()
	if len(rows) != 4 || !rows[3].Rest || rows[3].Count != 7 || rows[3].Digest() != "" || rows[3].Text != "" {
		t.Errorf("got %+v", rows)
	}
	if got := find(t, tab, "d", "SELECT `a` FROM `t0`"); got.Count != 11 {
		t.Errorf("%d statements of the first digest", got.Count)
	}
	if n, rest := tab.Digests(); n != 3 || rest != 7 {
		t.Errorf("%d digests, %d statements without one", n, rest)
	}
}

// TestBound: of 10,001 digests the last one has no row of its own.
func TestBound(t *testing.T) {
	tab := New(MaxDigests, nil)
	for i := range MaxDigests + 1 {
		tab.Record(ended(fmt.Sprintf("SELECT a%d FROM t", i), time.Millisecond))
	}
	if n, rest := tab.Digests(); n != MaxDigests || rest != 1 {
		t.Errorf("%d digests, %d statements without one", n, rest)
	}
	rows := tab.Rows()
	if last := rows[len(rows)-1]; len(rows) != MaxDigests+1 || !last.Rest || last.Count != 1 {
		t.Errorf("%d rows, the last is %+v", len(rows), last)
	}
	tab.Truncate()
	tab.Record(ended(fmt.Sprintf("SELECT a%d FROM t", MaxDigests), time.Millisecond))
	if n, rest := tab.Digests(); n != 1 || rest != 0 {
		t.Errorf("%d digests, %d statements without one, after all was forgotten", n, rest)
	}
}

// TestTop: the digests that took longest come first; what has no digest is none of them.
func TestTop(t *testing.T) {
	tab := New(3, nil)
	for i, ms := range []time.Duration{1, 5, 3, 100} {
		tab.Record(ended(fmt.Sprintf("SELECT a%d FROM t", i), ms*time.Millisecond))
	}
	var got []string
	for _, r := range tab.Top(2) {
		got = append(got, r.Text)
	}
	if want := []string{"SELECT `a1` FROM `t`", "SELECT `a2` FROM `t`"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if rows := tab.Top(10); len(rows) != 3 {
		t.Errorf("%d rows of 3 digests", len(rows))
	}
}

// TestSamples: a sample is replaced by a slower statement, or after a minute; it is bounded and has
// no passwords.
func TestSamples(t *testing.T) {
	shows := true
	tab := New(20, func() bool { return shows })
	sample := func(st *Statement) string {
		tab.Record(st)
		return find(t, tab, "d", Text(st.Text, st.Mode)).Sample
	}
	late := ended("SELECT 4", time.Millisecond)
	late.End = noon.Add(sampleFor)
	raw := ended(`SET PASSWORD = 'a\', password = 'hunter2'`, 0)
	raw.Mode = NoBackslashEscapes
	for i, c := range []struct {
		st   *Statement
		want string
	}{
		{ended("SELECT 1", 2*time.Millisecond), "SELECT 1"},
		{ended("SELECT 2", time.Millisecond), "SELECT 1"},
		{ended("SELECT 3", 3*time.Millisecond), "SELECT 3"},
		{late, "SELECT 4"},
		{ended("CREATE USER u IDENTIFIED BY 'hunter2'", 0), "CREATE USER u IDENTIFIED BY '***'"},
		{ended("PREPARE s FROM 'SET PASSWORD = ''hunter2'''", 0), "PREPARE s FROM '***'"},
		{raw, "SET PASSWORD = ?, password = ?"},
	} {
		if got := sample(c.st); got != c.want {
			t.Errorf("%d: got %s, want %s", i, got, c.want)
		}
	}
	if got := sample(ended("SELECT '"+strings.Repeat("é", MaxSample)+"', a", 0)); len(got) > MaxSample || !strings.HasSuffix(got, "é...") {
		t.Errorf("%d bytes: %s", len(got), got[max(0, len(got)-20):])
	}
	shows = false
	for _, c := range []struct{ q, want string }{
		{"select a, 'secret' /* 'of' */ from t where b IN (1, 'x',NULL) -- all", "select a, ?   from t where b IN (?, ?,?)"},
		{"SELECT a1.b2, 0x1F FROM `t 1` a1 WHERE c = @x", "SELECT a1.b2, ? FROM `t 1` a1 WHERE c = @?"},
		{"CREATE USER v IDENTIFIED BY hunter2", "CREATE USER v IDENTIFIED BY ?"},
	} {
		if got := sample(ended(c.q, 0)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if got := Redact("INSERT INTO t VALUES "+strings.Repeat("('é'), ", MaxSample), 0); len(got) > MaxSample {
		t.Errorf("%d bytes are left", len(got))
	}
}

// TestConcurrent: nothing is lost while many record and some read.
func TestConcurrent(t *testing.T) {
	tab := New(5, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				tab.Record(ended(fmt.Sprintf("SELECT %d FROM t%d", i, i%7), time.Duration(i)))
				if i%500 == 0 {
					tab.Rows()
				}
			}
		})
	}
	wg.Wait()
	n := uint64(0)
	for _, r := range tab.Rows() {
		n += r.Count
	}
	if n != 16_000 {
		t.Errorf("%d statements were counted, of 16000", n)
	}
}

// TestHistogram: quantiles are the exact ones, or up to a 16th more.
func TestHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		var h histogram
		var all []time.Duration
		for range 1 + rng.IntN(2000) {
			d := time.Duration(rng.Uint64() >> (rng.IntN(60) + 1))
			all = append(all, d)
			h.observe(d)
		}
		slices.Sort(all)
		for _, q := range []float64{0.001, 0.5, 0.95, 0.99, 0.999, 1} {
			exact := all[max(int(q*float64(len(all))+0.999999), 1)-1]
			if got := h.quantile(q); got < exact || float64(got) > float64(exact)*(1+1.0/sub)+1 {
				t.Errorf("round %d: of %d the quantile %v is %v, not %v", round, len(all), q, got, exact)
			}
		}
	}
}

// TestCountsAreHalved: a bucket that is full keeps its share.
func TestCountsAreHalved(t *testing.T) {
	var h histogram
	h.observe(100)
	h.observe(7)
	h.counts[0][7] = 1<<32 - 1
	h.n = 1 << 32
	h.observe(7)
	if h.n != 1<<31 || h.quantile(0.999) != 7 {
		t.Errorf("%d are counted, the quantile is %d", h.n, h.quantile(0.999))
	}
}

// TestRecordAllocates: a statement that is executed again is recorded without an allocation; one
// of a known digest with other literals needs the scanner alone, which a garbage collection may
// take.
func TestRecordAllocates(t *testing.T) {
	tab := New(100, nil)
	st := ended(usual, time.Millisecond)
	if n := testing.AllocsPerRun(100, func() { tab.Record(st) }); n != 0 {
		t.Errorf("%v allocations for a text that is known", n)
	}
	var texts []string
	for i := range 300 {
		texts = append(texts, fmt.Sprintf("SELECT c FROM sbtest1 WHERE id = %d", i))
	}
	sc := new(scanner)
	sc.scan(texts[0], 0)
	i := 0
	if n := testing.AllocsPerRun(200, func() {
		i++
		sc.out = sc.out[:0]
		sc.scan(texts[i], 0)
	}); n != 0 {
		t.Errorf("%v allocations for other literals", n)
	}
}

const usual = "SELECT o.id, o.total, c.name FROM orders o JOIN customers c ON c.id = o.customer WHERE o.id = ? AND c.region = 'eu'"

func BenchmarkRecord(b *testing.B) {
	tab := New(100, nil)
	st := ended(usual, time.Millisecond)
	b.ReportAllocs()
	for b.Loop() {
		tab.Record(st)
	}
}

// BenchmarkRecordParallel is the worst case: all processors execute one statement.
func BenchmarkRecordParallel(b *testing.B) {
	tab := New(100, nil)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		st := ended(usual, time.Millisecond)
		for pb.Next() {
			tab.Record(st)
		}
	})
}

// BenchmarkRecordUnknown records texts that were never seen before, of one digest.
func BenchmarkRecordUnknown(b *testing.B) {
	tab := New(100, nil)
	texts := make([]string, 1<<16)
	for i := range texts {
		texts[i] = fmt.Sprintf("SELECT c FROM sbtest1 WHERE id = %d", i)
	}
	st := ended("", time.Millisecond)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		st.Text = texts[i%len(texts)]
		tab.Record(st)
	}
}

// BenchmarkRecordLong records a bulk load, whose text is not remembered.
func BenchmarkRecordLong(b *testing.B) {
	tab := New(100, nil)
	st := ended("INSERT INTO t VALUES "+strings.Repeat("(1, 'some text', 2.5), ", 1<<16)+"(1, 'x', 0)", time.Millisecond)
	b.SetBytes(int64(len(st.Text)))
	b.ReportAllocs()
	for b.Loop() {
		tab.Record(st)
	}
}
