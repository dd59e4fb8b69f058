package stats

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Records are those of a node's own store.
type Records interface {
	GetLocal(name string) ([]byte, bool, error)
	SetLocal(name string, val []byte, sync bool) error
}

// Known is what a node keeps of a table over its restart.
type Known struct {
	V     int          `json:"v"` // of the format
	ID    base.TableID `json:"id"`
	Shape uint64       `json:"shape"` // a hash of its columns: values are keys of their types
	Table *Table       `json:"table"`
	At    time.Time    `json:"at"`             // when it was drawn
	Disk  int64        `json:"disk,omitempty"` // what the table took on this node's disk then, in bytes
	// RowBytes is what a row took on disk when all rows were read last; 0: they were not.
	RowBytes float64                    `json:"row_bytes,omitempty"`
	Keys     map[base.RegionID]base.Key `json:"keys,omitempty"` // of a row at each home
}

const (
	knownFormat = 1
	// slots is how many tables are kept, mostKept how many bytes all of them take. Those that were
	// drawn longest ago make room for others.
	slots    = 128
	mostKept = 8 << 20
)

// Keeper keeps what is known of tables in records of a node. It is safe for concurrent use.
type Keeper struct {
	in   Records
	mu   sync.Mutex
	read bool
	all  [slots]slot
}

// slot is a record: its table, when that was drawn, and what the record takes.
type slot struct {
	id    base.TableID
	at    time.Time
	bytes int
}

// NewKeeper keeps them in records; nil: nothing is kept.
func NewKeeper(in Records) *Keeper { return &Keeper{in: in} }

func slotName(n int) string { return fmt.Sprintf("estimates.%d", n) }

// Load is what was kept of a table of some columns; nil: nothing that is of use.
func (k *Keeper) Load(id base.TableID, shape uint64) *Known {
	if k.in == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open()
	n := slices.IndexFunc(k.all[:], func(s slot) bool { return s.id == id && s.bytes > 0 })
	if n < 0 {
		return nil
	}
	x := k.slot(n)
	if x == nil || x.Shape != shape {
		return nil
	}
	return x
}

// open looks what there is, once. mu is held.
func (k *Keeper) open() {
	if k.read {
		return
	}
	k.read = true
	for n := range k.all {
		if x := k.slot(n); x != nil {
			k.all[n].id, k.all[n].at = x.ID, x.At
		}
	}
}

// slot reads a record; nil: it has nothing that this build knows how to read. mu is held.
func (k *Keeper) slot(n int) *Known {
	b, ok, err := k.in.GetLocal(slotName(n))
	if err != nil || !ok {
		return nil
	}
	x := &Known{}
	if k.all[n].bytes = len(b); json.Unmarshal(b, x) != nil || x.V != knownFormat || x.Table == nil {
		return nil
	}
	return x
}

// Save keeps what is known of a table. What is lost by an error is drawn again after a restart.
func (k *Keeper) Save(x Known) error {
	if k.in == nil {
		return nil
	}
	x.V = knownFormat
	b, err := json.Marshal(x)
	if err != nil || len(b) > mostKept {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open()
	n := slices.IndexFunc(k.all[:], func(s slot) bool { return s.id == x.ID && s.bytes > 0 })
	if n < 0 {
		n = k.oldest(-1)
	}
	sum := len(b)
	for i, s := range k.all {
		if i != n {
			sum += s.bytes
		}
	}
	for sum > mostKept {
		i := k.oldest(n)
		sum -= k.all[i].bytes
		if err := k.in.SetLocal(slotName(i), nil, false); err != nil {
			return err
		}
		k.all[i] = slot{}
	}
	if err := k.in.SetLocal(slotName(n), b, false); err != nil {
		return err
	}
	k.all[n] = slot{x.ID, x.At, len(b)}
	return nil
}

// oldest is the slot whose table was drawn first. With but < 0 an empty one comes before all; else
// it is one that gives room to slot but. mu is held.
func (k *Keeper) oldest(but int) (best int) {
	best = -1
	for i, s := range k.all {
		switch {
		case i == but || but >= 0 && s.bytes == 0:
		case best < 0 || s.at.Before(k.all[best].at):
			best = i
		}
	}
	return best
}
