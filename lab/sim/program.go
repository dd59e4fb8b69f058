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
// and sets registers, which need not be those that it reads. Whether it is tried again is left to
// the next program.
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
	elems := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(lists)) {
		elems[k] = t.value()
		p.Updates = append(p.Updates, kv.ProgramUpdate{Key: m.ks.keys[k], Patch: patch.Append([]byte("," + elems[k]))})
	}
	sets := map[string]string{}
	for range m.rng.IntN(3) {
		k := m.section(m.registers).key(m.rng.IntN(m.keys))
		if _, twice := sets[k]; !twice {
			sets[k] = t.value()
			p.Updates = append(p.Updates, kv.ProgramUpdate{Key: m.ks.keys[k], Patch: patch.Set([]byte(sets[k]))})
		}
	}
	ctx, cancel := context.WithTimeout(l.ctx, clientTimeout)
	defer cancel()
	got, err := l.node.DB().(kv.Programs).Program(ctx, kv.Options{Policy: policy(m.rng.IntN(100), m.w.cfg.NoWait)}, p)
	m.ended(rec, l, got, err, names, elems, sets)
}

// ended records how a program has ended. What it read is recorded before its own updates.
func (m *mixed) ended(rec *history.Active, l *life, got kv.ProgramResult, err error, names []string,
	elems, sets map[string]string) {
	_, refused := kv.ProgramRefused(err)
	if (refused || err != nil && base.Retryable(err)) && !l.dead.Load() {
		rec.Abort()
		m.count("program", 1, nil)
		return
	}
	if err == nil {
		for i, r := range got.Rows {
			m.shown(names[i], r)
			if isList(names[i]) {
				rec.ReadList(names[i], elements(string(r.Value)))
			} else {
				rec.Read(names[i], string(r.Value))
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(elems)) {
		rec.Append(k, elems[k])
	}
	for _, k := range slices.Sorted(maps.Keys(sets)) {
		rec.Write(k, sets[k])
	}
	if err == nil && !l.dead.Load() {
		rec.Commit(uint64(got.TS))
		m.count("program", 0, nil)
		return
	}
	rec.Unknown(0)
	m.count("program", 2, err)
	m.renew()
}
