package follow

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// What is applied in one transaction of the target, if more is there.
	groupChanges = 200
	groupBytes   = 1 << 20
	// BatchRows and BatchBytes are how many rows a statement has at most, or bytes.
	BatchRows  = 500
	BatchBytes = 1 << 20
	// tries is how often a transaction is applied again after a deadlock or a wait for a lock.
	tries = 20
)

// Session is a session of the target. An error ends it.
type Session interface {
	// Exec executes a statement; rows is how many it has found, whether it has changed them or not.
	Exec(ctx context.Context, text string) (rows int64, err error)
	Close()
}

// Target is where changes go, and what knows how far they have come.
type Target interface {
	// Session begins a session for definitions and rows of the source: it refuses values that do
	// not fit, takes 0 for AUTO_INCREMENT columns as it is, has UTC, checks no foreign keys, and
	// fires no triggers, whose effects are in the log.
	Session(ctx context.Context) (Session, error)
	// Table is a table whose rows are Followed, as the target has it now; nil: they are not. The
	// error is [ErrGone] if the target has no such table.
	Table(ctx context.Context, n Name) (*Table, error)
	// Follows says whether a definition is applied; db is the database of its session. An error
	// says why it can be neither applied nor left out.
	Follows(db, text string) (bool, error)
	// Has reports whether a database is one that is Followed.
	Has(db string) bool
	// Lock reads up to where the target has everything, and keeps others from moving that until the
	// session's transaction ends.
	Lock(ctx context.Context, s Session) (Position, error)
	// Advance notes a position: in the session's transaction, if one is open.
	Advance(ctx context.Context, s Session, open bool, from, to Position) error
	// Defined is told of a definition that was applied.
	Defined(text string)
}

// applier applies changes to the target, each group of them in one transaction with the position
// behind it.
type applier struct {
	target Target
	s      Session
	tables map[Name]*Table
	maps   map[uint64]*tableMap
	at     Position // as it is in the target
}

func (a *applier) close() {
	if a.s != nil {
		a.s.Close()
		a.s = nil
	}
}

func (a *applier) session(ctx context.Context) (err error) {
	if a.s == nil {
		a.s, err = a.target.Session(ctx)
	}
	return err
}

// columns are those of a table in the target, which is as the source was at that point of its log.
func (a *applier) columns(ctx context.Context) func(Name) (*Table, error) {
	return func(n Name) (*Table, error) {
		if t, ok := a.tables[n]; ok {
			return t, nil
		}
		t, err := a.target.Table(ctx, n)
		if errors.Is(err, ErrGone) {
			return nil, Unknown{fmt.Errorf("the target has not what the source has changed: %w", err)}
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
					return nil, Unknown{err}
				}
				a.maps[m.id] = m
				continue
			}
			if c.own {
				continue
			}
			rows, t, err := parseRows(e, a.maps, a.columns(ctx))
			if err != nil {
				return nil, fmt.Errorf("a change of the transaction that ends at %s: %w", c.end, err)
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
	of          Name
	rows        int64
	foreignKeys bool
}

// statementsOf writes the changes of an event.
func statementsOf(e *rowsEvent, t *Table) (out []statement) {
	n := t.Name
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
				b = InsertInto(n, t.Stored())
			} else {
				b = append(b, ',')
			}
			b = appendRow(b, t, c.after)
			if rows++; rows == BatchRows || len(b) >= BatchBytes {
				flush()
			}
		case c.after == nil:
			one("DELETE FROM "+n.Quoted()+" WHERE "+where(t, c.before), 1)
		default:
			var set []string
			changed := false
			for i, x := range t.Columns {
				if !x.Generated && (c.after[i] != c.before[i] || x.OnUpdate) {
					set, changed = append(set, QuoteName(x.Name)+"="+string(c.after[i])), changed || c.after[i] != c.before[i]
				}
			}
			if changed {
				one("UPDATE "+n.Quoted()+" SET "+strings.Join(set, ",")+" WHERE "+where(t, c.before), 1)
			}
		}
	}
	flush()
	return out
}

func appendRow(b []byte, t *Table, cells []cell) []byte {
	b = append(b, '(')
	first := true
	for i, x := range t.Columns {
		if x.Generated {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		b, first = append(b, cells[i]...), false
	}
	return append(b, ')')
}

// where names a row by its primary key, or else by all of its columns whose values are exact. Among
// the rows that agree in these it takes the one whose other numbers are nearest: a FLOAT, or what a
// text has brought, need not be what the source has.
func where(t *Table, cells []cell) string {
	var all, near []string
	if len(t.Key) > 0 {
		for _, i := range t.Key {
			all = append(all, QuoteName(t.Columns[i].Name)+"="+string(cells[i]))
		}
		return strings.Join(all, " AND ")
	}
	for i, x := range t.Columns {
		name := QuoteName(x.Name)
		switch {
		case x.Generated, x.Data == "json":
		case !x.Float() || cells[i] == null:
			all = append(all, name+"<=>"+string(cells[i]))
		default:
			all = append(all, name+" IS NOT NULL")
			near = append(near, "ABS("+name+"-("+string(cells[i])+"))")
		}
	}
	text := strings.Join(append(all, "TRUE"), " AND ")
	if len(near) > 0 {
		text += " ORDER BY " + strings.Join(near, ",")
	}
	return text + " LIMIT 1"
}

// apply brings a group of transactions to the target, once. end is behind the last one. done is
// false if they had been applied.
func (a *applier) apply(ctx context.Context, group []*change) (done bool, err error) {
	all, err := a.statements(ctx, group)
	if err != nil {
		return false, err
	}
	end := group[len(group)-1].end
	for i := 0; ; i++ {
		err := a.tryApply(ctx, all, end)
		if err == nil {
			a.at = end
			return true, nil
		}
		if errors.Is(err, errThere) {
			a.at = end // the answer to an earlier COMMIT was lost
			return false, nil
		}
		if !Passing(err) || i == tries || ctx.Err() != nil {
			return false, err
		}
		Pause(ctx, time.Duration(i+1)*20*time.Millisecond)
	}
}

func (a *applier) tryApply(ctx context.Context, all []statement, end Position) (err error) {
	if err := a.session(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			a.close() // which ends the transaction, and forgets foreign_key_checks
		}
	}()
	if _, err := a.s.Exec(ctx, "START TRANSACTION"); err != nil {
		return err
	}
	at, err := a.target.Lock(ctx, a.s)
	switch {
	case err != nil:
		return err
	case at == end:
		return errThere
	case at != a.at:
		return Unknown{fmt.Errorf("the target is at %s of the log, and not at %s: does something else follow the same source?", at, a.at)}
	}
	keys := false
	for _, s := range all {
		if s.foreignKeys != keys {
			keys = s.foreignKeys
			if _, err := a.s.Exec(ctx, fmt.Sprintf("SET foreign_key_checks = %d", btoi(keys))); err != nil {
				return err
			}
		}
		n, err := a.s.Exec(ctx, s.text)
		if err != nil {
			return fmt.Errorf("%s: a change of the source, in a transaction that ends at %s or before, cannot be applied: %w", s.of, end, err)
		}
		if n != s.rows {
			return Unknown{fmt.Errorf("%s: a row that the source changed, in a transaction that ends at %s or before, is not in Godwit: somebody "+
				"else has changed the table. Copy the source anew (godwit import: --overwrite)", s.of, end)}
		}
	}
	if keys {
		if _, err := a.s.Exec(ctx, "SET foreign_key_checks = 0"); err != nil {
			return err
		}
	}
	if err := a.target.Advance(ctx, a.s, true, a.at, end); err != nil {
		return err
	}
	_, err = a.s.Exec(ctx, "COMMIT")
	return err
}

// errThere says that what is to be applied has been applied.
var errThere = errors.New("it has been applied")

// Kind says what a statement of a log is about.
type Kind string

// The kinds of statements.
const (
	Tables   Kind = "tables"   // and indexes and databases
	Programs Kind = "programs" // and views
	Events   Kind = "events"
	Accounts Kind = "accounts"
	Upkeep   Kind = "upkeep" // it changes nothing that others see
	Other    Kind = "other"
)

// objects are what statements define.
var objects = map[string]Kind{"TABLE": Tables, "TABLES": Tables, "INDEX": Tables, "DATABASE": Tables, "SCHEMA": Tables, "TEMPORARY": Upkeep,
	"VIEW": Programs, "FUNCTION": Programs, "PROCEDURE": Programs, "TRIGGER": Programs, "EVENT": Events, "USER": Accounts, "ROLE": Accounts}

// KindOf looks at the first words of a statement.
func KindOf(text string) Kind {
	words := strings.Fields(strings.ToUpper(Definer.ReplaceAllString(First(StripComments(text), 400), "")))
	if len(words) < 2 {
		return Other
	}
	switch words[0] {
	case "CREATE", "ALTER", "DROP", "RENAME":
		kind := Other
		for i, w := range words[1:min(len(words), 9)] {
			k, ok := objects[strings.Trim(w, "`")]
			if ok && kind == Other {
				kind = k
			}
			if w == "TEMPORARY" && i < 3 { // also in a comment that servers execute
				return Upkeep
			}
		}
		return kind
	case "TRUNCATE":
		return Tables
	case "GRANT", "REVOKE", "SET":
		return Accounts
	case "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "FLUSH":
		return Upkeep
	}
	return Other
}

// Followed reports whether a definition is one of tables, indexes and databases.
func Followed(text string) bool { return KindOf(text) == Tables }

// dataWords begin statements that change rows: they are in the log if it is not by rows.
var dataWords = []string{"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "CALL", "WITH"}

// exists are the errors of a definition that was applied before an interruption.
var exists = []uint16{1007, 1008, 1050, 1051, 1060, 1061, 1091, 1146, 1826}

// Partitions is the clause that SHOW CREATE TABLE ends with.
var Partitions = regexp.MustCompile(`(?s)\s+(/\*!\d+ )?PARTITION BY .*$`)

// Definer is the clause that names an account of the source.
var Definer = regexp.MustCompile("(?i)\\bDEFINER\\s*=\\s*(`[^`]*`@`[^`]*`|'[^']*'@'[^']*'|[^\\s@]+@[^\\s]+)")

// define applies a definition. again says that it may have been applied before.
func (a *applier) define(ctx context.Context, c *change, again bool) (err error) {
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	q := c.define
	word, _, _ := strings.Cut(strings.ToUpper(StripComments(q.text)), " ")
	if slices.Contains(dataWords, word) {
		return Unknown{fmt.Errorf("a change of %s is logged as a statement: SET GLOBAL binlog_format = 'ROW' at the source, reconnect its "+
			"clients, and copy the source anew", q.db)}
	}
	follows, err := a.target.Follows(q.db, q.text)
	if err != nil {
		return Unknown{fmt.Errorf("a definition of the source, which ends at %s, cannot be applied: %s: %w", c.end, First(q.text, 300), err)}
	}
	if err := a.session(ctx); err != nil {
		return err
	}
	if follows && !c.own {
		if q.db != "" && a.target.Has(q.db) {
			// The database itself may be what is dropped or made.
			if _, err := a.s.Exec(ctx, "USE "+QuoteName(q.db)); err != nil && NumberOf(err) != 1049 {
				return err
			}
		}
		text := Definer.ReplaceAllString(Partitions.ReplaceAllString(q.text, ""), "")
		_, err := a.s.Exec(ctx, text)
		if err != nil && !(again && slices.Contains(exists, NumberOf(err))) {
			return fmt.Errorf("a definition of the source, which ends at %s, cannot be applied: %s: %w", c.end, First(q.text, 300), err)
		}
		a.target.Defined(text)
		clear(a.tables)
	}
	if c.end == (Position{}) {
		return nil // the transaction goes on
	}
	if err := a.target.Advance(ctx, a.s, false, a.at, c.end); err != nil {
		return err
	}
	a.at = c.end
	return nil
}
