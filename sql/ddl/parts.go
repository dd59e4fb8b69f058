package ddl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/ddl/placing"
	"github.com/godwitdb/godwit/sql/schema"
)

// Placements of single rows:
//
//	CREATE TABLE t (...) PLACEMENT BY (country) (('DE', 'FR') IN eu, ('US') IN us, DEFAULT IN world)
//
// Of a placement in which not all regions vote, AT 'region' says whose copy set the rows have.

const (
	literalForms = `'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"`
	nestedForms  = `\((?:[^()'"]|` + literalForms + `)*\)`
	partsForms   = `PLACEMENT\s+BY\s*` + nestedForms + `\s*\((?:[^()'"]|` + literalForms + `|` + nestedForms + `)*\)`
)

// rule is a PLACEMENT BY as it is written.
type rule struct {
	cols    []string
	entries []ruleEntry
}

// ruleEntry are values, or DEFAULT, and the name of a placement.
type ruleEntry struct {
	values    []string
	rest      bool
	placement string
	at        string // the region whose copy set it is; empty: it is not said
}

// parseRule reads a PLACEMENT BY.
func parseRule(text string) (*rule, error) {
	p := &ruleParser{rest: text}
	r := &rule{}
	if !p.word("PLACEMENT") || !p.word("BY") {
		return nil, p.bad("PLACEMENT BY")
	}
	err := p.list(func() error {
		name, ok := p.name()
		if !ok {
			return p.bad("the name of a column")
		}
		r.cols = append(r.cols, name)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = p.list(func() (err error) {
		var e ruleEntry
		if e.rest = p.word("DEFAULT"); !e.rest {
			if err := p.list(func() error { return p.value(&e) }); err != nil {
				return err
			}
		}
		if !p.word("IN") {
			return p.bad("IN and the name of a placement")
		}
		var ok bool
		if e.placement, ok = p.name(); !ok {
			return p.bad("the name of a placement, or NONE")
		}
		if p.word("AT") {
			if e.at, ok = p.region(); !ok {
				return p.bad("the name of a region in quotes")
			}
		}
		r.entries = append(r.entries, e)
		return nil
	})
	if err == nil && strings.TrimSpace(p.rest) != "" {
		err = p.bad("the end")
	}
	return r, err
}

type ruleParser struct{ rest string }

func (p *ruleParser) bad(want string) error {
	at := strings.TrimSpace(p.rest)
	return schema.Invalid("PLACEMENT BY (column) ((value, ...) IN placement, ..., DEFAULT IN placement): " + want +
		" is missing before '" + at[:min(len(at), 40)] + "'")
}

func (p *ruleParser) take(s string) bool {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	if !strings.HasPrefix(p.rest, s) {
		return false
	}
	p.rest = p.rest[len(s):]
	return true
}

// list reads what is in parentheses and divided by commas.
func (p *ruleParser) list(item func() error) error {
	if !p.take("(") {
		return p.bad("(")
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if p.take(")") {
			return nil
		}
		if !p.take(",") {
			return p.bad(") or ,")
		}
	}
}

// word takes a keyword.
func (p *ruleParser) word(w string) bool {
	p.take("")
	if len(p.rest) < len(w) || !strings.EqualFold(p.rest[:len(w)], w) || len(p.rest) > len(w) && wordByte(p.rest[len(w)]) {
		return false
	}
	p.rest = p.rest[len(w):]
	return true
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// name takes a name, in back quotes or bare.
func (p *ruleParser) name() (string, bool) {
	if p.take("`") {
		name, rest, ok := strings.Cut(p.rest, "`")
		p.rest = rest
		return name, ok && name != ""
	}
	n := 0
	for n < len(p.rest) && wordByte(p.rest[n]) {
		n++
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	return name, n > 0
}

// region takes the name of a region, in quotes.
func (p *ruleParser) region() (string, bool) {
	p.take("")
	if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		return "", false
	}
	text, rest, ok := takeLiteral(p.rest)
	p.rest = rest
	return text, ok && text != ""
}

// value takes a literal.
func (p *ruleParser) value(e *ruleEntry) error {
	if p.word("NULL") {
		return schema.Invalid("PLACEMENT BY cannot name NULL: the column is part of the primary key, and so never NULL")
	}
	p.take("")
	if p.rest != "" && (p.rest[0] == '\'' || p.rest[0] == '"') {
		text, rest, ok := takeLiteral(p.rest)
		if !ok {
			return p.bad("the end of a text")
		}
		if strings.Contains(text, "*/") {
			return schema.Invalid("PLACEMENT BY cannot name a text with */ in it: SHOW CREATE TABLE has the clause in a comment")
		}
		e.values, p.rest = append(e.values, text), rest
		return nil
	}
	n := 0
	for n < len(p.rest) && (p.rest[n] >= '0' && p.rest[n] <= '9' || n == 0 && p.rest[n] == '-') {
		n++
	}
	if n == 0 || n < len(p.rest) && (wordByte(p.rest[n]) || p.rest[n] == '.') {
		return p.bad("a value (an integer, or a text or time in quotes)")
	}
	e.values, p.rest = append(e.values, p.rest[:n]), p.rest[n:]
	return nil
}

// takeLiteral takes a text in quotes.
func takeLiteral(s string) (text, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c != s[0]:
			b.WriteByte(c)
		case i+1 < len(s) && s[i+1] == c:
			i++
			b.WriteByte(c)
		default:
			return b.String(), s[i+1:], true
		}
	}
	return "", "", false
}

// partsOf makes of a PLACEMENT BY what the definition of a table says. Its placements are not
// dropped until the transaction ends.
func (g *Env) partsOf(ctx context.Context, k kv.Txn, d *schema.TableDesc, text string) (*schema.PartsDesc, error) {
	r, err := parseRule(text)
	if err != nil {
		return nil, err
	}
	if t := g.DB.Topology(); !t.Allows(base.VersionRowPlaced) {
		return nil, t.NotYet("PLACEMENT BY", base.VersionRowPlaced)
	}
	if len(r.cols) != 1 {
		return nil, schema.Invalid(fmt.Sprintf("PLACEMENT BY takes one column, and here are %d: a generated column, STORED and part of "+
			"the primary key, can be made of several", len(r.cols)))
	}
	at := d.ColByName(r.cols[0])
	if at < 0 {
		return nil, schema.Invalid("PLACEMENT BY: table " + d.Name + " has no column " + r.cols[0])
	}
	out := &schema.PartsDesc{Col: d.Cols[at].ID}
	for _, e := range r.entries {
		placed, err := g.placedIn(ctx, k, e.placement)
		if err == nil {
			placed, err = placing.At(g.DB.Topology(), placed, e.placement, e.at)
		}
		if err != nil {
			return nil, err
		}
		out.List = append(out.List, schema.PartDesc{Values: e.values, Default: e.rest, Placed: placed})
	}
	return out, nil
}

// partsClause is a PLACEMENT BY in the syntax that sets it.
func (g *Env) partsClause(t *schema.Table) string {
	var entries []string
	col := t.Cols[t.PartCol()]
	for _, e := range t.Desc.Locality.Parts.List {
		what := "DEFAULT"
		if !e.Default {
			var values []string
			for _, v := range e.Values {
				values = append(values, col.PartText(v))
			}
			what = "(" + strings.Join(values, ", ") + ")"
		}
		name := nowhere
		if p := g.DB.Topology().Placement(e.Placed.ID); p != nil {
			name = "`" + p.Name + "`"
			if p.Set != nil {
				name += " AT '" + g.DB.Topology().RegionName(p.Regions[0]) + "'"
			}
		}
		entries = append(entries, what+" IN "+name)
	}
	return "PLACEMENT BY (`" + col.Desc.Name + "`) (" + strings.Join(entries, ", ") + ")"
}

// liesIn reports whether rows of a table lie in a placement.
func (g *Env) liesIn(l schema.Locality, id base.PlacementID) bool {
	t := g.DB.Topology()
	return slices.ContainsFunc(l.Places(), func(p base.Placed) bool { return p.ID != 0 && t.NumberOf(p.ID) == id })
}

// unreferenced refuses foreign keys from and to tables whose rows have placements of their own.
func (m *mutation) unreferenced(d *schema.TableDesc) error {
	refused := func(fk *sql.ForeignKeyConstraint, name string) error {
		return schema.Invalid("foreign key " + fk.Name + " leads from table " + fk.Table + " to table " + fk.ParentTable +
			", and the rows of table " + name + " have placements of their own (PLACEMENT BY): values of one placement would lie " +
			"in another. Drop the key, and check what it says in the transactions that write")
	}
	for i := range d.FKs {
		fk := &d.FKs[i]
		if d.Locality.Parts != nil {
			return refused(fk, d.Name)
		}
		if p := m.snap().Table(fk.ParentDatabase, fk.ParentTable); p != nil && p.Desc.Locality.Parts != nil {
			return refused(fk, p.Desc.Name)
		}
	}
	if db := m.snap().Database(d.DB); db != nil && d.Locality.Parts != nil {
		for _, fk := range db.ReferencedBy[strings.ToLower(d.Name)] {
			return refused(&fk, d.Name)
		}
	}
	return nil
}

// reachable refuses a table id whose region owns the first gaps of a table that may not lie there:
// nobody could ever write into them.
func reachable(d *schema.TableDesc) error {
	if d.Locality.Placed.Allows(d.ID.Region()) {
		return nil
	}
	return base.Errorf(base.CodeCorrupt, "the id %d of table %s says that region %d owns its first gaps, which is not in its "+
		"placement: nobody could write there", d.ID, d.Name, d.ID.Region())
}
