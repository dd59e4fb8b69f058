package stats

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/godwitdb/godwit/base"
)

func key(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// near reports whether an estimate is within a factor.
func near(got, want, factor float64) bool {
	return got <= want*factor && got >= want/factor || math.Abs(got-want) < 0.005
}

// TestEstimates: columns of known distributions, seen whole or in part, are estimated well enough
// to plan by.
func TestEstimates(t *testing.T) {
	for _, rows := range []int{10, 3000, 60_000} {
		r := rand.New(rand.NewPCG(1, uint64(rows)))
		c := NewCollector(5, 7)
		for i := range rows {
			skew := int(math.Pow(r.Float64(), 4) * 1000)
			vals := [][]byte{key(i), key(r.IntN(10)), key(r.IntN(5000)), key(skew), nil}
			if i%4 == 0 {
				vals[4] = key(i / 4 % 100)
			}
			if s := c.Next(home(i), 50); s >= 0 {
				c.Put(s, vals)
			}
		}
		st := c.Table(2)
		n := float64(2 * rows)
		if st.Rows != n || st.RowBytes != 50 {
			t.Errorf("%d rows: %v rows of %v bytes", rows, st.Rows, st.RowBytes)
		}
		if rows < 100 {
			continue
		}
		for i, want := range []float64{n, 10, 5000, 1000, 100} {
			if got := st.Columns[i].Distinct; !near(got, min(want, n), 2.6) {
				t.Errorf("%d rows: column %d has %v distinct values, not %v", rows, i, got, want)
			}
		}
		if got := st.Columns[4].Nulls; !near(got, 0.75, 1.05) {
			t.Errorf("%d rows: %v are NULL", rows, got)
		}
		if got := st.Homes[2]; !near(got, 0.1, 1.1) {
			t.Errorf("%d rows: %v are at home in region 2", rows, got)
		}
		for _, x := range []struct {
			col    int
			lo, hi []byte
			want   float64
		}{
			{0, key(rows / 4), key(rows / 2), 0.25}, {0, nil, key(rows / 10), 0.1}, {0, key(rows * 9 / 10), nil, 0.1},
			{0, key(rows * 3), nil, 0},
			{1, key(3), key(3), 0.1}, {1, key(3), key(5), 0.3}, {1, key(11), key(12), 0}, {2, key(0), key(2499), 0.5},
			{2, key(17), key(17), 1.0 / 5000},
			{3, key(0), key(0), math.Pow(1.0/1000, 0.25)}, {3, key(500), nil, 1 - math.Pow(0.5, 0.25)},
			{4, nil, nil, 0.25}, {4, key(0), key(49), 0.125},
		} {
			if got := st.Columns[x.col].Between(x.lo, x.hi); !near(got, x.want, 1.6) {
				t.Errorf("%d rows: column %d between %x and %x: %v, not %v", rows, x.col, x.lo, x.hi, got, x.want)
			}
		}
	}
}

// TestBounds: what is kept does not grow with the table.
func TestBounds(t *testing.T) {
	c := NewCollector(1, 1)
	long := make([]byte, 1000)
	for i := range 50_000 {
		binary.BigEndian.PutUint64(long[900:], uint64(i))
		if s := c.Next(1, 1000); s >= 0 {
			c.Put(s, [][]byte{append(key(i), long...)})
		}
	}
	if len(c.rows) != SampleRows {
		t.Errorf("the sample has %d rows", len(c.rows))
	}
	col := c.Table(1).Columns[0]
	if len(col.Bounds) > buckets+1 || len(col.Top) > mostTop {
		t.Errorf("%d bounds, %d frequent values", len(col.Bounds), len(col.Top))
	}
	for _, b := range col.Bounds {
		if len(b) > keyBytes || cap(b) > keyBytes {
			t.Fatalf("a bound has %d bytes of %d", len(b), cap(b))
		}
	}
	if len(NewCollector(3, 1).Table(1).Columns) != 3 {
		t.Error("an empty table has no columns")
	}
}

// home of one row in ten is region 2.
func home(i int) base.RegionID {
	if i%10 == 0 {
		return 2
	}
	return 1
}
