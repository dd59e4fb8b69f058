package binlog

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/describe"
	"github.com/godwitdb/godwit/sql/feed"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/token"
)

// statement is one that a replica executes.
type statement struct{ db, text string }

// statements make definitions what they are now. They are made of the definitions, not taken from
// clients: those may say what only this cluster understands, and depend on the session.
func (e *encoder) statements(ctx *sql.Context, defs []feed.Definition) (out []statement) {
	add := func(db, text string) { out = append(out, statement{db, e.dialect(text)}) }
	if s, ok := e.renames(defs); ok {
		out = append(out, s)
	}
	for _, d := range defs {
		db := describe.Name(d.DB)
		switch d.Kind {
		case feed.DatabaseCreated, feed.DatabaseAltered:
			verb := "CREATE DATABASE IF NOT EXISTS "
			if d.Kind == feed.DatabaseAltered {
				verb = "ALTER DATABASE "
			}
			c := d.Database.Collation
			if c == 0 {
				c = sql.Collation_Default
			}
			add("", verb+db+" DEFAULT CHARACTER SET "+c.CharacterSet().Name()+" COLLATE "+c.Name())
		case feed.DatabaseDropped:
			add("", "DROP DATABASE IF EXISTS "+db)
		case feed.ViewDropped:
			add(d.DB, "DROP VIEW IF EXISTS "+db+"."+describe.Name(d.View.Name))
		case feed.ViewCreated:
			add(d.DB, "CREATE OR REPLACE SQL SECURITY INVOKER VIEW "+db+"."+describe.Name(d.View.Name)+" AS "+d.View.View.TextDefinition)
		case feed.Dropped:
			add(d.DB, "DROP TABLE IF EXISTS "+db+"."+describe.Name(d.Old.Desc.Name))
		case feed.Truncated:
			add(d.DB, "TRUNCATE TABLE "+db+"."+describe.Name(d.New.Desc.Name))
		case feed.Created:
			t := e.known(d.New)
			add(d.DB, describe.Create(ctx, t, t.Desc.FKs, 0))
		case feed.Altered, feed.Renamed, feed.Rewritten:
			if Again(d) {
				t := e.known(d.New)
				add(d.DB, "DROP TABLE IF EXISTS "+db+"."+describe.Name(d.New.Desc.Name))
				add(d.DB, describe.Create(ctx, t, t.Desc.FKs, 0))
			} else if text := describe.Alter(ctx, e.known(d.Old), e.known(d.New)); text != "" {
				add(d.DB, text)
			}
		}
	}
	return out
}

// renames is all of a moment in one statement: tables may change their names in a ring.
func (e *encoder) renames(defs []feed.Definition) (statement, bool) {
	var parts []string
	db := ""
	for _, d := range defs {
		if d.Kind == feed.Renamed {
			full := func(t *schema.Table) string { return describe.Name(t.Desc.DB) + "." + describe.Name(t.Desc.Name) }
			db = d.DB
			parts = append(parts, full(d.Old)+" TO "+full(d.New))
		}
	}
	if len(parts) > 1 {
		parts = inTurn(defs)
	}
	return statement{db, "RENAME TABLE " + strings.Join(parts, ", ")}, len(parts) > 0
}

// inTurn renames tables to names of their own first, since each name may be another's.
func inTurn(defs []feed.Definition) (parts []string) {
	var then []string
	for _, d := range defs {
		if d.Kind != feed.Renamed {
			continue
		}
		from, to := d.Old.Desc, d.New.Desc
		between := describe.Name(to.DB) + "." + describe.Name("#godwit-rename-"+to.Name)
		parts = append(parts, describe.Name(from.DB)+"."+describe.Name(from.Name)+" TO "+between)
		then = append(then, between+" TO "+describe.Name(to.DB)+"."+describe.Name(to.Name))
	}
	return append(parts, then...)
}

// Again reports whether a client cannot rewrite a table by itself: a column is added whose values
// are not the same at each evaluation. Then the table is made anew, with its rows.
func Again(d feed.Definition) bool {
	if d.Kind != feed.Rewritten {
		return false
	}
	for _, c := range d.New.Desc.Cols {
		if d.Old.Desc.Col(c.ID) < 0 && c.Default != nil && !c.Default.Literal {
			return true
		}
		if d.Old.Desc.Col(c.ID) < 0 && c.AutoInc {
			return true // numbers follow the order of rows, which is not the same everywhere
		}
	}
	return false
}

// known is a table without what the client does not know: MariaDB has no indexes over expressions.
func (e *encoder) known(t *schema.Table) *schema.Table {
	hidden := func(id uint32) bool { return t.Desc.Cols[t.Desc.Col(id)].HiddenSystem }
	if !e.maria || !slices.ContainsFunc(t.Desc.Cols, func(c schema.ColumnDesc) bool { return c.HiddenSystem }) {
		return t
	}
	d := t.Desc.Clone()
	d.Indexes = slices.DeleteFunc(d.Indexes, func(x schema.IndexDesc) bool {
		return slices.ContainsFunc(x.Cols, func(c schema.IndexedColumn) bool { return hidden(c.Col) })
	})
	d.Cols = slices.DeleteFunc(d.Cols, func(c schema.ColumnDesc) bool { return c.HiddenSystem })
	out, err := schema.NewTable(d)
	if err != nil {
		return t
	}
	return out
}

// mariaCollations are MariaDB's names of collations of MySQL 8, or of those that order most like
// them.
var mariaCollations = map[string]string{
	"utf8mb4_0900_ai_ci": "utf8mb4_uca1400_nopad_ai_ci", "utf8mb4_0900_as_ci": "utf8mb4_uca1400_nopad_as_ci",
	"utf8mb4_0900_as_cs": "utf8mb4_uca1400_nopad_as_cs", "utf8mb4_0900_bin": "utf8mb4_nopad_bin",
}

// dialect words a statement for the client.
func (e *encoder) dialect(text string) string {
	if !e.maria {
		return text
	}
	return token.Replace(text, token.Mode{}, func(ts []token.Token, i int) (string, int) {
		if ts[i].Kind != token.Word {
			return "", 0
		}
		word := strings.ToLower(ts[i].Text)
		if name := mariaCollations[word]; name != "" {
			return name, 1
		}
		if strings.HasPrefix(word, "utf8mb4_") && strings.Contains(word, "_0900_") {
			return "utf8mb4_uca1400_nopad_ai_ci", 1
		}
		return "", 0
	})
}
