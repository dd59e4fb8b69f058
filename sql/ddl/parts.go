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

// partsOf makes of a PLACEMENT BY what the definition of a table says. Its placements are not
// dropped until the transaction ends.
func (g *Env) partsOf(ctx context.Context, k kv.Txn, d *schema.TableDesc, text string) (*schema.PartsDesc, error) {
	r, err := placing.ParseRule(text)
	if err != nil {
		return nil, err
	}
	if t := g.DB.Topology(); !t.Allows(base.VersionRowPlaced) {
		return nil, t.NotYet("PLACEMENT BY", base.VersionRowPlaced)
	}
	if len(r.Cols) != 1 {
		return nil, schema.Invalid(fmt.Sprintf("PLACEMENT BY takes one column, and here are %d: a generated column, STORED and part of "+
			"the primary key, can be made of several", len(r.Cols)))
	}
	at := d.ColByName(r.Cols[0])
	if at < 0 {
		return nil, schema.Invalid("PLACEMENT BY: table " + d.Name + " has no column " + r.Cols[0])
	}
	out := &schema.PartsDesc{Col: d.Cols[at].ID}
	for _, e := range r.Entries {
		placed, err := g.placedIn(ctx, k, e.Placement)
		if err == nil {
			placed, err = placing.At(g.DB.Topology(), placed, e.Placement, e.At)
		}
		if err != nil {
			return nil, err
		}
		out.List = append(out.List, schema.PartDesc{Values: e.Values, Default: e.Rest, Placed: placed})
	}
	return out, nil
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
