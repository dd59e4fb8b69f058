package sim

import (
	"context"
	"maps"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/lab/history"
)

// program runs a program: it reads registers and lists, appends to lists, some of which it reads,
// and sets, inserts and deletes registers, which need not be those that it reads. Whether it is
// tried again is left to the next program.
func (m *mixed) program() {
	l := m.gateway()
	if l == nil {
		return
	}
	lists := map[string]bool{}
	for range 1 + m.rng.IntN(3) {
		lists[m.section(m.lists).key(m.rng.IntN(m.perHome))] = true
	}
	names := m.some(3)
	shown := map[string]bool{}
	for _, k := range slices.Sorted(maps.Keys(lists)) {
		if m.rng.IntN(2) == 0 {
			shown[k] = true
		}
	}
	if other := m.section(m.lists).key(m.rng.IntN(m.perHome)); m.rng.IntN(2) == 0 {
		shown[other] = true
	}
	names = append(names, slices.Sorted(maps.Keys(shown))...)
	rec := m.rec.Begin(m.id, "r"+string(rune('0'+m.region)))
	m.via(rec.ID(), l)
	t := &tx{c: m.client, rec: rec}
	var p kv.Program
	for _, k := range names {
		p.Reads = append(p.Reads, m.ks.keys[k])
	}
	elems, sets := map[string]string{}, map[string]string{}
	w := programWrites{elems: elems, sets: sets, rows: map[string]string{}, gone: map[string]string{}, most: map[string]int{}}
	for _, k := range slices.Sorted(maps.Keys(lists)) {
		elems[k] = t.value()
		x := patch.Append([]byte("," + elems[k]))
		if n, known := m.lengths[k]; known && shown[k] && m.rng.IntN(3) > 0 {
			// A guard: the list is not to be longer than it was, but for some room.
			w.most[k] = n + len(elems[k]) + 1 + m.rng.IntN(30)
			if !m.w.cfg.Break.LooseGuards {
				x.Ops[0].Most = uint64(w.most[k])
			}
		}
		p.Updates = append(p.Updates, kv.ProgramUpdate{Key: m.ks.keys[k], Patch: x})
	}
	for range m.rng.IntN(3) {
		k := m.section(m.registers).key(m.rng.IntN(m.keys))
		if _, twice := sets[k]; !twice {
			sets[k] = t.value()
			p.Updates = append(p.Updates, kv.ProgramUpdate{Key: m.ks.keys[k], Patch: patch.Set([]byte(sets[k]))})
		}
	}
	m.rowsOf(t, &p, &w)
	ctx, cancel := context.WithTimeout(l.ctx, clientTimeout)
	defer cancel()
	from := int64(m.w.now())
	got, err := l.node.DB().(kv.Programs).Program(ctx, kv.Options{Policy: policy(m.rng.IntN(100), m.w.cfg.NoWait)}, p)
	if base.CodeOf(err) == base.CodeExists {
		m.noteExists(err, rec.ID(), from)
	}
	m.ended(rec, l, got, err, names, w)
}

// programWrites are what a program writes, by key: elements of lists, registers that are set, and
// rows that are inserted. gone are the rows that it deletes, as the gateway has seen them. most are
// the guards of lists that are read, too: their lengths with the element, at most.
type programWrites struct {
	elems, sets, rows, gone map[string]string
	most                    map[string]int
}

// rowsOf has a program insert and delete registers.
func (m *mixed) rowsOf(t *tx, p *kv.Program, w *programWrites) {
	used := maps.Clone(w.sets)
	for range m.rng.IntN(3) {
		k := m.section(m.registers).key(m.rng.IntN(m.keys))
		if _, twice := used[k]; twice {
			continue
		}
		used[k] = ""
		if m.rng.IntN(2) == 0 {
			w.rows[k] = t.value()
			p.Writes = append(p.Writes, kv.ProgramWrite{Key: m.ks.keys[k], Value: []byte(w.rows[k]), Home: m.homed(), Absent: true})
			continue
		}
		p.Deletes = append(p.Deletes, kv.ProgramDelete{Key: m.ks.keys[k], Entries: func(row kv.Row) ([]base.Key, error) {
			w.gone[k] = string(row.Value)
			return nil, nil
		}})
	}
}

// ended records how a program has ended. What it read is recorded before its own writes.
func (m *mixed) ended(rec *history.Active, l *life, got kv.ProgramResult, err error, names []string, w programWrites) {
	_, refused := kv.ProgramRefused(err)
	if (refused || err != nil && (base.Retryable(err) || base.CodeOf(err) == base.CodeExists)) && !l.dead.Load() {
		rec.Abort()
		m.count("program", 1, nil)
		return
	}
	if err == nil {
		for i, r := range got.Rows {
			m.shown(names[i], r)
			if k := names[i]; isList(k) {
				rec.ReadList(k, elements(string(r.Value)))
				m.lengths[k] = len(r.Value)
				if most, guarded := w.most[k]; guarded && len(r.Value)+1+len(w.elems[k]) > most {
					m.w.fail("T%d: the guard of %s does not hold at the slot: %d bytes and %q are more than %d", rec.ID(), k,
						len(r.Value), w.elems[k], most)
				}
			} else {
				rec.Read(names[i], string(r.Value))
			}
		}
	}
	w.record(rec)
	if err == nil && !l.dead.Load() {
		rec.Commit(uint64(got.TS))
		m.count("program", 0, nil)
		w.tally(m.bench)
		return
	}
	rec.Unknown(0)
	m.count("program", 2, err)
	m.renew()
}

// record records the writes, and what they depend on: an inserted row was not there, and a deleted
// one was as the gateway has seen it.
func (w *programWrites) record(rec *history.Active) {
	for _, k := range slices.Sorted(maps.Keys(w.elems)) {
		rec.Append(k, w.elems[k])
	}
	for _, k := range slices.Sorted(maps.Keys(w.sets)) {
		rec.Write(k, w.sets[k])
	}
	for _, k := range slices.Sorted(maps.Keys(w.rows)) {
		rec.Read(k, "")
		rec.Write(k, w.rows[k])
	}
	for _, k := range slices.Sorted(maps.Keys(w.gone)) {
		rec.Read(k, w.gone[k])
		rec.Delete(k)
	}
}

// tally counts what a program that has committed was made of.
func (w *programWrites) tally(b *bench) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for part, n := range map[string]int{"inserted": len(w.rows), "deleted": len(w.gone), "guarded": len(w.most)} {
		k := b.kinds[part]
		if k == nil {
			k = new([3]int)
			b.kinds[part] = k
		}
		k[0] += n
	}
}
