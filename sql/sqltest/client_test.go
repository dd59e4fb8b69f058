package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// client is one connection.
type client struct {
	db   *sql.DB
	conn *sql.Conn
	err  error
	j    *journal
	done chan string // of the statement that was started
	// settle waits for what a statement sets off in the background, such as new statistics of the
	// planner; nil if nobody can know.
	settle func()
}

func newClient(db *sql.DB, j *journal, settle func()) *client {
	c := &client{db: db, j: j, settle: settle}
	c.conn, c.err = db.Conn(context.Background())
	return c
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
	}
	c.db.Close()
}

// flags say what of a statement a story wants to see.
type flags struct {
	trace, trips, path, warn, names, sort, quiet, words, last, rows bool
}

// queries are the first words of statements that return rows.
var queries = []string{"check", "select", "show", "explain", "describe", "desc", "with", "values", "table", "call", "(select", "execute", "xa"}

func firstWord(q string) string {
	for {
		q = strings.TrimLeft(q, " \t\n")
		if !strings.HasPrefix(q, "/*") {
			break
		}
		_, q, _ = strings.Cut(q, "*/")
	}
	return strings.ToLower(strings.FieldsFunc(q+" ", func(r rune) bool {
		return r == ' ' || r == '\n' || r == '\t' || r == ';'
	})[0])
}

// run executes a statement and says what a client sees of it.
func (c *client) run(q string, f flags, args ...any) string {
	if c.err != nil {
		return errorText(c.err, f)
	}
	c.j.reset()
	out := c.answer(f, q, func(q string) (*sql.Rows, error) { return c.conn.QueryContext(context.Background(), q, args...) },
		func(q string) (sql.Result, error) { return c.conn.ExecContext(context.Background(), q, args...) })
	return out + c.notes(f)
}

// execute runs a prepared statement.
func (c *client) execute(st *sql.Stmt, q string, f flags, args ...any) string {
	c.j.reset()
	out := c.answer(f, q, func(string) (*sql.Rows, error) { return st.QueryContext(context.Background(), args...) },
		func(string) (sql.Result, error) { return st.ExecContext(context.Background(), args...) })
	return out + c.notes(f)
}

func (c *client) answer(f flags, q string, query func(string) (*sql.Rows, error), exec func(string) (sql.Result, error)) string {
	if slices.Contains(queries, firstWord(q)) || strings.Contains(q, " RETURNING ") {
		rows, err := query(q)
		if err != nil {
			return errorText(err, f)
		}
		defer rows.Close()
		return rowsText(rows, f)
	}
	r, err := exec(q)
	if err != nil {
		return errorText(err, f)
	}
	n, _ := r.RowsAffected()
	id, _ := r.LastInsertId()
	var out string
	switch {
	case n == 0:
		out = "ok"
	case n == 1:
		out = "1 row"
	default:
		out = fmt.Sprintf("%d rows", n)
	}
	if id != 0 {
		out += fmt.Sprintf(", id %d", id)
	}
	return out
}

// notes are what a story wants to see besides the answer.
func (c *client) notes(f flags) (out string) {
	if c.settle != nil {
		c.settle()
	}
	c.j.mu.Lock()
	lines, trips, fast := slices.Clone(c.j.lines), c.j.trips, c.j.fast
	c.j.mu.Unlock()
	if f.path {
		path := "engine"
		switch {
		case slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "forward") }):
			path = "forwarded"
		case fast:
			path = "fast"
		}
		out += "\n  path: " + path
	}
	if f.trace {
		for _, l := range lines {
			out += "\n  " + l
		}
	}
	if f.trips {
		out += fmt.Sprintf("\n  round trips: %d", trips)
	}
	if f.warn {
		rows, err := c.conn.QueryContext(context.Background(), "SHOW WARNINGS")
		if err != nil {
			return out + "\n" + errorText(err, f)
		}
		defer rows.Close()
		if w := rowsText(rows, flags{}); w != "(none)" {
			out += "\n  " + strings.ReplaceAll(w, "\n", "\n  ")
		}
	}
	return out
}

func rowsText(rows *sql.Rows, f flags) string {
	cols, _ := rows.Columns()
	var out []string
	for rows.Next() {
		vals, ptrs := make([]any, len(cols)), make([]any, len(cols))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			return err.Error()
		}
		var line []string
		for _, v := range vals {
			line = append(line, valueText(v))
		}
		out = append(out, strings.Join(line, "|"))
	}
	if f.sort {
		slices.Sort(out)
	}
	if f.names {
		out = slices.Insert(out, 0, strings.Join(cols, "|"))
	}
	if err := rows.Err(); err != nil {
		out = append(out, errorText(err, f))
	}
	if f.last && len(out) > 0 {
		out = out[len(out)-1:]
	}
	if len(out) == 0 {
		return "(none)"
	}
	return strings.Join(out, "\n")
}

func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case []byte:
		for _, b := range v {
			if b < ' ' && b != '\n' || b == 0x7f {
				return fmt.Sprintf("0x%X", v)
			}
		}
		return strings.ReplaceAll(string(v), "\n", "\n    ")
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case time.Time:
		return v.Format("2006-01-02 15:04:05.999999")
	}
	return fmt.Sprint(v)
}

// errorText is the number and the SQLSTATE of an error, and its words if they are wanted: those of
// the engine are not ours.
func errorText(err error, f flags) string {
	var me *mysql.MySQLError
	if errors.As(err, &me) {
		out := fmt.Sprintf("error %d (%s)", me.Number, me.SQLState)
		if f.words {
			out += ": " + me.Message
		}
		return out
	}
	return "error: " + err.Error()
}
