package digest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/obs/audit"
	"github.com/godwitdb/godwit/sql/work"
)

const (
	// MaxDigests is how many digests a table keeps. What comes later is counted in one row without
	// a digest.
	MaxDigests = 10_000
	// MaxSample bounds the text of a statement that is kept for a digest, in bytes.
	MaxSample = 1024
	// sampleFor is how long a sample is kept unless a slower statement comes.
	sampleFor = time.Minute
	// slots is how many texts are remembered with their digests, and maxCached how long they are.
	slots     = 4096
	maxCached = 2048
)

// Statement is one that has ended.
type Statement struct {
	// Schema is the current database of its session, Text what the client has sent: it may begin
	// with the statement, and go on with others.
	Schema, Text string
	Mode         Mode
	// End is when it ended, Elapsed how long it took, Waited how much of it was spent waiting for
	// replicas to be complete.
	End             time.Time
	Elapsed, Waited time.Duration
	Failed          bool
	// Inside: it was part of a transaction that goes on.
	Inside   bool
	Warnings uint64
	// Affected and Sent are rows: those that it changed, and those that the client got.
	Affected, Sent uint64
	// Hops are the one-way WAN crossings that it waited for, Bytes what it caused there, Moves the
	// rows that it moved to another home.
	Hops, Bytes, Moves int64
	// Retries is how many times it was tried again after it had lost a conflict.
	Retries int64
	// Work is what it had the executor do; Unindexed: it has read a whole table.
	Work      work.Done
	Unindexed bool
}

// Totals is what the statements of one digest have come to.
type Totals struct {
	Count, Errors, Warnings uint64
	Affected, Sent          uint64
	Sum, Min, Max, Waited   time.Duration
	Hops, Bytes, Moves      int64
	Retries                 int64
	// Work is what they had the executor do; Unindexed counts those that have read a whole table.
	Work      work.Done
	Unindexed uint64
	// Crossed counts those that waited for the WAN, Inside those that were part of a transaction
	// that went on.
	Crossed, Inside uint64
	First, Last     time.Time
}

// Row is what a table says of a digest.
type Row struct {
	// Schema and Text are empty for the row of what did not fit.
	Schema, Text string
	Rest         bool // it is that row
	Totals
	// P50, P95, P99 and P999 are quantiles of the time that statements took, at most a 16th too
	// long.
	P50, P95, P99, P999 time.Duration
	Sample              string
	SampleAt            time.Time
	SampleTook          time.Duration
}

// Digest is the hash that names the text of a row: 64 hexadecimal digits; empty for the rest.
func (r *Row) Digest() string {
	if r.Rest {
		return ""
	}
	return Hash(r.Text)
}

// Mean is how long a statement of the digest takes on average.
func (t *Totals) Mean() time.Duration {
	if t.Count == 0 {
		return 0
	}
	return t.Sum / time.Duration(t.Count)
}

// Hash names a digest text: its SHA-256, in hexadecimal digits. MySQL's values differ: they are
// those of its parser's tokens.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Table counts statements by digest and current database. It is safe for concurrent use.
type Table struct {
	max      int
	literals func() bool
	state    atomic.Pointer[state]
}

// state is what Truncate drops.
type state struct {
	mu   sync.RWMutex
	rows map[string]*counts // by database, a zero byte and digest text
	rest counts

	seed   maphash.Seed
	cache  [slots]atomic.Pointer[cached]
	recent [slots]atomic.Uint64 // hash of the text that came last
}

// cached is a text whose digest is known.
type cached struct {
	schema, text string
	mode         Mode
	end          int // of its first statement
	row          *counts
}

// counts is one digest.
type counts struct {
	schema, text string

	mu         sync.Mutex
	totals     Totals
	hist       histogram
	sample     string
	sampleAt   time.Time
	sampleTook time.Duration
}

// New makes a table of at most max digests. literals says whether samples show the literals of
// statements; nil: they never do.
func New(max int, literals func() bool) *Table {
	t := &Table{max: max, literals: literals}
	t.Truncate()
	return t
}

// Truncate forgets everything.
func (t *Table) Truncate() {
	t.state.Store(&state{rows: map[string]*counts{}, seed: maphash.MakeSeed()})
}

// Record counts a statement. It returns the text of its digest, which is empty if there was no
// place for it.
func (t *Table) Record(st *Statement) (text string) {
	r, end := t.find(st)
	t.add(r, st, end)
	return r.text
}

// find is the row of a statement, and where the first statement of its text ends.
func (t *Table) find(st *Statement) (r *counts, end int) {
	s := t.state.Load()
	if len(st.Text) > maxCached {
		return s.normalised(st, t.max)
	}
	h := maphash.String(s.seed, st.Text) ^ maphash.String(s.seed, st.Schema) ^ uint64(st.Mode)
	slot := h % slots
	if c := s.cache[slot].Load(); c != nil && c.text == st.Text && c.schema == st.Schema && c.mode == st.Mode {
		return c.row, c.end
	}
	r, end = s.normalised(st, t.max)
	// A text is remembered when it comes a second time: most texts with literals never do.
	if s.recent[slot].Swap(h) == h {
		s.cache[slot].Store(&cached{strings.Clone(st.Schema), strings.Clone(st.Text), st.Mode, end, r})
	}
	return r, end
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// normalised is the row of a statement, by its digest text.
func (s *state) normalised(st *Statement, most int) (r *counts, end int) {
	sc := scanners.Get().(*scanner)
	defer func() {
		sc.q = ""
		scanners.Put(sc)
	}()
	sc.out = append(append(sc.out[:0], st.Schema...), 0)
	sc.scan(st.Text, st.Mode)
	end = sc.at
	if sc.cut {
		end = len(st.Text)
	}
	s.mu.RLock()
	r = s.rows[string(sc.out)]
	full := len(s.rows) >= most
	s.mu.RUnlock()
	if r != nil {
		return r, end
	}
	if full { // without the lock that all others would wait for
		return &s.rest, end
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.rows[string(sc.out)]; r != nil {
		return r, end
	}
	if len(s.rows) >= most {
		return &s.rest, end
	}
	key := string(sc.out)
	r = &counts{schema: key[:len(st.Schema)], text: key[len(st.Schema)+1:]}
	s.rows[key] = r
	return r, end
}

// mayHide reports whether a statement may have passwords in it, or a statement that does.
func mayHide(text string) bool {
	text = strings.ToUpper(text)
	return slices.ContainsFunc([]string{"IDENTIF", "PASSWORD", "USER", "PREPARE", "PASSPHR", "BACKUP", "RESTORE", "CHANGEFE", "WEBHOOK", "KAFKA:", "SASL_"},
		func(w string) bool { return strings.Contains(text, w) })
}

func (t *Table) add(r *counts, st *Statement, end int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sampleAt.IsZero() || st.Elapsed > r.sampleTook || st.End.Sub(r.sampleAt) >= sampleFor {
		t.take(r, st, end)
	}
	r.totals.Add(st)
	r.hist.observe(st.Elapsed)
}

// Add counts a statement.
func (t *Totals) Add(st *Statement) {
	if t.Count == 0 || st.Elapsed < t.Min {
		t.Min = st.Elapsed
	}
	if t.Count == 0 {
		t.First = st.End
	}
	t.Count++
	if st.Failed {
		t.Errors++
	}
	t.Warnings += st.Warnings
	t.Affected += st.Affected
	t.Sent += st.Sent
	t.Sum += st.Elapsed
	t.Max = max(t.Max, st.Elapsed)
	t.Waited += st.Waited
	t.Hops += st.Hops
	t.Bytes += st.Bytes
	t.Moves += st.Moves
	t.Retries += st.Retries
	t.Work.Add(&st.Work)
	if st.Unindexed {
		t.Unindexed++
	}
	if st.Hops > 0 {
		t.Crossed++
	}
	if st.Inside {
		t.Inside++
	}
	t.Last = st.End
}

// take keeps a statement as the sample.
func (t *Table) take(r *counts, st *Statement, end int) {
	r.sampleAt, r.sampleTook = st.End, st.Elapsed
	if t.literals == nil || !t.literals() {
		r.sample = Redact(st.Text[:end], st.Mode)
		return
	}
	r.sample = shown(st.Text[:end], st.Mode)
	if len(st.Text) > MaxSample {
		r.sample = strings.Clone(r.sample) // what follows is not kept
	}
}

// Sample is the first statement of a text with its literals, but without passwords; of long ones
// the beginning.
func Sample(q string, mode Mode) string {
	s := scanner{}
	s.scan(q, mode)
	if s.cut {
		return shown(q, mode)
	}
	return shown(q[:s.at], mode)
}

func shown(q string, mode Mode) string {
	switch {
	case !mayHide(q):
	case mode&NoBackslashEscapes != 0: // which Mask does not know
		q = Redact(q, mode)
	default:
		q = audit.Mask(q)
	}
	return shorten(q)
}

// shorten cuts the end of a sample off that is too long.
func shorten(text string) string {
	if len(text) > MaxSample {
		text = strings.ToValidUTF8(text[:MaxSample-3], "") + "..."
	}
	return text
}

// Rows is what the table holds, the row of what did not fit last. Statements that end meanwhile may
// be in it or not.
func (t *Table) Rows() []Row {
	s := t.state.Load()
	return rowsOf(append(s.all(), &s.rest), &s.rest)
}

// Top is the rows of the n digests that have taken the most time, the longest first.
func (t *Table) Top(n int) []Row {
	all := t.state.Load().all()
	took := make(map[*counts]time.Duration, len(all))
	for _, r := range all {
		r.mu.Lock()
		took[r] = r.totals.Sum
		r.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b *counts) int {
		return cmp.Or(cmp.Compare(took[b], took[a]), strings.Compare(a.text, b.text), strings.Compare(a.schema, b.schema))
	})
	return rowsOf(all[:min(n, len(all))], nil)
}

// all are the digests.
func (s *state) all() []*counts {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*counts, 0, len(s.rows)+1)
	for _, r := range s.rows {
		out = append(out, r)
	}
	return out
}

func rowsOf(all []*counts, rest *counts) []Row {
	out := make([]Row, 0, len(all))
	for _, r := range all {
		if row := r.row(); row.Count > 0 {
			row.Rest = r == rest
			out = append(out, row)
		}
	}
	return out
}

func (r *counts) row() Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Row{Schema: r.schema, Text: r.text, Totals: r.totals, Sample: r.sample, SampleAt: r.sampleAt, SampleTook: r.sampleTook}
	for _, q := range []struct {
		share float64
		to    *time.Duration
	}{{0.5, &out.P50}, {0.95, &out.P95}, {0.99, &out.P99}, {0.999, &out.P999}} {
		*q.to = min(max(r.hist.quantile(q.share), out.Min), out.Max)
	}
	return out
}

// Plus adds the totals of other statements.
func (t *Totals) Plus(o *Totals) {
	if o.Count == 0 {
		return
	}
	if t.Count == 0 || o.Min < t.Min {
		t.Min = o.Min
	}
	if t.Count == 0 || o.First.Before(t.First) {
		t.First = o.First
	}
	if o.Last.After(t.Last) {
		t.Last = o.Last
	}
	t.Count, t.Errors, t.Warnings = t.Count+o.Count, t.Errors+o.Errors, t.Warnings+o.Warnings
	t.Affected, t.Sent = t.Affected+o.Affected, t.Sent+o.Sent
	t.Sum, t.Max, t.Waited = t.Sum+o.Sum, max(t.Max, o.Max), t.Waited+o.Waited
	t.Hops, t.Bytes, t.Moves, t.Retries = t.Hops+o.Hops, t.Bytes+o.Bytes, t.Moves+o.Moves, t.Retries+o.Retries
	t.Crossed, t.Inside, t.Unindexed = t.Crossed+o.Crossed, t.Inside+o.Inside, t.Unindexed+o.Unindexed
	t.Work.Add(&o.Work)
}

// Bucket is how many statements took longer than Low and no longer than High.
type Bucket struct {
	Low, High time.Duration
	Count     uint64
}

// Histogram is how long the statements of one digest took.
type Histogram struct {
	Schema, Text string
	Rest         bool
	// Buckets has those that are not empty, in order.
	Buckets []Bucket
}

// Histograms are those of all digests, that of what did not fit last.
func (t *Table) Histograms() (out []Histogram) {
	s := t.state.Load()
	for _, r := range append(s.all(), &s.rest) {
		r.mu.Lock()
		h := Histogram{Schema: r.schema, Text: r.text, Rest: r == &s.rest, Buckets: r.hist.buckets()}
		r.mu.Unlock()
		if len(h.Buckets) > 0 {
			out = append(out, h)
		}
	}
	return out
}

// Rest is the row of what did not fit; false if all did.
func (t *Table) Rest() (Row, bool) {
	r := t.state.Load().rest.row()
	r.Rest = true
	return r, r.Count > 0
}

// Digests is how many digests the table holds, and how many statements did not find a place.
func (t *Table) Digests() (digests int, rest uint64) {
	s := t.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.rows), s.rest.row().Count
}
