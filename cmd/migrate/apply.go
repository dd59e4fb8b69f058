package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// What is applied in one transaction of the target, if more is there.
	groupChanges = 200
	groupBytes   = 1 << 20
)

// applier applies changes to the target, each group of them in one transaction with the position
// behind it.
type applier struct {
	r      *run
	conn   *sql.Conn
	tables map[name]*table
	maps   map[uint64]*tableMap
	at     position // as it is in the target
}

func (a *applier) close() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

func (a *applier) session(ctx context.Context) (err error) {
	if a.conn == nil {
		a.conn, err = makeSession(ctx, a.r.target)
	}
	return err
}

// wanted reports whether changes of a database are followed.
func (a *applier) wanted(db string) bool { return slices.Contains(a.r.cat.databases, db) }

// columns are those of a table in the target, which is as the source was at that point of its log.
func (a *applier) columns(ctx context.Context) func(name) (*table, error) {
	return func(n name) (*table, error) {
		if !a.wanted(n.db) || a.r.leftOut(n) {
			return nil, nil
		}
		if t := a.tables[n]; t != nil {
			return t, nil
		}
		t, err := readTable(ctx, a.r.target, n)
		if errors.Is(err, errGone) {
			return nil, unknown{fmt.Errorf("the target has not what the source has changed: %w", err)}
		}
		if err != nil {
			return nil, err
		}
		a.tables[n] = t
		return t, nil
	}
}

// statements decodes the rows of changes.
func (a *applier) statements(ctx context.Context, group []*change) (out []statement, err error) {
	for _, c := range group {
		for _, e := range c.events {
			if e.kind == eventTableMap {
				m, err := parseTableMap(e.body)
				if err != nil {
					return nil, unknown{err}
				}
				a.maps[m.id] = m
				continue
			}
			rows, t, err := parseRows(e, a.maps, a.columns(ctx))
			if err != nil {
				return nil, err
			}
			if t != nil {
				out = append(out, statementsOf(rows, t)...)
			}
		}
	}
	return out, nil
}

// statement is SQL, and how many rows it must find.
type statement struct {
	text        string
	of          name
	rows        int64
	foreignKeys bool
}

// statementsOf writes the changes of an event.
func statementsOf(e *rowsEvent, t *table) (out []statement) {
	n := t.name
	one := func(text string, rows int) {
		out = append(out, statement{text: text, of: n, rows: int64(rows), foreignKeys: e.foreignKeys})
	}
	var b []byte
	rows := 0
	flush := func() {
		if rows > 0 {
			one(string(b), rows)
		}
		b, rows = nil, 0
	}
	for _, c := range e.rows {
		switch {
		case c.before == nil:
			if rows == 0 {
				b = insertInto(n, t.stored())
			} else {
				b = append(b, ',')
			}
			b = appendRow(b, t, c.after)
			if rows++; rows == batchRows || len(b) >= batchBytes {
				flush()
			}
		case c.after == nil:
			one("DELETE FROM "+n.quoted()+" WHERE "+where(t, c.before), 1)
		default:
			var set []string
			changed := false
			for i, x := range t.columns {
				if !x.generated && (c.after[i] != c.before[i] || x.onUpdate) {
					set, changed = append(set, quoteName(x.name)+"="+string(c.after[i])), changed || c.after[i] != c.before[i]
				}
			}
			if changed {
				one("UPDATE "+n.quoted()+" SET "+strings.Join(set, ",")+" WHERE "+where(t, c.before), 1)
			}
		}
	}
	flush()
	return out
}

func appendRow(b []byte, t *table, cells []cell) []byte {
	b = append(b, '(')
	first := true
	for i, x := range t.columns {
		if x.generated {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		b, first = append(b, cells[i]...), false
	}
	return append(b, ')')
}

// where names a row by its primary key, or else by all of its columns whose values are exact.
func where(t *table, cells []cell) string {
	var all []string
	if len(t.key) > 0 {
		for _, i := range t.key {
			all = append(all, quoteName(t.columns[i].name)+"="+string(cells[i]))
		}
		return strings.Join(all, " AND ")
	}
	for i, x := range t.columns {
		if !x.generated && !x.float() && x.data != "json" {
			all = append(all, quoteName(x.name)+"<=>"+string(cells[i]))
		}
	}
	return strings.Join(append(all, "TRUE"), " AND ") + " LIMIT 1"
}

// apply brings a group of transactions to the target, once. end is behind the last one.
func (a *applier) apply(ctx context.Context, group []*change) error {
	all, err := a.statements(ctx, group)
	if err != nil {
		return err
	}
	end := group[len(group)-1].end
	for i := 0; ; i++ {
		err := a.tryApply(ctx, all, end)
		if err == nil {
			a.at = end
			a.r.report.Applied += int64(len(group))
			return nil
		}
		if errors.Is(err, errThere) {
			a.at = end // the answer to an earlier COMMIT was lost
			return nil
		}
		if !passing(err) || i == tries || ctx.Err() != nil {
			return err
		}
		pause(ctx, time.Duration(i+1)*20*time.Millisecond)
	}
}

func (a *applier) tryApply(ctx context.Context, all []statement, end position) (err error) {
	if err := a.session(ctx); err != nil {
		return err
	}
	exec := func(q string, args ...any) (sql.Result, error) { return a.conn.ExecContext(ctx, q, args...) }
	if _, err := exec("START TRANSACTION"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			a.close() // which ends the transaction, and forgets foreign_key_checks
		}
	}()
	// The row is locked, so that no earlier attempt can still commit.
	p, err := progressOf(ctx, a.conn, a.r.o.From.Host, " FOR UPDATE")
	switch {
	case err != nil:
		return err
	case p.at == end:
		return errThere
	case p.at != a.at:
		return unknown{fmt.Errorf("the target is at %s of the log, and not at %s: does another import follow the same source?", p.at, a.at)}
	}
	keys := false
	for _, s := range all {
		if s.foreignKeys != keys {
			keys = s.foreignKeys
			if _, err := exec(fmt.Sprintf("SET foreign_key_checks = %d", btoi(keys))); err != nil {
				return err
			}
		}
		res, err := exec(s.text)
		if err != nil {
			return fmt.Errorf("%s: a change of the source cannot be applied: %w", s.of, err)
		}
		if n, err := res.RowsAffected(); err != nil || n != s.rows {
			return unknown{errors.Join(err, fmt.Errorf("%s: a row that the source changed is not in Godwit: somebody else has changed "+
				"the table. Import anew with --overwrite", s.of))}
		}
	}
	if keys {
		if _, err := exec("SET foreign_key_checks = 0"); err != nil {
			return err
		}
	}
	if err := a.r.advance(ctx, a.conn, end); err != nil {
		return err
	}
	_, err = exec("COMMIT")
	return err
}

// errThere says that what is to be applied has been applied.
var errThere = errors.New("it has been applied")

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// followed reports whether a definition is one of tables, indexes and databases. What is defined
// otherwise is read at the cut-over.
func followed(text string) bool {
	words := strings.Fields(strings.ToUpper(first(stripComments(text), 400)))
	if len(words) < 2 {
		return false
	}
	switch words[0] {
	case "CREATE", "ALTER", "DROP", "RENAME":
		for _, w := range words[1:min(len(words), 5)] {
			switch strings.Trim(w, "`") {
			case "TABLE", "TABLES", "INDEX", "DATABASE", "SCHEMA":
				return !slices.Contains(words[1:3], "TEMPORARY")
			case "VIEW", "FUNCTION", "PROCEDURE", "TRIGGER", "EVENT", "USER", "ROLE", "SERVER", "SEQUENCE":
				return false
			}
		}
	case "TRUNCATE":
		return true
	}
	return false
}

// dataWords begin statements that change rows: they are in the log if it is not by rows.
var dataWords = []string{"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "WITH"}

// exists are the errors of a definition that was applied before an interruption.
var exists = []uint16{1007, 1008, 1050, 1051, 1060, 1061, 1091, 1146, 1826}

// define applies a definition. again says that it may have been applied before.
func (a *applier) define(ctx context.Context, c *change, again bool) (err error) {
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	q := c.define
	word, _, _ := strings.Cut(strings.ToUpper(stripComments(q.text)), " ")
	if slices.Contains(dataWords, word) {
		return unknown{fmt.Errorf("a change of %s is logged as a statement: SET GLOBAL binlog_format = 'ROW' at the source, reconnect its "+
			"clients, and import anew", q.db)}
	}
	if followed(q.text) && (a.wanted(q.db) || q.db == "") {
		if err := a.session(ctx); err != nil {
			return err
		}
		if a.wanted(q.db) {
			// The database itself may be what is dropped or made.
			if _, err := a.conn.ExecContext(ctx, "USE "+quoteName(q.db)); err != nil && numberOf(err) != 1049 {
				return err
			}
		}
		text := partitions.ReplaceAllString(q.text, "")
		_, err := a.conn.ExecContext(ctx, text)
		if err != nil && !(again && slices.Contains(exists, numberOf(err))) {
			return fmt.Errorf("a definition of the source cannot be applied: %s: %w", first(q.text, 300), err)
		}
		a.r.say("applied %s", first(strings.Join(strings.Fields(text), " "), 100))
		clear(a.tables)
	}
	if c.end == (position{}) {
		return nil // the transaction goes on
	}
	if err := a.session(ctx); err != nil {
		return err
	}
	if err := a.r.advance(ctx, a.conn, c.end); err != nil {
		return err
	}
	a.at = c.end
	return nil
}
