package sqldiff

import (
	"context"
	"database/sql"
	"hash/fnv"
	"strings"
)

// gate is another node of the side's cluster, and the connection to it.
type gate struct {
	db       *sql.DB
	conn     *sql.Conn // nil: there is none yet
	database string    // that the connection uses
}

// Roam has statements go through several nodes of the side's cluster, by the data source names of
// the others: what one gateway has written, another one changes and reads. Transactions stay at one
// node, and so does what follows a statement that changes the session.
func (s *Side) Roam(others ...string) error {
	for _, dsn := range others {
		db, err := open(dsn)
		if err != nil {
			return err
		}
		s.gates = append(s.gates, gate{db: db})
	}
	return nil
}

// choose is which of the gates a statement goes through, by its text, so that a round can be run
// again; len(s.gates): the present node.
func (s *Side) choose(q string) int {
	if s.stays || s.within {
		return len(s.gates)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(q))
	return int(h.Sum32()>>8) % (len(s.gates) + 1)
}

// hop goes to the node that a statement goes through.
func (s *Side) hop(ctx context.Context, q string) error {
	k := s.choose(q)
	if k == len(s.gates) {
		return nil
	}
	g := &s.gates[k]
	was := gate{s.db, s.conn, s.database}
	s.db, s.conn = g.db, g.conn
	stale := g.database != s.database
	*g = was
	if s.conn != nil && !stale {
		return nil
	}
	return s.connect(ctx)
}

// ran notes what a statement has made of the session.
func (s *Side) ran(q string) {
	switch first, rest, _ := strings.Cut(strings.ToUpper(q), " "); first {
	case "BEGIN", "START":
		s.within = true
	case "COMMIT":
		s.within = false
	case "ROLLBACK":
		s.within = s.within && strings.HasPrefix(rest, "TO")
	case "SET", "USE", "LOCK", "PREPARE":
		s.stays = true
	case "CREATE":
		s.stays = s.stays || strings.HasPrefix(rest, "TEMPORARY")
	}
}

// stay forgets the other connections, which are of a database that is gone.
func (s *Side) stay() {
	s.stays, s.within = false, false
	for i := range s.gates {
		if g := &s.gates[i]; g.conn != nil {
			_ = g.conn.Close()
			g.conn = nil
		}
	}
}
