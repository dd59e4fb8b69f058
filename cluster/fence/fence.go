// Package fence tells the newest copy of a store from older ones. It has no I/O: a store brings its
// [Lineage], the other nodes bring their [Book], and package join carries questions between them.
//
// A process that starts on a store adds a [Life] to the store's lineage, on disk, before it asks
// anybody. While it runs it counts its beats there, and then tells them to the others, which
// remember them. So a store always knows at least what others remember of it, unless it is a copy
// of an earlier state, or another copy has been run. The rules are FENCE-1 to FENCE-5 in
// docs/protocol.md.
package fence

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Life is one start of a store.
type Life struct {
	// Start counts the starts of the store.
	Start uint64 `json:"start"`
	// Name is random, and never 0: two copies of a store that are both started differ in it.
	Name uint64 `json:"name"`
	// Beats grows while the process runs.
	Beats uint64 `json:"beats,omitempty"`
}

// keepLives bounds a lineage, keepPast what is remembered of earlier lives of others.
const (
	keepLives = 64
	keepPast  = 16
)

// Lineage are the lives of a store, oldest first; all but the newest keepLives are forgotten.
type Lineage []Life

// Begin is the lineage with a new life, which must be on disk before anybody hears of it.
func (l Lineage) Begin(name uint64) Lineage {
	start := uint64(1)
	if len(l) > 0 {
		start = l[len(l)-1].Start + 1
	}
	l = append(slices.Clone(l), Life{Start: start, Name: name})
	return l[max(0, len(l)-keepLives):]
}

// Beat is the lineage after one more beat, which must be on disk before anybody hears of it.
func (l Lineage) Beat() Lineage {
	l = slices.Clone(l)
	l[len(l)-1].Beats++
	return l
}

// forgiven is more beats than any life has.
const forgiven = 1 << 62

// Forgive is the lineage of a store whose log may have lost its end, and the newest beats with it.
// Its replicas are suspect (RECOVER-1), so what it lacks does no harm.
func (l Lineage) Forgive() Lineage {
	l = slices.Clone(l)
	if len(l) > 0 {
		l[len(l)-1].Beats = forgiven
	}
	return l
}

// Claim is what a process says of its store.
type Claim struct {
	Lineage Lineage `json:"lineage"`
	// Take has the claim remembered; else it is only looked at, and nobody else's is for a moment.
	Take bool `json:"take,omitempty"`
	// Force has the claim taken although others know a newer life.
	Force bool `json:"force,omitempty"`
}

func (c *Claim) life() Life {
	if len(c.Lineage) == 0 {
		return Life{}
	}
	return c.Lineage[len(c.Lineage)-1]
}

// Verdict is a node's answer to a claim.
type Verdict string

// Verdicts.
const (
	// OK: this node knows of nothing newer.
	OK Verdict = "ok"
	// Busy: another process with the store is heard here, or was promised the place. It may end.
	Busy Verdict = "busy"
	// Stale: the store is an old copy, for good.
	Stale Verdict = "stale"
)

// Memory is what a node remembers of the store of another one.
type Memory struct {
	Newest Life `json:"newest"`
	// Past are names of lives that newer ones have followed.
	Past []uint64 `json:"past,omitempty"`
}

// judge is why a claim is refused for good; empty if it is not.
func (m *Memory) judge(c *Claim) string {
	if m.Newest.Name == 0 || c.Force {
		return ""
	}
	for _, l := range c.Lineage {
		switch {
		case l.Name != m.Newest.Name:
		case l.Beats >= m.Newest.Beats:
			return ""
		default:
			return fmt.Sprintf("its start %d went on after this copy was made", l.Start)
		}
	}
	if len(c.Lineage) > 0 && m.Newest.Start < c.Lineage[0].Start {
		return "" // this node was away for all that the lineage remembers
	}
	return fmt.Sprintf("another copy of it has been started since (start %d)", m.Newest.Start)
}

// take remembers a claim. changed says that it is of a life not known before.
func (m *Memory) take(c *Claim) (changed bool) {
	l := c.life()
	if changed = l.Name != m.Newest.Name; changed && m.Newest.Name != 0 {
		m.Past = append(m.Past, m.Newest.Name)
		m.Past = m.Past[max(0, len(m.Past)-keepPast):]
	}
	m.Newest = l
	return changed
}

// promised is for how long a node that has looked at a claim tells others with the same store to
// wait.
const promised = 3 * time.Second

// Book is what a node remembers of the stores of all others, by their UUIDs. Safe for concurrent
// use.
type Book struct {
	save func(m map[string]Memory, sync bool) error

	mu       sync.Mutex
	of       map[string]Memory
	promises map[string]promise
}

type promise struct {
	name  uint64
	until time.Time
}

// NewBook makes a book of what was remembered. save makes it durable: when it returns if sync is
// set, else soon.
func NewBook(of map[string]Memory, save func(of map[string]Memory, sync bool) error) *Book {
	if of == nil {
		of = map[string]Memory{}
	}
	return &Book{save: save, of: of, promises: map[string]promise{}}
}

// Judge answers a claim. A new life that is taken is on disk when it returns.
func (b *Book) Judge(uuid string, c *Claim, now time.Time) (Verdict, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name := c.life().Name
	if name == 0 {
		return Stale, "it names no life", nil
	}
	m := b.of[uuid]
	if why := m.judge(c); why != "" {
		return Stale, why, nil
	}
	if p := b.promises[uuid]; p.name != name && now.Before(p.until) && m.Newest.Name != name {
		return Busy, "another process with this store is starting", nil
	}
	if !c.Take {
		b.promises[uuid] = promise{name, now.Add(promised)}
		return OK, "", nil
	}
	m.Past = slices.Clone(m.Past)
	changed := m.take(c)
	next := maps.Clone(b.of)
	next[uuid] = m
	if err := b.save(next, changed); err != nil {
		return "", "", err
	}
	b.of = next
	delete(b.promises, uuid)
	return OK, "", nil
}

// Superseded reports whether a process of a store has been followed by a newer one.
func (b *Book) Superseded(uuid string, name uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.of[uuid].Past, name)
}
