package table

import (
	"context"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

const limit = 3000 // rows are read

// counted is a table of numbered rows in a shard, a store that says what they take, and their
// estimates.
type counted struct {
	*Stats
	t     *schema.Table
	db    kv.DB
	rows  int
	bytes int64 // a row takes
	block int64 // if > 0, what the store says is a multiple of it
	asked int   // how often the store was asked for the whole shard
	local map[string][]byte
}

// SpanBytes, GetLocal and SetLocal implement session.Local.
func (c *counted) SpanBytes(start, end base.Key) (int64, error) { return c.size(start, end) }

func (c *counted) GetLocal(name string) ([]byte, bool, error) {
	v, ok := c.local[name]
	return v, ok, nil
}

func (c *counted) SetLocal(name string, val []byte, _ bool) error {
	c.local[name] = val
	return nil
}

// Flush implements session.Local.
func (c *counted) Flush() error { return nil }

// restart forgets what the gateway has in memory.
func (c *counted) restart() {
	c.Stats = newTableStats(c.env)
	c.most = limit
}

func newCounted(t *testing.T, disk bool) *counted {
	t.Helper()
	db := memkv.New(1, "eu").Gateway(1)
	c := &counted{db: db, bytes: 15_000, local: map[string][]byte{}}
	env := &session.Env{DB: db, Log: slog.New(slog.DiscardHandler), Catalog: schema.NewCatalog(db)}
	if disk {
		env.Local = c
	}
	c.Stats = newTableStats(env)
	c.most = limit
	def, err := schema.NewTable(&schema.TableDesc{ID: base.MakeTableID(schema.FirstTableSeq+1, 1), DB: "test", Name: "t", Shards: 1, PK: []uint32{1},
		Cols: []schema.ColumnDesc{{ID: 1, Name: "id", Type: "int"}, {ID: 2, Name: "day", Type: "int"}}})
	if err != nil {
		t.Fatal(err)
	}
	c.t = def
	return c
}

// grow adds rows. Each thirty of them have a day of its own.
func (c *counted) grow(t *testing.T, n int) {
	t.Helper()
	ctx := context.Background()
	for n > 0 {
		k := c.db.Begin(kv.Options{})
		for range min(n, 1000) {
			row := sql.Row{int32(c.rows), int32(c.rows / 30)}
			c.rows++
			ref, err := c.t.RefOf(ctx, row)
			if err != nil {
				t.Fatal(err)
			}
			enc, err := c.t.AppendRow(ctx, nil, row)
			if err != nil {
				t.Fatal(err)
			}
			k.Put(c.t.RowKey(ref), enc, 1)
		}
		if _, err := k.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		n -= 1000
	}
}

// size is what the store says.
func (c *counted) size(start, end base.Key) (int64, error) {
	at := func(k base.Key) int {
		lo, hi := 0, c.rows
		for lo < hi {
			mid := (lo + hi) / 2
			ref, err := c.t.RefOf(context.Background(), sql.Row{int32(mid), int32(0)})
			if err != nil {
				return 0
			}
			if c.t.RowKey(ref).Compare(k) < 0 {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		return lo
	}
	if s := spansOf(c.t)[0]; start.Compare(s.Start) == 0 && end.Compare(s.End) == 0 {
		c.asked++
	}
	n := c.bytes * int64(at(end)-at(start))
	if c.block > 0 {
		n = (n + c.block - 1) / c.block * c.block
	}
	return n, nil
}

// settled are the estimates when no more samples are being taken.
func (c *counted) settled() (rows uint64) {
	c.Rows(c.t)
	synctest.Wait()
	return c.Rows(c.t)
}

// TestSampleOfALargeTable: of a table with more rows than are read, in one shard, the estimates are
// of all of it, and not of its beginning.
func TestSampleOfALargeTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounted(t, true)
		c.grow(t, 3*limit)
		if n := c.Rows(c.t); n < limit/2 {
			t.Errorf("%d rows are guessed before any was read", n)
		}
		if n := c.settled(); math.Abs(float64(n)-3*limit) > 0.1*3*limit {
			t.Errorf("%d rows are estimated of %d", n, c.rows)
		}
		sample, keys := c.Sample(c.t)
		days := sample.Columns[1]
		if len(keys) != 1 || days.Distinct < 30 {
			t.Errorf("%d homes; %.0f days were seen of 300", len(keys), days.Distinct)
		}
		first, err := c.t.Cols[1].AppendKey(t.Context(), nil, int32(200), 0)
		if err != nil {
			t.Fatal(err)
		}
		last, err := c.t.Cols[1].AppendKey(t.Context(), nil, int32(299), 0)
		if err != nil {
			t.Fatal(err)
		}
		if s := days.Between(first, last); s < 0.2 || s > 0.5 {
			t.Errorf("%.2f of the rows are estimated to be of the last third of the days", s)
		}
	})
}

// TestAnalyzeStays: what ANALYZE has found is not replaced by a sample that was begun before, nor
// by one of a table that takes as much as before; it is once the table has grown.
func TestAnalyzeStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounted(t, true)
		c.grow(t, 2*limit)
		c.Rows(c.t) // begins a sample
		if err := c.Analyze(t.Context(), c.t); err != nil {
			t.Fatal(err)
		}
		if n := c.settled(); n != 2*limit {
			t.Errorf("ANALYZE was overtaken: %d rows", n)
		}
		time.Sleep(2 * countAge)
		if n := c.settled(); n != 2*limit {
			t.Errorf("the table has not changed, and has %d rows instead of %d", n, 2*limit)
		}
		before := c.asked
		for range 100 {
			c.settled()
		}
		if c.asked > before {
			t.Errorf("the store was asked %d times within %v", c.asked-before, countAge)
		}
		c.grow(t, 2*limit) // by another gateway
		time.Sleep(2 * countAge)
		if n := c.settled(); n < 3*limit {
			t.Errorf("the table has doubled, and has %d rows", n)
		}
		c.grow(t, 1)
		if n := c.settled(); n < 3*limit {
			t.Errorf("%d rows", n)
		}
	})
}

// TestEstimatesOutliveARestart: what is known of a table is there at once when its node comes back,
// unless its columns are others, and is taken again if the table has changed meanwhile.
func TestEstimatesOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounted(t, true)
		c.grow(t, 4*limit)
		if err := c.Analyze(t.Context(), c.t); err != nil {
			t.Fatal(err)
		}
		want, _ := c.Sample(c.t)
		time.Sleep(2 * unchangedAge)
		c.restart()
		if n := c.Rows(c.t); n != 4*limit {
			t.Errorf("%d rows at first, not %d", n, 4*limit)
		}
		if n := c.settled(); n != 4*limit || c.m[c.t.Desc.ID].taken > 0 {
			t.Errorf("%d rows; estimates were taken %d times", n, c.m[c.t.Desc.ID].taken)
		}
		if got, keys := c.Sample(c.t); !reflect.DeepEqual(got, want) || len(keys) != 1 {
			t.Errorf("%+v, want %+v; %d homes", got, want, len(keys))
		}

		desc := *c.t.Desc
		desc.Cols = slices.Clone(desc.Cols)
		desc.Cols[1].Type = "bigint"
		other, err := schema.NewTable(&desc)
		if err != nil {
			t.Fatal(err)
		}
		c.restart()
		if sample, _ := c.Sample(other); sample != nil {
			t.Error("there are estimates of values of another type")
		}
		synctest.Wait()
		c.restart()
		if err := c.Analyze(t.Context(), c.t); err != nil {
			t.Fatal(err)
		}

		c.grow(t, 4*limit) // by another gateway
		c.block = 100_000
		c.restart()
		if n := c.Rows(c.t); n != 4*limit {
			t.Errorf("%d rows at first, not %d", n, 4*limit)
		}
		if n := c.settled(); math.Abs(float64(n)-8*limit) > 0.01*8*limit {
			t.Errorf("%d rows of %d, by what a row took when all were read", n, 8*limit)
		}
		c.restart()
		if n := c.Rows(c.t); math.Abs(float64(n)-8*limit) > 0.01*8*limit {
			t.Errorf("the new estimates were not kept: %d rows", n)
		}
	})
}

// TestSampleWithoutACopy: a gateway whose node has no copy of a table reads its beginning.
func TestSampleWithoutACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounted(t, false)
		c.grow(t, limit+5)
		if n := c.settled(); n != limit {
			t.Errorf("%d rows", n)
		}
		if err := c.Analyze(t.Context(), c.t); err != nil {
			t.Fatal(err)
		}
		if n := c.settled(); n != limit+5 {
			t.Errorf("%d rows", n)
		}
	})
}
