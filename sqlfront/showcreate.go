package sqlfront

import (
	"io"
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// A table's locality is part of its definition, in CockroachDB's words:
//
//	CREATE TABLE t (...) LOCALITY GLOBAL
//
// SHOW CREATE TABLE writes it as a comment for a version that no MySQL or MariaDB has, so that a dump
// keeps it (clients send such comments on) and other servers can read the dump, too:
//
//	CREATE TABLE t (...) ENGINE=InnoDB ... /*!99999 LOCALITY GLOBAL */
const (
	localityForms    = `LOCALITY\s+(?:GLOBAL|REGIONAL\s+BY\s+ROW|REGIONAL\s+BY\s+TABLE(?:\s+IN\s+(?:PRIMARY\s+REGION|'[^']*'|"[^"]*"|[\w.-]+))?)`
	replicationForms = `REPLICATION\s+(?:SYNC|ASYNC)`
	placementForms   = `(?:` + localityForms + `(?:\s+` + replicationForms + `)?|` + replicationForms + `)`
	localityMark     = "/*!99999 "
	// localityOption carries the clause through the grammar, which lacks it, to the plan.
	localityOption = "SECONDARY_ENGINE_ATTRIBUTE"
)

var (
	reCreateTable  = regexp.MustCompile(`(?is)^\s*CREATE\s+TABLE\b`)
	reMarkedClause = regexp.MustCompile(`(?is)/\*!99999\s+(` + placementForms + `)\s*\*/`)
	rePlainClause  = regexp.MustCompile(`(?is)\b(` + placementForms + `)\s*;?\s*$`)
	rePlaced       = regexp.MustCompile(`(?is)^` + placementForms + `$`)
	reCreateDB     = regexp.MustCompile(`(?is)^(\s*CREATE\s+(?:DATABASE|SCHEMA)\b.*?)(/\*!99999\s+(` + replicationForms + `)\s*\*/|\b(` + replicationForms + `))\s*;?\s*$`)
	rePlacement    = regexp.MustCompile(`(?is)^(?:LOCALITY\s+(.+?))?\s*(?:REPLICATION\s+(\w+))?$`)
)

// rewriteCreate turns the locality clause of a CREATE TABLE into a table option.
func rewriteCreate(q string) string {
	if m := reCreateDB.FindStringSubmatch(q); m != nil {
		return m[1] // createsAsync reads the clause
	}
	if !reCreateTable.MatchString(q) {
		return q
	}
	re := rePlainClause
	if strings.Contains(q, localityMark) {
		re = reMarkedClause
	}
	m := re.FindStringSubmatchIndex(q)
	if m == nil {
		return q
	}
	end := m[1]
	if re == rePlainClause {
		end = m[3]
	}
	clause := strings.ReplaceAll(q[m[2]:m[3]], `"`, "'")
	return q[:m[0]] + localityOption + ` = "` + clause + `"` + q[end:]
}

// createsAsync reports whether a CREATE DATABASE says that tables are to be asynchronous.
func createsAsync(q string) bool {
	m := reCreateDB.FindStringSubmatch(q)
	return m != nil && strings.HasSuffix(strings.ToUpper(m[3]+m[4]), "ASYNC")
}

// showCreateDatabase completes SHOW CREATE DATABASE by what new tables are.
func (b *builder) showCreateDatabase(ctx *sql.Context, s *Session, n *plan.ShowCreateDatabase, row sql.Row) (sql.RowIter, error) {
	if s.explained == n {
		return nil, nil
	}
	db, err := (&provider{b.g}).find(ctx, n.Database().Name())
	if err != nil || db == nil || !db.desc.Async {
		return nil, err
	}
	s.explained = n
	it, err := b.base.ExecBuilder.Build(ctx, n, row)
	if err != nil {
		return nil, err
	}
	return &clauseIter{it, " " + localityMark + "REPLICATION ASYNC */"}, nil
}

// createTable keeps for [sqlDatabase.CreateTable] what the engine does not pass on to it.
func (b *builder) createTable(s *Session, n *plan.CreateTable) error {
	s.create = tableOptions{}
	if c, ok := n.TableOpts["comment"].(string); ok {
		s.create.comment = c
	}
	text, _ := n.TableOpts[strings.ToLower(localityOption)].(string)
	if rePlaced.MatchString(text) {
		m := rePlacement.FindStringSubmatch(text)
		s.create.replication = strings.ToUpper(m[2])
		if m[1] != "" {
			l, bad := b.g.parseLocality(m[1])
			if bad != "" {
				return invalid(bad)
			}
			s.create.locality = l
		}
		s.create.locality.Async = s.create.replication == "ASYNC"
	}
	return s.create.locality.check()
}

// tableOptions are those of the table that the statement creates.
type tableOptions struct {
	comment  string
	locality locality
	// replication is what the statement says of it: SYNC, ASYNC or nothing.
	replication string
}

// showCreate completes SHOW CREATE TABLE by the locality, unless it is the
// usual one, and shows ENUM and SET defaults as text, not as numbers.
func (b *builder) showCreate(ctx *sql.Context, s *Session, n *plan.ShowCreateTable, row sql.Row) (sql.RowIter, error) {
	rt, ok := n.Child.(*plan.ResolvedTable)
	if !ok || s.explained == n {
		return nil, nil
	}
	t := tableOf(rt.Table)
	if t == nil {
		return nil, nil
	}
	sch := n.TargetSchema().Copy()
	for _, c := range sch {
		if err := textDefault(ctx, c); err != nil {
			return nil, err
		}
	}
	shown, err := n.WithTargetSchema(sch)
	if err != nil {
		return nil, err
	}
	s.explained = shown
	it, err := b.base.ExecBuilder.Build(ctx, shown, row)
	l := t.t.desc.Locality
	var clause []string
	if l.Kind != byRow {
		clause = append(clause, "LOCALITY "+b.g.localityText(l))
	}
	if l.Async {
		clause = append(clause, "REPLICATION ASYNC")
	}
	if err != nil || clause == nil {
		return it, err
	}
	return &clauseIter{it, " " + localityMark + strings.Join(clause, " ") + " */"}, nil
}

// textDefault makes the literal default of an ENUM or SET column a string.
func textDefault(ctx *sql.Context, c *sql.Column) error {
	d := c.Default
	if d == nil || !d.IsLiteral() || !types.IsEnum(c.Type) && !types.IsSet(c.Type) {
		return nil
	}
	v, err := d.Eval(ctx, nil)
	if err != nil || v == nil {
		return err
	}
	var text string
	switch typ := c.Type.(type) {
	case sql.EnumType:
		i, _, err := typ.Convert(ctx, v)
		if err != nil {
			return err
		}
		text, _ = typ.At(int(i.(uint16)))
	case sql.SetType:
		i, _, err := typ.Convert(ctx, v)
		if err != nil {
			return err
		}
		if text, err = typ.BitsToString(i.(uint64)); err != nil {
			return err
		}
	}
	c.Default, err = sql.NewColumnDefaultValue(expression.NewLiteral(text, types.LongText), types.LongText, true, false, true)
	return err
}

// clauseIter appends to the statement in the second column.
type clauseIter struct {
	sql.RowIter
	clause string
}

// Next implements sql.RowIter.
func (i *clauseIter) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := i.RowIter.Next(ctx)
	if err != nil || len(row) < 2 {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	row = row.Copy()
	if text, ok := row[1].(string); ok {
		row[1] = text + i.clause
	}
	return row, nil
}
