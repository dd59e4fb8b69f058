package stats

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// records are those of a node; broken: they cannot be written.
type records struct {
	m      map[string][]byte
	broken bool
}

func (r *records) GetLocal(name string) ([]byte, bool, error) {
	v, ok := r.m[name]
	return v, ok, nil
}

func (r *records) SetLocal(name string, val []byte, _ bool) error {
	if r.broken {
		return errors.New("the disk is full")
	}
	r.m[name] = val
	return nil
}

func (r *records) bytes() (n int) {
	for _, v := range r.m {
		n += len(v)
	}
	return n
}

func known(id int, at time.Time, size int) Known {
	c := NewCollector(1, 1)
	for i := range 100 {
		c.Put(c.Next(2, 10), [][]byte{{byte(i / 3)}})
	}
	t := c.Table(3)
	t.Columns[0].Bounds = append(t.Columns[0].Bounds, []byte(strings.Repeat("x", size)))
	return Known{ID: base.TableID(id), Shape: 7, Table: t, At: at.UTC(), Disk: 5, RowBytes: 1.5,
		Keys: map[base.RegionID]base.Key{2: base.Key("k")}}
}

// TestKeeper: what was saved is there after a restart, for a table of the same columns.
func TestKeeper(t *testing.T) {
	r := &records{m: map[string][]byte{}}
	x := known(1, time.Unix(1, 5), 10)
	if err := NewKeeper(r).Save(x); err != nil {
		t.Fatal(err)
	}
	k := NewKeeper(r)
	x.V = knownFormat
	if got := k.Load(1, 7); got == nil || !reflect.DeepEqual(*got, x) {
		t.Errorf("%+v, want %+v", got, x)
	}
	if k.Load(1, 8) != nil || k.Load(2, 7) != nil || k.Load(0, 7) != nil || NewKeeper(nil).Load(1, 7) != nil {
		t.Error("another table, or one of other columns, is known")
	}
	for name := range r.m {
		for _, b := range []string{"", "{", "null", `{"v":1,"id":1,"shape":7}`, `{"v":2,"id":1,"shape":7,"table":{}}`} {
			r.m[name] = []byte(b)
			k := NewKeeper(r)
			if k.Load(1, 7) != nil {
				t.Errorf("%q is read", b)
			}
			if err := k.Save(x); err != nil || k.Load(1, 7) == nil {
				t.Errorf("after %q nothing can be saved: %v", b, err)
			}
		}
	}
	r.broken = true
	if k.Save(known(2, time.Unix(2, 0), 10)) == nil || k.Load(2, 7) != nil || k.Load(1, 7) == nil {
		t.Error("a record that could not be written is known, or another one was lost")
	}
}

// TestKeeperIsBounded: what was drawn longest ago makes room, by number and by bytes.
func TestKeeperIsBounded(t *testing.T) {
	for _, size := range []int{10, 200_000} {
		r := &records{m: map[string][]byte{}}
		k := NewKeeper(r)
		for i := 1; i <= 2*slots; i++ {
			if err := k.Save(known(i, time.Unix(int64(i), 0), size)); err != nil {
				t.Fatal(err)
			}
			if len(r.m) > slots || r.bytes() > mostKept {
				t.Fatalf("%d records of %d bytes", len(r.m), r.bytes())
			}
		}
		k = NewKeeper(r)
		kept := 0
		for i := 1; i <= 2*slots; i++ {
			if k.Load(base.TableID(i), 7) != nil {
				kept++
			} else if kept > 0 {
				t.Fatalf("of %d bytes each: table %d has gone, and an older one is there", size, i)
			}
		}
		if want := min(slots, mostKept/(size*4/3+1000)); kept < want {
			t.Errorf("of %d bytes each: %d tables are kept, not %d", size, kept, want)
		}
	}
	k := NewKeeper(&records{m: map[string][]byte{}})
	if err := k.Save(known(1, time.Unix(1, 0), mostKept)); err != nil || k.Load(1, 7) != nil {
		t.Errorf("a table that takes more than all may is kept, or %v", err)
	}
}
