package migrate

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/sql/follow"
)

// target is the cluster that an import goes to, as package follow wants it.
type target struct{ *run }

// session is one of its sessions.
type session struct{ c *sql.Conn }

// Exec implements follow.Session.
func (s session) Exec(ctx context.Context, text string) (int64, error) {
	res, err := s.c.ExecContext(ctx, text)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected() // that were found: the pool asks for it
}

// Close implements follow.Session.
func (s session) Close() { s.c.Close() }

// Session implements follow.Target. The source's triggers are made at the cut-over.
func (t *target) Session(ctx context.Context) (follow.Session, error) {
	c, err := makeSession(ctx, t.run.target)
	if err != nil {
		return nil, err
	}
	return session{c}, nil
}

// Has implements follow.Target.
func (t *target) Has(db string) bool { return slices.Contains(t.cat.databases, db) }

// Table implements follow.Target.
func (t *target) Table(ctx context.Context, n follow.Name) (*follow.Table, error) {
	if !t.Has(n.DB) || t.leftOut(n) {
		return nil, nil
	}
	return follow.ReadTable(ctx, reading(t.run.target), n)
}

// Follows implements follow.Target. What is defined otherwise is read at the cut-over.
func (t *target) Follows(db, text string) (bool, error) {
	return follow.Followed(text) && (db == "" || t.Has(db)), nil
}

// Lock implements follow.Target.
func (t *target) Lock(ctx context.Context, s follow.Session) (follow.Position, error) {
	p, err := progressOf(ctx, s.(session).c, t.o.From.Host, " FOR UPDATE")
	return p.at, err
}

// Advance implements follow.Target.
func (t *target) Advance(ctx context.Context, s follow.Session, _ bool, _, to follow.Position) error {
	return t.advance(ctx, s.(session).c, to)
}

// Defined implements follow.Target.
func (t *target) Defined(text string) {
	t.say("applied %s", follow.First(strings.Join(strings.Fields(text), " "), 100))
}
