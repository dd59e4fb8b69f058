package migrate

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/godwitdb/godwit/sql/follow"
)

// masterStatus is where the source's binary log ends; empty if it writes none.
func masterStatus(ctx context.Context, q queryer) (follow.Position, error) {
	rows, err := texts(ctx, q, "SHOW MASTER STATUS")
	if follow.NumberOf(err) == errSyntax { // MySQL from 8.4 on
		rows, err = texts(ctx, q, "SHOW BINARY LOG STATUS")
	}
	if err != nil {
		return follow.Position{}, err
	}
	if len(rows) == 0 || rows[0][0] == "" {
		return follow.Position{}, nil
	}
	off, err := strconv.ParseUint(rows[0][1], 10, 64)
	return follow.Position{File: rows[0][0], Off: off}, err
}

// snapshot is one state of the source that several sessions read.
type snapshot struct {
	readers []*sql.Conn
	at      follow.Position
	why     string // why at is empty
	shape   string // see shapeOf
}

func (s *snapshot) close() {
	for _, c := range s.readers {
		c.Close() // the transaction ends with its session
	}
}

const beginSnapshot = "START TRANSACTION WITH CONSISTENT SNAPSHOT"

// take begins readers that see the same state. For the moment that takes, it holds the source's
// writers up; where it may not, there is one reader, and no position to follow from.
func take(ctx context.Context, source *sql.DB, databases []string, readers int) (s *snapshot, err error) {
	s = new(snapshot)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	gate, err := source.Conn(ctx)
	if err != nil {
		return s, err
	}
	defer gate.Close()
	unlock := func() error {
		_, err := gate.ExecContext(context.WithoutCancel(ctx), "UNLOCK TABLES")
		return err
	}
	if err := holdWriters(ctx, gate); err != nil {
		if !mayNot(err) {
			return s, fmt.Errorf("the source's writers cannot be held up for the snapshot: %w", err)
		}
		s.why, readers = err.Error(), 1
		unlock = func() error { return nil }
	}
	for range readers {
		c, err := source.Conn(ctx)
		if err != nil {
			return s, errors.Join(err, unlock())
		}
		s.readers = append(s.readers, c)
		if err := begin(ctx, c); err != nil {
			return s, errors.Join(err, unlock())
		}
	}
	if s.why == "" {
		s.at, err = masterStatus(ctx, gate)
		switch {
		case mayNot(err):
			s.why = err.Error()
		case err != nil:
			return s, errors.Join(err, unlock())
		case s.at.File == "":
			s.why = "it writes no binary log (log_bin)"
		}
	}
	if s.shape, err = shapeOf(ctx, gate, databases); err != nil {
		return s, errors.Join(err, unlock())
	}
	return s, unlock()
}

// shapeOf is a digest of the definitions of all tables: columns, indexes and foreign keys.
func shapeOf(ctx context.Context, q queryer, databases []string) (string, error) {
	h := sha256.New()
	for _, db := range databases {
		for _, query := range []string{
			`SELECT table_name, column_name, ordinal_position, column_type, is_nullable, column_default, extra, collation_name
FROM information_schema.columns WHERE table_schema = ? ORDER BY 1, 3`,
			`SELECT table_name, index_name, seq_in_index, column_name, non_unique FROM information_schema.statistics WHERE table_schema = ? ORDER BY 1, 2, 3`,
			`SELECT table_name, constraint_name, ordinal_position, column_name, referenced_table_name
FROM information_schema.key_column_usage WHERE table_schema = ? ORDER BY 1, 2, 3`,
		} {
			rows, err := texts(ctx, q, query, db)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%q\n", rows)
		}
	}
	return string(h.Sum(nil)), nil
}

func begin(ctx context.Context, c *sql.Conn) error {
	if _, err := c.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return err
	}
	_, err := c.ExecContext(ctx, beginSnapshot)
	return err
}

// holdWriters waits for running changes to end, and lets none begin, for 10 s at most: who waits
// for FLUSH TABLES holds up others.
func holdWriters(ctx context.Context, c *sql.Conn) error {
	if _, err := c.ExecContext(ctx, "SET SESSION lock_wait_timeout = 10"); err != nil {
		return err
	}
	_, err := c.ExecContext(ctx, "FLUSH TABLES WITH READ LOCK")
	return err
}

// mayNot reports whether an error says that the user has not the right, or the server not the
// means.
func mayNot(err error) bool {
	switch follow.NumberOf(err) {
	case errAccess, errAccessDB, errNotYet:
		return true
	}
	return false
}

// checkHold says, before anything is made, why a snapshot would have no position in the log.
func checkHold(ctx context.Context, source *sql.DB) error {
	c, err := source.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := holdWriters(ctx, c); err != nil {
		return fmt.Errorf("the source's log cannot be followed, since its writers cannot be held up for a snapshot (the user needs "+
			"RELOAD): %w", err)
	}
	_, err = masterStatus(ctx, c)
	if _, gone := c.ExecContext(context.WithoutCancel(ctx), "UNLOCK TABLES"); err == nil {
		err = gone
	}
	if err != nil {
		return fmt.Errorf("the source's log cannot be followed (the user needs REPLICATION CLIENT): %w", err)
	}
	return nil
}
