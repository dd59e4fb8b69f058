package store

import (
	"bytes"
	"strings"
	"sync"
)

// mirror keeps the node's own records in memory, in case the table that holds them is damaged: no
// other node has a copy. They are few and small.
type mirror struct {
	mu sync.Mutex
	m  map[string][]byte
}

// load reads the records.
func (m *mirror) load(s *Store) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.m = map[string][]byte{}
	return s.scanLocal("", func(name string, val []byte) error {
		m.m[name] = bytes.Clone(val)
		return nil
	})
}

func (m *mirror) get(name string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.m[name]
	return v, ok
}

// each calls fn for the records with a name prefix, which it cuts off.
func (m *mirror) each(prefix string, fn func(name string, val []byte)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, val := range m.m {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			fn(rest, val)
		}
	}
}

// localChange is a change of a record of the node itself; a nil value removes it.
type localChange struct {
	name string
	val  []byte
}

// note takes the changes of a batch; mu is held since before it was applied.
func (m *mirror) note(changes []localChange) {
	for _, c := range changes {
		if c.val == nil {
			delete(m.m, c.name)
		} else {
			m.m[c.name] = c.val
		}
	}
}

// local notes a change of a batch, if it is of a record of the node itself.
func (b *Batch) local(key, val []byte) {
	if len(key) < 2 || key[0] != areaLocal {
		return
	}
	c := localChange{name: string(key[1 : len(key)-1])}
	if val != nil {
		c.val = append(make([]byte, 0, len(val)), val...)
	}
	b.locals = append(b.locals, c)
}
