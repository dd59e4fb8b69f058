package program

import (
	"sync"

	"github.com/godwitdb/godwit/sql/token"
)

// Cache keeps programs that were parsed, by their texts. Programs do not change while they run.
type Cache struct {
	mu sync.Mutex
	m  map[[2]string]*Program
}

// mostPrograms is how many programs are kept.
const mostPrograms = 1000

// Get parses a program, which was made under a sql_mode.
func (c *Cache) Get(text, sqlMode string) (*Program, error) {
	key := [2]string{text, sqlMode}
	c.mu.Lock()
	p := c.m[key]
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := Parse(text, token.ModeOf(sqlMode))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= mostPrograms {
		c.m = map[[2]string]*Program{}
	}
	c.m[key] = p
	return p, nil
}

// Harmless reports whether a statement has no effects but on rows and variables.
func Harmless(ts []token.Token) bool {
	if !ts[0].Is("select", "insert", "update", "delete", "replace", "with") {
		return false
	}
	for _, t := range ts {
		if t.Is("sleep", "get_lock", "release_lock", "release_all_locks", "benchmark", "load_file", "outfile", "dumpfile") {
			return false
		}
	}
	return true
}

// Commits reports whether a statement ends transactions.
func Commits(ts []token.Token) bool {
	switch t := ts[0]; {
	case t.Is("commit", "start", "begin", "lock", "unlock", "truncate", "rename", "grant", "revoke", "analyze", "xa"):
		return true
	case t.Is("rollback"):
		return !ts[1].Is("to") && !(ts[1].Is("work") && ts[2].Is("to"))
	case t.Is("create", "drop", "alter"):
		return !ts[1].Is("temporary")
	}
	return false
}
