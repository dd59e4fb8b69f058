package whatif

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/recording"
	"github.com/godwitdb/godwit/sql/token"
)

// placements makes those that the cluster has.
func (w *world) placements(ctx context.Context, c *sql.Conn) error {
	for _, q := range w.p.f.Placements {
		if err := run(ctx, c, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// programs makes views, functions, procedures and triggers, once the rows are there. What cannot be
// made is tried again when all others are, and else left out: its tables may be gone.
func (w *world) programs(ctx context.Context, c *sql.Conn) error {
	left := w.p.f.Programs
	var errs []string
	for range 2 {
		var again []recording.Program
		errs = nil
		for i := range left {
			p := &left[i]
			if err := run(ctx, c, "USE "+name(p.DB), "SET sql_mode = "+recording.Quote(p.SQLMode)); err != nil {
				return fmt.Errorf("%s %s.%s: %w", p.Kind, p.DB, p.Name, err)
			}
			if err := run(ctx, c, p.Create); err != nil {
				again = append(again, *p)
				errs = append(errs, fmt.Sprintf("%s %s.%s: %v", p.Kind, p.DB, p.Name, err))
			}
		}
		left = again
	}
	w.left = errs
	return run(ctx, c, "SET sql_mode = DEFAULT")
}

// procedure is one of the recording that a CALL names, and its program; nil: there is none.
func procedure(f *recording.File, call *program.Call, db string) (*recording.Program, *program.Program) {
	if call.DB != "" {
		db = call.DB
	}
	for i := range f.Programs {
		p := &f.Programs[i]
		if p.Kind != "procedure" || !strings.EqualFold(p.DB, db) || !strings.EqualFold(p.Name, call.Name) {
			continue
		}
		if parsed, err := program.Parse(p.Create, token.ModeOf(p.SQLMode)); err == nil {
			return p, parsed
		}
	}
	return nil, nil
}

// called is the CALL that a text is; nil: it is something else.
func called(text string) *program.Call {
	if t := token.Scan(text, token.Mode{}); !t[0].Is("call") {
		return nil
	}
	c, err := program.ParseCall(text, token.Mode{})
	if err != nil {
		return nil
	}
	return c
}

// once reports whether a statement cannot be executed twice with the same outcome: it inserts or
// deletes, or it calls a procedure that does.
func once(f *recording.File, t *recording.Text) bool {
	return onceWithin(f, t.Text, t.Schema, nil)
}

func onceWithin(f *recording.File, text, db string, within []string) bool {
	c := called(text)
	if c == nil {
		return reOnce.MatchString(text) && !reAgain.MatchString(text)
	}
	p, parsed := procedure(f, c, db)
	if p == nil {
		return true // what it does is not known
	}
	for _, s := range statements(p) {
		switch {
		case called(s) != nil && len(within) < maxCalls:
			if onceWithin(f, s, p.DB, append(within, parsed.Name)) {
				return true
			}
		case reOnce.MatchString(s) && !reAgain.MatchString(s):
			return true
		}
	}
	return false
}

// maxCalls is how deep procedures that call each other are looked into.
const maxCalls = 8

// starts reports whether a statement begins at a token: it is no event of a trigger, and no
// function.
func starts(ts []token.Token, i int) bool {
	if i == 0 || i+1 >= len(ts) || ts[i+1].Is("on", "(") || ts[i-1].Is("or", ".") {
		return false
	}
	return ts[i].Is("insert", "replace", "delete", "call")
}

// filled are the tables, as database.table, that programs insert into. What is new there was made
// by statements that are played.
func (p *plan) filled() map[string]bool {
	out := map[string]bool{}
	for i := range p.f.Programs {
		x := &p.f.Programs[i]
		for _, s := range statements(x) {
			m := reInto.FindStringSubmatch(s)
			if m == nil {
				continue
			}
			db, table, ok := strings.Cut(strings.ReplaceAll(m[1], "`", ""), ".")
			if !ok {
				db, table = x.DB, db
			}
			out[strings.ToLower(strings.TrimSpace(db)+"."+strings.TrimSpace(table))] = true
		}
	}
	return out
}

var reInto = regexp.MustCompile("(?is)^(?:INSERT|REPLACE)\\s+(?:(?:IGNORE|LOW_PRIORITY|HIGH_PRIORITY|DELAYED|INTO)\\s+)*" +
	"((?:`[^`]+`|[\\w$]+)(?:\\s*\\.\\s*(?:`[^`]+`|[\\w$]+))?)")

// statements are the texts of the INSERTs, REPLACEs, DELETEs and CALLs of a program.
func statements(p *recording.Program) (out []string) {
	from := -1
	ts := token.Scan(p.Create, token.ModeOf(p.SQLMode))
	for i, t := range ts {
		switch {
		case from < 0 && starts(ts, i):
			from = t.From
		case from >= 0 && (t.Is(";") || t.Kind == token.End):
			out = append(out, p.Create[from:t.From])
			from = -1
		}
	}
	return out
}

// insertedBy are the INSERTs of a procedure that a text calls, with its arguments, and the database
// that they are executed in.
func insertedBy(f *recording.File, text, db string) (out []string, in string) {
	c := called(text)
	if c == nil {
		return nil, ""
	}
	p, parsed := procedure(f, c, db)
	if p == nil || len(parsed.Params) != len(c.Args) {
		return nil, ""
	}
	args := map[string]string{}
	for i, x := range parsed.Params {
		args[strings.ToLower(x.Name)] = string(c.Args[i])
	}
	for _, s := range statements(p) {
		if called(s) == nil {
			out = append(out, substituted(s, args))
		}
	}
	return out, p.DB
}

// substituted is a statement with values for the names of parameters.
func substituted(text string, args map[string]string) string {
	var b strings.Builder
	at := 0
	ts := token.Scan(text, token.Mode{})
	for i, t := range ts {
		v, ok := args[t.Lower]
		if !ok || !t.Named() || i > 0 && ts[i-1].Is(".") || i+1 < len(ts) && ts[i+1].Is(".", "(") {
			continue
		}
		b.WriteString(text[at:t.From] + v)
		at = t.To
	}
	return b.String() + text[at:]
}
