package rewrite

import (
	"slices"
	"strings"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/expr/fulltext"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/token"
)

// The grammar does not know WITH PARSER. It stands in the text as an attribute that nobody else can
// give an index, for MySQL wants a JSON document there, and from the tree on in the comment of the
// index, see schema.JoinParser.

const (
	parserAttribute = "ENGINE_ATTRIBUTE"
	withParserMark  = "WITH PARSER "
)

// withParser makes WITH PARSER of a full-text index an attribute.
func withParser(q string) string {
	if k := bound.Kind(q); k != "create" && k != "alter" || !base.ContainsFold(q, "PARSER") {
		return q
	}
	ts := token.Scan(q, token.Mode{})
	defines := slices.IndexFunc(ts, func(t token.Token) bool { return t.Is("table", "index") })
	if defines < 1 || defines > 2 { // CREATE TEMPORARY TABLE, CREATE FULLTEXT INDEX, ALTER TABLE
		return q
	}
	var b strings.Builder
	at := 0
	for i := 0; i+2 < len(ts); i++ {
		if name := ts[i+2]; ts[i].Is("with") && ts[i+1].Is("parser") && name.Named() {
			b.WriteString(q[at:ts[i].From])
			b.WriteString(parserAttribute + " '" + withParserMark + strings.ReplaceAll(name.Text, "'", "''") + "'")
			at = name.To
		}
	}
	return b.String() + q[at:]
}

// definedIndex has the options of an index that a statement defines.
type definedIndex struct {
	options  *[]*sqlparser.IndexOption
	fulltext bool
}

func indexesOf(stmt sqlparser.Statement) (out []definedIndex) {
	var ddls []*sqlparser.DDL
	switch s := stmt.(type) {
	case *sqlparser.DDL:
		ddls = append(ddls, s)
	case *sqlparser.AlterTable:
		ddls = s.Statements
	}
	for _, d := range ddls {
		if x := d.IndexSpec; x != nil {
			out = append(out, definedIndex{&x.Options, x.Type == sqlparser.FulltextStr})
		}
		if d.TableSpec != nil {
			for _, x := range d.TableSpec.Indexes {
				out = append(out, definedIndex{&x.Options, x.Info.Fulltext})
			}
		}
	}
	return out
}

// parserOf is the parser that an option names, if it is WITH PARSER.
func parserOf(o *sqlparser.IndexOption) (name string, ok bool) {
	if o.Value == nil || !strings.EqualFold(o.Name, parserAttribute) {
		return "", false
	}
	return strings.CutPrefix(string(o.Value.Val), withParserMark)
}

// RefusedParser is the error for an index WITH PARSER that there is not (1128), or that is no
// full-text index (1064); nil for all others.
func RefusedParser(stmt sqlparser.Statement) error {
	for _, x := range indexesOf(stmt) {
		for _, o := range *x.options {
			name, ok := parserOf(o)
			if !ok {
				continue
			}
			if _, known := fulltext.ParserNamed(name); !known || name == "" {
				return mysql.NewSQLError(1128, "HY000", "Function '%s' is not defined", name)
			}
			if !x.fulltext {
				return mysql.NewSQLError(1064, "42000", "You have an error in your SQL syntax: only a FULLTEXT index has WITH PARSER")
			}
		}
	}
	return nil
}

// indexParsers puts the parsers of full-text indexes into their comments.
func indexParsers(stmt sqlparser.Statement) {
	for _, x := range indexesOf(stmt) {
		if !x.fulltext {
			continue
		}
		var parser, comment string
		*x.options = slices.DeleteFunc(slices.Clone(*x.options), func(o *sqlparser.IndexOption) bool {
			name, ok := parserOf(o)
			switch {
			case ok:
				parser = strings.ToLower(name)
				return true
			case strings.EqualFold(o.Name, "COMMENT") && o.Value != nil:
				comment = string(o.Value.Val)
				return true
			}
			return false
		})
		if both := schema.JoinParser(parser, comment); both != "" {
			*x.options = append(*x.options, &sqlparser.IndexOption{Name: "COMMENT", Value: sqlparser.NewStrVal([]byte(both))})
		}
	}
}
