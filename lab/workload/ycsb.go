package workload

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
)

// ycsb is YCSB's core workloads A to F over one table. Each operation is one autocommitted
// statement, except read-modify-write, which is a transaction with a locking read.
type ycsb struct {
	opts YCSBOptions
	seed uint64

	parts []*ycsbPart // by region, once opened
	kind  []int       // the mix's kinds as indexes into kinds()
}

// The kinds, in the order of ycsb.kinds.
const (
	ycsbRead = iota
	ycsbUpdate
	ycsbInsert
	ycsbScan
	ycsbRMW
)

var ycsbKinds = []string{"read", "update", "insert", "scan", "read-modify-write"}

// ycsbMixes gives the shares of the kinds, in percent, by the letter of the core workload.
var ycsbMixes = map[string][]int{
	"A": {50, 50, 0, 0, 0},
	"B": {95, 5, 0, 0, 0},
	"C": {100, 0, 0, 0, 0},
	"D": {95, 0, 5, 0, 0},
	"E": {0, 0, 5, 95, 0},
	"F": {50, 0, 0, 0, 50},
}

// ycsbTagLength is the length of the unique beginning of a value.
const ycsbTagLength = 16

// ycsbPart is the key range of a region. Keys are "user", the region in two digits and a counter,
// so that a scan from one region's key stays in its range unless it reaches its end.
type ycsbPart struct {
	region int
	loaded int // keys when the run began
	zipf   *zipf
	spread scatter

	mu    sync.Mutex
	next  int          // counter of the next insert
	known int          // every key below it was inserted, or its insert has failed
	done  map[int]bool // those at or above known that are decided already
}

func ycsbKey(region, i int) string { return fmt.Sprintf("user%02d%012d", region, i) }

// reserve takes the next key to insert.
func (p *ycsbPart) reserve() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.next
	p.next++
	return i
}

// settle marks a reserved key as decided. Readers use keys below the first undecided one.
func (p *ycsbPart) settle(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[i] = true
	for p.done[p.known] {
		delete(p.done, p.known)
		p.known++
	}
}

func (p *ycsbPart) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

func (y *ycsb) kinds() []string  { return ycsbKinds }
func (y *ycsb) tables() []string { return []string{"usertable"} }

func (y *ycsb) columns() []string {
	cols := []string{"ycsb_key"}
	for i := range y.opts.Fields {
		cols = append(cols, "field"+strconv.Itoa(i))
	}
	return cols
}

func (y *ycsb) create(ctx context.Context, s *session) error {
	var b strings.Builder
	b.WriteString("CREATE TABLE usertable (ycsb_key VARCHAR(64) NOT NULL")
	for _, c := range y.columns()[1:] {
		// VARCHAR rather than TEXT, as long as MySQL's row limit of 65,535 bytes allows it.
		if 4*y.opts.FieldLength*y.opts.Fields < 60_000 {
			fmt.Fprintf(&b, ", %s VARCHAR(%d)", c, y.opts.FieldLength)
		} else {
			fmt.Fprintf(&b, ", %s TEXT", c)
		}
	}
	b.WriteString(", PRIMARY KEY (ycsb_key))")
	if err := s.exec(ctx, b.String()); err != nil {
		return fmt.Errorf("creating the YCSB table: %w", err)
	}
	return nil
}

func (y *ycsb) load(l *loader) {
	head := "usertable (" + strings.Join(y.columns(), ", ") + ")"
	for r := range l.regions {
		first, end := split(y.opts.Records, r, l.regions)
		eachChunk(end-first, 20_000, func(lo, hi int) {
			l.add(r, hi-lo, func(ctx context.Context, b *batch) error {
				rng := newRand(y.seed, 0x1c5b, uint64(r), uint64(lo))
				if err := b.into(ctx, head); err != nil {
					return err
				}
				for i := lo; i < hi; i++ {
					row := []any{ycsbKey(r, i)}
					for f := range y.opts.Fields {
						tag := 1<<63 | uint64(r)<<52 | uint64(i)<<8 | uint64(f)
						row = append(row, ycsbValue(rng, tag, y.opts.FieldLength))
					}
					if err := b.row(ctx, row...); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// ycsbValue is a value of n bytes that begins with its tag.
func ycsbValue(rng *rand.Rand, tag uint64, n int) string {
	b := make([]byte, 0, n)
	b = fmt.Appendf(b, "%0*x", ycsbTagLength, tag)
	return string(appendAlpha(b, rng, n-len(b)))
}

// eachChunk cuts n items into chunks of at most size.
func eachChunk(n, size int, f func(lo, hi int)) {
	for lo := 0; lo < n; lo += size {
		f(lo, min(lo+size, n))
	}
}

// open finds the last key of each region's range, which may have grown since it was loaded.
func (y *ycsb) open(ctx context.Context, s *session, regions int) error {
	y.parts = nil
	for r := range regions {
		var last sql.NullString
		err := s.row(ctx, []any{&last}, "SELECT MAX(ycsb_key) FROM usertable WHERE ycsb_key >= ? AND ycsb_key <= ?",
			fmt.Sprintf("user%02d", r), fmt.Sprintf("user%02d%012d", r, int64(1e12-1))) // digits are in this order by every collation
		if err != nil {
			return err
		}
		if !last.Valid || len(last.String) < 18 {
			return fmt.Errorf("no keys of region %d of %d: run `godwit workload init ycsb --drop` with the same URLs",
				r+1, regions)
		}
		i, err := strconv.Atoi(last.String[6:])
		if err != nil {
			return fmt.Errorf("unexpected key %q in usertable: run `godwit workload init ycsb --drop` first", last.String)
		}
		p := &ycsbPart{region: r, loaded: i + 1, next: i + 1, known: i + 1, done: map[int]bool{}}
		p.zipf, p.spread = newZipf(p.loaded, y.opts.Theta), newScatter(p.loaded)
		y.parts = append(y.parts, p)
	}
	for k, share := range ycsbMixes[y.opts.Mix] {
		for range share {
			y.kind = append(y.kind, k)
		}
	}
	return nil
}

type ycsbClient struct {
	y      *ycsb
	rng    *rand.Rand
	region int
	zipfs  []*zipf // by region; a client's own, since they grow
	dist   string
	tag    uint64 // of the next value written
	read   string
	scan   string
	insert string
}

func (y *ycsb) client(region, i, n int) client {
	cols := strings.Join(y.columns(), ", ")
	c := &ycsbClient{y: y, rng: newRand(y.seed, 0x1c5c, uint64(region), uint64(i)), region: region, dist: y.opts.Distribution,
		tag:  newRunTag(region*n + i),
		read: "SELECT " + cols + " FROM usertable WHERE ycsb_key = ?",
		scan: "SELECT " + cols + " FROM usertable WHERE ycsb_key >= ? ORDER BY ycsb_key LIMIT ?",
	}
	c.insert = "INSERT INTO usertable (" + cols + ") VALUES " + placeholders(1, y.opts.Fields+1)
	for _, p := range y.parts {
		c.zipfs = append(c.zipfs, p.zipf.clone())
	}
	if c.dist == "" {
		c.dist = "zipf"
		if y.opts.Mix == "D" {
			c.dist = "latest"
		}
	}
	return c
}

// part draws the region of an operation's key.
func (c *ycsbClient) part() *ycsbPart {
	r := c.region
	if len(c.y.parts) > 1 && chance(c.rng, c.y.opts.Remote) {
		r = other(c.rng, r, len(c.y.parts))
	}
	return c.y.parts[r]
}

// key draws an existing key.
func (c *ycsbClient) key() string {
	p := c.part()
	var i int
	switch c.dist {
	case "uniform":
		i = c.rng.IntN(p.size())
	case "latest":
		n := p.size()
		i = n - 1 - c.zipfs[p.region].next(c.rng, n)
	default:
		i = p.spread.item(c.zipfs[p.region].next(c.rng, p.loaded))
	}
	return ycsbKey(p.region, i)
}

func (c *ycsbClient) value() string {
	c.tag++
	return ycsbValue(c.rng, c.tag, c.y.opts.FieldLength)
}

func (c *ycsbClient) next() txn {
	t := txn{kind: c.y.kind[c.rng.IntN(len(c.y.kind))], single: true}
	switch t.kind {
	case ycsbRead:
		key := c.key()
		t.run = func(ctx context.Context, s *session) error { return c.get(ctx, s, c.read, key) }
	case ycsbScan:
		key, n := c.key(), between(c.rng, 1, c.y.opts.MaxScan)
		t.run = func(ctx context.Context, s *session) error { return c.get(ctx, s, c.scan, key, n) }
	case ycsbUpdate, ycsbRMW:
		key, value := c.key(), c.value()
		update := "UPDATE usertable SET field" + strconv.Itoa(c.rng.IntN(c.y.opts.Fields)) + " = ? WHERE ycsb_key = ?"
		t.single = t.kind == ycsbUpdate
		t.run = func(ctx context.Context, s *session) error {
			if t.kind == ycsbRMW {
				if err := c.get(ctx, s, c.read+" FOR UPDATE", key); err != nil {
					return err
				}
			}
			return s.exec(ctx, update, value, key)
		}
	case ycsbInsert:
		p := c.y.parts[c.region]
		i := p.reserve()
		args := []any{ycsbKey(p.region, i)}
		for range c.y.opts.Fields {
			args = append(args, c.value())
		}
		t.run = func(ctx context.Context, s *session) error { return s.exec(ctx, c.insert, args...) }
		t.done = func() { p.settle(i) }
	}
	return t
}

// get reads rows and throws them away, as a YCSB client does. A key whose insert failed has none,
// which is no error.
func (c *ycsbClient) get(ctx context.Context, s *session, query string, args ...any) error {
	fields := make([]sql.RawBytes, c.y.opts.Fields+1)
	dest := make([]any, len(fields))
	for i := range fields {
		dest[i] = &fields[i]
	}
	return s.query(ctx, func(r *sql.Rows) error { return r.Scan(dest...) }, query, args...)
}

// check tests the only thing that YCSB lets one test: every row is complete and well-formed.
func (y *ycsb) check(ctx context.Context, s *session) ([]CheckResult, error) {
	rows, keys := violations{}, violations{}
	err := inTransaction(ctx, s, func() error {
		rows = violations{name: "rows", description: "every field of every row has a value"}
		keys = violations{name: "keys", description: "keys are well-formed and rise"}
		last := ""
		return s.query(ctx, func(r *sql.Rows) error {
			cols, err := r.Columns()
			if err != nil {
				return err
			}
			values := make([]sql.NullString, len(cols))
			dest := make([]any, len(cols))
			for i := range values {
				dest[i] = &values[i]
			}
			if err := r.Scan(dest...); err != nil {
				return err
			}
			key := values[0].String
			keys.expect(len(key) == 18 && strings.HasPrefix(key, "user") && key > last, "%q after %q", key, last)
			last = key
			for i, v := range values {
				rows.expect(v.Valid && v.String != "", "row %s: %s is empty", key, cols[i])
			}
			return nil
		}, "SELECT * FROM usertable ORDER BY ycsb_key")
	})
	if err == nil && keys.checked == 0 {
		err = errors.New("usertable is empty: run `godwit workload init ycsb --drop` first")
	}
	return []CheckResult{keys.result(), rows.result()}, err
}
