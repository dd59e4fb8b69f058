package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/patch"
)

// mixed is the workload of registers and lists. It has few keys, so that all transactions conflict,
// all kinds of reads and writes, and transactions in one region or several.
type mixed struct {
	*client
	registers []*section
	lists     []*section
	meta      *section
	rows      []*section // registers of one table, in several placements
	keys      int
	perHome   int            // lists
	lengths   map[string]int // of lists, as programs of this client have read them last
}

func newMixed(ks *keyspace, cfg *Config) func(*client) func() {
	regs := ks.grid("x", tableMixed, cfg, cfg.Keys)
	rows := slices.DeleteFunc(slices.Clone(regs), func(s *section) bool { _, has := ks.belongs[s.name]; return !has })
	perHome := 1
	if cfg.ShipOnly {
		perHome = 6
	}
	lists := ks.grid("l", tableList, cfg, perHome)
	meta := ks.add("m", tableMeta, base.MetaShard, 0, 3)
	return func(c *client) func() {
		m := &mixed{perHome: perHome, lengths: map[string]int{}, client: c, registers: regs, lists: lists, meta: meta, rows: rows, keys: cfg.Keys}
		return m.one
	}
}

// section draws a section, most often one whose gaps the client's region owns.
func (m *mixed) section(of []*section) *section {
	for range 3 {
		if s := of[m.rng.IntN(len(of))]; s.home == m.region || m.rng.IntN(3) == 0 {
			return s
		}
	}
	return of[m.rng.IntN(len(of))]
}

// some draws up to n different register keys; sometimes one of the meta shard.
func (m *mixed) some(n int) []string {
	n = 1 + m.rng.IntN(n)
	seen := map[string]bool{}
	var out []string
	for range 3 * n {
		name := m.section(m.registers).key(m.rng.IntN(m.keys))
		if !seen[name] && len(out) < n {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}

func (m *mixed) homed() base.RegionID {
	if m.rng.IntN(4) > 0 {
		return 0
	}
	return m.living(base.RegionID(1 + m.rng.IntN(m.w.cfg.Regions)))
}

func (m *mixed) opts() kv.Options {
	o := kv.Options{Relay: m.rng.IntN(100) < m.w.cfg.Relay}
	o.Policy = policy(m.rng.IntN(100), m.w.cfg.NoWait)
	if m.rng.IntN(4) == 0 {
		o.LockTimeout = 300 * time.Millisecond
	}
	return o
}

func (m *mixed) lock() kv.LockMode {
	if m.rng.IntN(2) == 0 {
		return kv.LockShared
	}
	return kv.LockExclusive
}

// one runs one transaction.
func (m *mixed) one() {
	if m.rng.IntN(100) < m.w.cfg.Moves {
		m.moves()
		return
	}
	if len(m.rows) > 0 && m.rng.IntN(4) == 0 {
		m.relocates()
		return
	}
	if m.rng.IntN(100) < m.w.cfg.Programs {
		m.program()
		return
	}
	if m.w.cfg.ShipOnly && m.rng.IntN(4) > 0 {
		m.shipAppends()
		return
	}
	n := m.rng.IntN(100)
	for _, x := range mixedShares {
		if n -= x.share; n < 0 {
			x.run(m)
			return
		}
	}
}

// mixedShares has the kinds of transactions and their shares in percent.
var mixedShares = []struct {
	share int
	run   func(*mixed)
}{
	{18, (*mixed).readModifyWrite}, {10, (*mixed).blindWrite}, {12, (*mixed).inserts}, {8, (*mixed).deletes},
	{8, (*mixed).scanAndWrite},
	{6, (*mixed).appendList}, {10, (*mixed).snapshot}, {4, (*mixed).past}, {6, (*mixed).lockedRead}, {4, (*mixed).lockedScan},
	{6, (*mixed).catalog}, {4, (*mixed).ownWrites}, {4, (*mixed).rollback},
}

func (m *mixed) blindWrite() {
	names := m.some(3)
	m.run("blind write", m.opts(), func(t *tx) error {
		for _, k := range names {
			t.put(k, t.value(), m.homed())
		}
		return nil
	})
}

func (m *mixed) deletes() {
	names := m.some(2)
	m.run("delete", m.opts(), func(t *tx) error {
		for _, k := range names {
			t.del(k)
		}
		return nil
	})
}

func (m *mixed) lockedRead() {
	names, mode := m.some(4), m.lock()
	m.run("locked read", m.opts(), func(t *tx) error {
		_, err := t.read(mode, names...)
		return err
	})
}

func (m *mixed) lockedScan() {
	s := m.section(m.registers)
	m.run("locked scan", m.opts(), func(t *tx) error {
		_, err := t.scan(kv.LockShared, s, 0, -1, m.rng.IntN(3), m.rng.IntN(2) == 0)
		return err
	})
}

// rollback reads and writes, and rolls back.
func (m *mixed) rollback() {
	names := m.some(3)
	m.run("rollback", m.opts(), func(t *tx) error {
		if _, err := t.read(m.lock(), names...); err != nil {
			return err
		}
		for _, k := range names {
			t.put(k, t.value(), 0)
		}
		return errRollback
	})
}

func (m *mixed) readModifyWrite() {
	names, mode, extra := m.some(3), m.lock(), m.some(1)
	m.run("read-modify-write", m.opts(), func(t *tx) error {
		vals, err := t.read(mode, names...)
		if err != nil {
			return err
		}
		for i, k := range names {
			switch {
			case vals[i] == "" && m.rng.IntN(2) == 0:
				if t.insert(k, t.value(), m.homed()) {
					m.w.fail("Insert of %s says that it exists, after the same transaction read it as absent under a lock", k)
				}
			case vals[i] != "" && m.rng.IntN(4) == 0:
				t.del(k)
			case i == 0 || m.rng.IntN(3) > 0:
				t.put(k, t.value(), m.homed())
			}
		}
		if m.rng.IntN(3) == 0 {
			if _, err := t.read(kv.LockExclusive, extra...); err != nil {
				return err
			}
		}
		return nil
	})
}

// inserts inserts keys that clients of other regions insert, too.
func (m *mixed) inserts() {
	names := m.some(2)
	m.run("insert", m.opts(), func(t *tx) error {
		for _, k := range names {
			t.insert(k, t.value(), m.homed())
		}
		return nil
	})
}

func (m *mixed) scanAndWrite() {
	s := m.section(m.registers)
	from, to := m.rng.IntN(m.keys), -1
	if m.rng.IntN(2) == 0 {
		to = from + 1 + m.rng.IntN(m.keys)
	}
	batch, reverse := m.rng.IntN(3), m.rng.IntN(3) == 0
	m.run("scan and write", m.opts(), func(t *tx) error {
		rows, err := t.scan(kv.LockShared, s, from, to, batch, reverse)
		if err != nil {
			return err
		}
		if len(rows) > 0 && m.rng.IntN(2) == 0 {
			t.put(rows[m.rng.IntN(len(rows))].Key, t.value(), 0)
			return nil
		}
		k := m.section(m.registers).key(m.rng.IntN(m.keys))
		t.put(k, t.value(), m.homed())
		return nil
	})
}

func (m *mixed) appendList() {
	if m.w.cfg.Ships > 0 {
		m.shipAppends()
		return
	}
	key := m.section(m.lists).key(0)
	m.run("append", m.opts(), func(t *tx) error {
		vals, err := t.get(kv.LockExclusive, key)
		if err != nil {
			return err
		}
		t.rec.ReadList(key, elements(vals[0]))
		e := t.value()
		t.rec.Append(key, e)
		t.Put(m.ks.keys[key], []byte(strings.TrimPrefix(vals[0]+","+e, ",")), 0)
		return nil
	})
}

// shipAppends appends to lists of several regions. If it crosses regions without locks, it ships
// the appends to the owners: then it depends only on the existence of a list, not on its content.
func (m *mixed) shipAppends() {
	keys := map[string]bool{}
	for range 1 + m.rng.IntN(3) {
		keys[m.section(m.lists).key(m.rng.IntN(m.perHome))] = true
	}
	names, extra := slices.Sorted(maps.Keys(keys)), m.some(2)
	m.run("shipped append", m.opts(), func(t *tx) error {
		for _, key := range names {
			if m.rng.IntN(100) < m.w.cfg.Ships {
				row, ok, err := t.Draft(t.ctx, m.ks.keys[key])
				if err != nil {
					return err
				}
				if e := t.value(); ok && len(row.Value) > 0 {
					t.rec.Append(key, e)
					t.Update(m.ks.keys[key], []byte(string(row.Value)+","+e), patch.Append([]byte(","+e)))
					if err := m.settles(t, key); err != nil {
						return err
					}
					continue
				}
			}
			vals, err := t.get(m.lock(), key)
			if err != nil {
				return err
			}
			e := t.value()
			switch {
			case vals[0] != "" && m.rng.IntN(100) < m.w.cfg.Ships:
				t.rec.Append(key, e)
				t.Update(m.ks.keys[key], []byte(vals[0]+","+e), patch.Append([]byte(","+e)))
				if err := m.settles(t, key); err != nil {
					return err
				}
			default:
				t.rec.ReadList(key, elements(vals[0]))
				t.rec.Append(key, e)
				t.Put(m.ks.keys[key], []byte(strings.TrimPrefix(vals[0]+","+e, ",")), 0)
				if m.rng.IntN(100) < m.w.cfg.Moves && m.rng.IntN(3) == 0 {
					t.move(key)
				}
			}
		}
		if m.rng.IntN(3) == 0 {
			if _, err := t.read(m.lock(), extra...); err != nil {
				return err
			}
			t.put(extra[0], t.value(), 0)
		}
		return nil
	})
}

// settles turns an occasional shipped update into a read-modify-write.
func (m *mixed) settles(t *tx, key string) error {
	if m.rng.IntN(10) == 0 {
		vals, err := t.get(kv.LockShared, key)
		if err != nil {
			return err
		}
		t.rec.ReadList(key, elements(vals[0]))
	}
	if m.rng.IntN(100) < m.w.cfg.Moves && m.rng.IntN(3) == 0 {
		t.move(key)
	}
	return nil
}

func isList(key string) bool { return strings.HasPrefix(key, "l") }

func elements(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// snapshot reads at one timestamp, without locks, from several regions.
func (m *mixed) snapshot() {
	names, s := m.some(6), m.section(m.registers)
	m.run("snapshot", kv.Options{ReadOnly: true}, func(t *tx) error {
		if _, err := t.read(kv.LockNone, names...); err != nil {
			return err
		}
		if m.rng.IntN(2) == 0 {
			if _, err := t.scan(kv.LockNone, s, 0, -1, m.rng.IntN(4), m.rng.IntN(2) == 0); err != nil {
				return err
			}
		}
		if m.rng.IntN(4) == 0 {
			if _, err := t.read(kv.LockNone, m.meta.key(m.rng.IntN(3))); err != nil {
				return err
			}
		}
		key := m.section(m.lists).key(0)
		vals, err := t.get(kv.LockNone, key)
		if err == nil {
			t.rec.ReadList(key, elements(vals[0]))
		}
		return err
	})
}

// past reads AS OF a moment ago.
func (m *mixed) past() {
	names, s := m.some(6), m.section(m.registers)
	at := base.FromTime(time.Now().Add(-time.Duration(m.rng.Int64N(int64(2 * time.Second)))))
	m.run("as of", kv.Options{ReadOnly: true, ReadTS: at}, func(t *tx) error {
		if _, err := t.read(kv.LockNone, names...); err != nil {
			return err
		}
		_, err := t.scan(kv.LockNone, s, 0, -1, 0, false)
		return err
	})
}

// catalog uses the meta shard as the SQL layer does: it reads without a trip and validates at the
// commit, and seldom changes it.
func (m *mixed) catalog() {
	key, names := m.meta.key(m.rng.IntN(3)), m.some(2)
	if m.rng.IntN(4) == 0 {
		m.run("meta write", m.opts(), func(t *tx) error {
			if m.rng.IntN(2) == 0 {
				if _, err := t.read(kv.LockExclusive, key); err != nil {
					return err
				}
			} else if _, err := t.read(kv.LockShared, key); err != nil {
				return err
			}
			if m.rng.IntN(4) == 0 {
				t.del(key)
			} else {
				t.put(key, t.value(), 0)
			}
			if m.rng.IntN(3) == 0 { // rows of the meta shard and of the region in one transaction
				t.put(names[0], t.value(), 0)
			}
			return nil
		})
		return
	}
	m.run("meta read", m.opts(), func(t *tx) error {
		if m.rng.IntN(3) == 0 {
			if _, err := t.scan(kv.LockShared, m.meta, 0, -1, 0, false); err != nil {
				return err
			}
		} else if _, err := t.read(kv.LockShared, key); err != nil {
			return err
		}
		if _, err := t.read(kv.LockExclusive, names...); err != nil {
			return err
		}
		for _, k := range names {
			t.put(k, t.value(), 0)
		}
		return nil
	})
}

// ownWrites reads the keys that it has just written, inserted and deleted.
func (m *mixed) ownWrites() {
	names, s := m.some(3), m.section(m.registers)
	m.run("own writes", m.opts(), func(t *tx) error {
		for i, k := range names {
			switch i {
			case 0:
				t.put(k, t.value(), 0)
			case 1:
				t.del(k)
			case 2:
				t.insert(k, t.value(), 0)
			}
		}
		sp := t.Savepoint()
		t.Put(m.ks.keys[names[0]], []byte(fmt.Sprint("undone by ", t.rec.ID())), 0)
		t.Delete(m.ks.keys[names[len(names)-1]])
		t.RollbackTo(sp)
		if _, err := t.read(m.lock(), names...); err != nil {
			return err
		}
		_, err := t.scan(kv.LockShared, s, 0, -1, 0, false)
		return err
	})
}

// moves moves rows without writing them.
func (m *mixed) moves() {
	names := m.some(4)
	m.run("move", m.opts(), func(t *tx) error {
		for _, k := range names {
			t.move(k)
		}
		return nil
	})
}
