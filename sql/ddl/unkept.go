package ddl

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/token"
)

// What the parser of go-mysql-server takes and drops does not show in a syntax tree, so it is found
// in the text.

var (
	errInvisible  = NotYet("INVISIBLE columns and indexes", "leave the word out, and name the columns that a SELECT is to show")
	errUnions     = NotYet("more than 200 UNIONs in a statement of this kind", "split it")
	errTablespace = NotYet("DISCARD and IMPORT TABLESPACE", "mysqldump and BACKUP move tables")
)

// mostUnions is how many set operations a statement has at most that go-mysql-server runs: it
// analyzes each of them again for each one around it.
const mostUnions = 200

// unites reports whether a statement has too many set operations.
func unites(stmt sqlparser.Statement, text string) bool {
	if len(text) < mostUnions*len("union") {
		return false
	}
	n := 0
	_ = sqlparser.Walk(func(node sqlparser.SQLNode) (bool, error) {
		if _, is := node.(*sqlparser.SetOp); is {
			n++
		}
		return n <= mostUnions, nil
	}, stmt)
	return n > mostUnions
}

// dropped is the error for what a statement says and the parser drops.
func dropped(stmt sqlparser.Statement, text string) error {
	switch stmt.(type) {
	case sqlparser.SelectStatement, *sqlparser.Insert, *sqlparser.Update, *sqlparser.Delete:
		if unites(stmt, text) {
			return errUnions
		}
	case *sqlparser.DDL, *sqlparser.AlterTable:
		if !base.ContainsFold(text, "INVISIBLE") && !base.ContainsFold(text, "TABLESPACE") {
			return nil
		}
		ts := token.Scan(text, token.Mode{})
		for i, t := range ts {
			before := ts[max(i-1, 0)]
			switch {
			case t.Is("invisible") && !before.Is("(", ",", ".", "add", "column", "after", "change", "modify", "drop", "to", "key",
				"index", "table", "by", "select", "as"):
				return errInvisible
			case t.Is("tablespace") && before.Is("discard", "import"):
				return errTablespace
			}
		}
	}
	return nil
}

// engines are the storage engines that MySQL or MariaDB have, and whether their tables have foreign
// keys there. Their tables are those of InnoDB here, which keep more promises.
var engines = map[string]bool{"innodb": true, "myisam": false, "memory": false, "heap": false, "csv": false, "archive": false,
	"aria": false, "ndb": true, "ndbcluster": true, "rocksdb": false, "tokudb": false}

// Linkless reports whether a definition names a storage engine that has no foreign keys in MySQL.
func Linkless(text string) bool {
	return slices.ContainsFunc(optionsOf(text), func(o option) bool { return o.name == "engine" && !engines[o.value] })
}

// unlike are options of tables that ask for something that is not done; with a value, only that.
// Others, such as STATS_PERSISTENT and MAX_ROWS, are hints, which InnoDB does not follow either.
var unlike = map[string][]string{"compression": nil, "key_block_size": nil, "autoextend_size": nil, "insert_method": nil,
	"password": nil, "secondary_engine": nil, "engine_attribute": nil, "secondary_engine_attribute": nil,
	"page_compressed": nil, "transactional": nil, "row_format": {"compressed", "fixed"}}

// Warnings of options that are not kept.
const (
	warnOtherEngine = 1266
	warnOption      = 1478
	warnIgnored     = 1618
	errEngine       = 1286
)

// WarnOfUnkept warns of what is not kept of a definition: storage engines other than InnoDB (1266),
// what these do with rows (1478), and attributes of columns (1618).
func WarnOfUnkept(ctx *sql.Context, stmt sqlparser.Statement, text string) {
	warnOfColumns(ctx, stmt)
	d, isDDL := stmt.(*sqlparser.DDL)
	a, isAlter := stmt.(*sqlparser.AlterTable)
	var name string
	switch {
	case isDDL && d.TableSpec != nil:
		name = d.Table.Name.String()
	case isAlter:
		name = a.Table.Name.String()
	default:
		return
	}
	for _, o := range optionsOf(text) {
		switch values, known := unlike[o.name]; {
		case o.name == "engine" && o.value != "innodb":
			ctx.Warn(warnOtherEngine, "Using storage engine InnoDB for table '%s'", name)
			if isDDL && !engines[o.value] && base.ContainsFold(text, "REFERENCES") {
				ctx.Warn(warnIgnored, "<FOREIGN KEY> option ignored: tables of %s have none", o.value)
			}
		case known && (values == nil || slices.Contains(values, o.value)):
			ctx.Warn(warnOption, "Table storage engine 'InnoDB' does not support the create option '%s'", strings.ToUpper(o.name))
		}
	}
}

// unknownEngine is the error for a storage engine that there is nowhere.
func unknownEngine(text string) error {
	if !base.ContainsFold(text, "ENGINE") {
		return nil
	}
	for _, o := range optionsOf(text) {
		if _, known := engines[o.value]; o.name == "engine" && !known {
			return mysql.NewSQLError(errEngine, "42000", "Unknown storage engine '%s'", o.value)
		}
	}
	return nil
}

type option struct{ name, value string }

// optionsOf are the options of a table in the text of its definition that matter here. They stand
// outside of parentheses, and before a SELECT.
func optionsOf(text string) (out []option) {
	ts := token.Scan(text, token.Mode{})
	depth := 0
	for i, t := range ts {
		switch {
		case t.Is("("):
			depth++
		case t.Is(")"):
			depth--
		case depth == 0 && t.Is("select", "as", "with", "values", "partition"):
			return out
		}
		if depth > 0 || t.Kind != token.Word {
			continue
		}
		if _, known := unlike[t.Lower]; !known && t.Lower != "engine" {
			continue
		}
		// The word may be a name.
		if ts[max(i-1, 0)].Is("add", "column", "drop", "change", "modify", "after", "to", "key", "index", "table", ".", "rename",
			"alter", "constraint", "by", "exists", "like", "references") {
			continue
		}
		next := ts[i+1]
		if next.Is("=") && i+2 < len(ts) {
			next = ts[i+2]
		}
		if next.Kind == token.Word || next.Kind == token.String || next.Kind == token.Number || next.Kind == token.Quoted {
			out = append(out, option{t.Lower, strings.ToLower(next.Text)})
		}
	}
	return out
}

// warnOfColumns warns of what a definition says of its columns and the types of this server do not
// have: digits of FLOAT and DOUBLE, and ZEROFILL.
func warnOfColumns(ctx *sql.Context, stmt sqlparser.Statement) {
	switch s := stmt.(type) {
	case *sqlparser.DDL:
		warnOfTable(ctx, s.TableSpec)
	case *sqlparser.AlterTable:
		for _, d := range s.Statements {
			warnOfTable(ctx, d.TableSpec)
		}
	}
}

func warnOfTable(ctx *sql.Context, t *sqlparser.TableSpec) {
	if t == nil {
		return
	}
	for _, c := range t.Columns {
		switch kind := strings.ToLower(c.Type.Type); kind {
		case "float", "double", "real", "double precision":
			if c.Type.Scale != nil {
				ctx.Warn(warnIgnored, "<%s(%s,%s) of column %s> option ignored", strings.ToUpper(kind), c.Type.Length.Val, c.Type.Scale.Val, c.Name)
			}
		}
		if c.Type.Zerofill {
			ctx.Warn(warnIgnored, "<ZEROFILL of column %s> option ignored", c.Name)
		}
	}
}
