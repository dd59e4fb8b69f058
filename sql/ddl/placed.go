package ddl

import (
	"context"
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/ddl/placing"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/table"
)

// In which regions rows may lie:
//
//	CREATE PLACEMENT [IF NOT EXISTS] p REGIONS ('a', 'b', ...) [VOTERS n] [READ REPLICAS IN ('c', ...)]
//	  [SURVIVE {NODE | REGION | n REGIONS}]
//	SHOW CREATE PLACEMENT p
//	DROP PLACEMENT [IF EXISTS] p
//	SHOW PLACEMENTS
//	CREATE TABLE t (...) PLACEMENT p [LOCALITY REGIONAL ...]
//	ALTER TABLE t SET PLACEMENT {p | NONE | BY (column) (...)}
//	ALTER DATABASE d SET PLACEMENT {p | NONE}    (where new tables lie that do not say so)

const (
	nameRE   = "(`[^`]+`|[\\w$]+)"
	ofNameRE = "(?:" + nameRE + "\\s*\\.\\s*)?" + nameRE
	// nowhere is what SET PLACEMENT takes for no placement.
	nowhere = placing.Nowhere
)

var (
	rePlacements          = regexp.MustCompile(`(?is)^(?:CREATE|DROP|ALTER|SHOW\s+CREATE)\s+PLACEMENT\b|^SHOW\s+PLACEMENTS\b`)
	reShowCreatePlacement = regexp.MustCompile("(?is)^SHOW\\s+CREATE\\s+PLACEMENT\\s+" + nameRE + "$")
	reDropPlacement       = regexp.MustCompile("(?is)^DROP\\s+PLACEMENT\\s+(IF\\s+EXISTS\\s+)?" + nameRE + "$")
	reShowPlacement       = regexp.MustCompile(`(?is)^SHOW\s+PLACEMENTS$`)
	reTablePlaced         = regexp.MustCompile("(?is)^ALTER\\s+TABLE\\s+" + ofNameRE + "\\s+SET\\s+(" + partsForms + "|PLACEMENT\\s+(?:`[^`]+`|[\\w$]+))$")
	reDBPlaced            = regexp.MustCompile("(?is)^ALTER\\s+(?:DATABASE|SCHEMA)\\s+" + nameRE + "\\s+SET\\s+PLACEMENT\\s+" + nameRE + "$")
)

// PlacementStatement is a statement about placements, or ALTER CLUSTER.
type PlacementStatement struct {
	Name   string
	Auth   sqlparser.AuthInformation
	Schema sql.Schema
	Reads  bool
	run    func(ctx *sql.Context, g *Env) ([]sql.Row, error)
}

// Run executes the statement.
func (st *PlacementStatement) Run(ctx *sql.Context, g *Env) ([]sql.Row, error) { return st.run(ctx, g) }

// ParsePlacement parses a statement about placements, without what ends it; nil if it is none.
func ParsePlacement(q string) *PlacementStatement {
	super := sqlparser.AuthInformation{AuthType: sqlparser.AuthType_SUPER, TargetType: sqlparser.AuthTargetType_Global}
	does := func(name string, auth sqlparser.AuthInformation, do func(ctx *sql.Context, g *Env) error) *PlacementStatement {
		return &PlacementStatement{Name: name, Auth: auth, Schema: types.OkResultSchema,
			run: func(ctx *sql.Context, g *Env) ([]sql.Row, error) {
				if g.Nodes == nil {
					return nil, schema.Invalid("this server does not know its cluster: it has no placements")
				}
				return []sql.Row{{types.NewOkResult(0)}}, do(ctx, g)
			}}
	}
	if st := parseSplit(q); st != nil {
		return st
	}
	if m := reTablePlaced.FindStringSubmatch(q); m != nil {
		db, name, to := unquoted(m[1]), unquoted(m[2]), m[3]
		auth := sqlparser.AuthInformation{AuthType: sqlparser.AuthType_ALTER,
			TargetType: sqlparser.AuthTargetType_SingleTableIdentifier, TargetNames: []string{db, name}}
		return does("ALTER TABLE SET PLACEMENT", auth, func(ctx *sql.Context, g *Env) error {
			return g.setPlacement(ctx, db, name, to)
		})
	}
	if m := reDBPlaced.FindStringSubmatch(q); m != nil {
		db, to := unquoted(m[1]), m[2]
		auth := sqlparser.AuthInformation{AuthType: sqlparser.AuthType_ALTER,
			TargetType: sqlparser.AuthTargetType_DatabaseIdentifiers, TargetNames: []string{db}}
		return does("ALTER DATABASE SET PLACEMENT", auth, func(ctx *sql.Context, g *Env) error {
			return g.setDefaultPlacement(ctx, db, to)
		})
	}
	if !rePlacements.MatchString(q) {
		return parseCluster(q)
	}
	if create := placing.ParseCreate(q); create != nil {
		return does("CREATE PLACEMENT", super, func(ctx *sql.Context, g *Env) error {
			return g.createPlacement(ctx, create)
		})
	}
	if m := reDropPlacement.FindStringSubmatch(q); m != nil {
		return does("DROP PLACEMENT", super, func(ctx *sql.Context, g *Env) error {
			return g.dropPlacement(ctx, unquoted(m[2]), m[1] != "")
		})
	}
	if m := reShowCreatePlacement.FindStringSubmatch(q); m != nil {
		return &PlacementStatement{Name: "SHOW CREATE PLACEMENT", Reads: true, Schema: texts("Placement", "Create Placement"),
			Auth: sqlparser.AuthInformation{AuthType: sqlparser.AuthType_IGNORE},
			run: func(_ *sql.Context, g *Env) ([]sql.Row, error) {
				return placing.ShowCreate(g.DB.Topology(), unquoted(m[1]))
			}}
	}
	if reShowPlacement.MatchString(q) {
		return &PlacementStatement{Name: "SHOW PLACEMENTS", Reads: true, Schema: placementsSchema(),
			Auth: sqlparser.AuthInformation{AuthType: sqlparser.AuthType_IGNORE}, run: showPlacements}
	}
	return does("PLACEMENT", super, func(*sql.Context, *Env) error {
		return schema.Invalid("placements are made with CREATE PLACEMENT name REGIONS ('region', ...) [VOTERS n] " +
			"[READ REPLICAS IN ('region', ...)] [SURVIVE {NODE | REGION | n REGIONS}], never change, and are dropped with " +
			"DROP PLACEMENT name; to change one, make another, and ALTER TABLE ... SET PLACEMENT")
	})
}

func unquoted(s string) string { return strings.Trim(s, "`") }

func placementsSchema() sql.Schema {
	s := texts("placement", "regions", "tables", "state", "voters", "read_replicas", "survives")
	s[2].Type, s[4].Type = types.Int64, types.Int64
	return s
}

// texts are columns of texts.
func texts(names ...string) (s sql.Schema) {
	for _, n := range names {
		s = append(s, &sql.Column{Name: n, Type: types.LongText, Nullable: true})
	}
	return s
}

// showPlacements lists the placements, and how many tables lie in them that the user may know of.
func showPlacements(ctx *sql.Context, g *Env) (out []sql.Row, err error) {
	t := g.DB.Topology()
	tables := map[base.PlacementID]int64{}
	for _, d := range g.Catalog.Loaded().ByID {
		if d.Prev == nil && g.Sees(ctx, d.Desc.DB, d.Desc.Name) {
			in := map[base.PlacementID]bool{}
			for _, p := range d.Desc.Locality.Places() {
				in[t.NumberOf(p.ID)] = true
			}
			for id := range in {
				tables[id]++
			}
		}
	}
	for i := range t.Placements {
		p := &t.Placements[i]
		if p.Dropped || p.Number() != p.ID {
			continue
		}
		state := "ready"
		if p.Opening {
			state = "opening"
		}
		var readers []base.RegionID
		if p.Set != nil {
			readers = p.Set.Readers
		}
		voters, survives := t.Survives(p)
		out = append(out, sql.Row{p.Name, placing.Names(t, p.All(), ""), tables[p.ID], state, int64(voters), placing.Names(t, readers, ""),
			survives})
	}
	return out, nil
}

func (g *Env) createPlacement(ctx *sql.Context, c *placing.Create) error {
	spec, err := c.Spec()
	if err != nil {
		return err
	}
	if p := g.DB.Topology().PlacementByName(spec.Name); c.Lenient && p != nil && !p.Opening {
		ctx.Warn(1050, "placement %s exists", spec.Name)
		return nil
	}
	return schema.ClientError(g.Nodes.CreatePlacement(ctx, spec))
}

// dropPlacement takes away a placement in which no table lies. While it looks, no table is made
// there.
func (g *Env) dropPlacement(ctx *sql.Context, name string, lenient bool) error {
	if lenient && g.DB.Topology().PlacementByName(name) == nil {
		ctx.Warn(1051, "there is no placement %s", name)
		return nil
	}
	p := g.DB.Topology().PlacementByName(name)
	_, err := kv.Run(ctx, g.DB, kv.Options{}, func(k kv.Txn) error {
		if _, err := k.Get(ctx, []base.Key{placementKey(name)}, kv.LockExclusive); err != nil {
			return err
		}
		snap, err := g.Catalog.Fresh(ctx)
		if err != nil {
			return err
		}
		for _, d := range snap.Databases {
			if p != nil && d.Desc.Placement == p.ID {
				return base.Errorf(base.CodeInvalid, "database %[1]s makes its tables in placement %[2]s: ALTER DATABASE %[1]s "+
					"SET PLACEMENT NONE first", d.Desc.Name, name)
			}
		}
		for _, t := range snap.ByID {
			if p != nil && g.liesIn(t.Desc.Locality, p.ID) {
				return base.Errorf(base.CodeInvalid, "table %s.%s, or rows of it, lies in placement %s: drop it, or ALTER TABLE ... "+
					"SET PLACEMENT, first", t.Desc.DB, t.Desc.Name, name)
			}
		}
		return g.Nodes.DropPlacement(ctx, name)
	})
	return schema.ClientError(err)
}

// placementKey is what whoever makes a table in a placement, and whoever drops that, locks. There
// is never a row.
func placementKey(name string) base.Key { return schema.CatalogKey(schema.IxPlacement, name) }

// placedIn is the placement of a name, which is not dropped until the transaction ends; NONE is
// none.
func (g *Env) placedIn(ctx context.Context, k kv.Txn, name string) (base.Placed, error) {
	name = unquoted(name)
	if strings.EqualFold(name, nowhere) {
		return base.Placed{}, nil
	}
	if g.Nodes == nil {
		return base.Placed{}, schema.Invalid("this server does not know its cluster: it has no placements")
	}
	if _, err := k.Get(ctx, []base.Key{placementKey(name)}, kv.LockExclusive); err != nil {
		return base.Placed{}, err
	}
	return g.Nodes.PlacementNamed(ctx, name)
}

// keepPlaces sees to it that the placements of a locality are there until the transaction ends. Who
// moves a table has looked them up in an earlier one (PLACE-4).
func (g *Env) keepPlaces(ctx context.Context, k kv.Txn, l schema.Locality) error {
	for _, p := range l.Places() {
		if p.ID == 0 {
			continue
		}
		x := g.DB.Topology().Placement(p.ID)
		if x == nil {
			return base.Errorf(base.CodeInvalid, "this node does not know placement %d: try again", p.ID)
		}
		if now, err := g.placedIn(ctx, k, x.Name); err != nil {
			return err
		} else if now.ID != g.DB.Topology().NumberOf(p.ID) {
			return base.Errorf(base.CodeInvalid, "placement %s was dropped and made anew meanwhile: try again", x.Name)
		}
	}
	return nil
}

// placeNew says where a new table lies that asks for a placement, or whose database does.
func (d *database) placeNew(ctx *sql.Context, m *mutation, desc *schema.TableDesc, asked string) error {
	l := &desc.Locality
	if asked == "" {
		p := d.g.DB.Topology().Placement(m.snap().Database(d.name).Desc.Placement)
		if p == nil {
			return nil
		}
		asked = p.Name
	}
	kctx := m.s.KVContext(ctx)
	var err error
	if reParts.MatchString(asked) {
		l.Parts, err = d.g.partsOf(kctx, m.kv, desc, asked)
	} else {
		l.Placed, err = d.g.placedIn(kctx, m.kv, rePlaceName.ReplaceAllString(asked, ""))
	}
	if err != nil {
		return schema.ClientError(err)
	}
	placing.Settle(d.g.DB.Topology(), l)
	return l.Check()
}

// setPlacement changes in which regions a table may lie: its rows are written again in other
// shards.
func (g *Env) setPlacement(ctx *sql.Context, db, name, to string) error {
	t, err := g.Lookup(ctx, db, name)
	if err != nil {
		return err
	}
	var placed base.Placed
	var parts *schema.PartsDesc
	kind := "SET PLACEMENT BY"
	if _, err := kv.Run(ctx, g.DB, kv.Options{}, func(k kv.Txn) (err error) {
		if reParts.MatchString(to) {
			parts, err = g.partsOf(ctx, k, t.Def.Desc, to)
			return err
		}
		to := rePlaceName.ReplaceAllString(to, "")
		kind = "SET PLACEMENT " + unquoted(to)
		placed, err = g.placedIn(ctx, k, to)
		return err
	}); err != nil {
		return schema.ClientError(err)
	}
	return g.rewriteAs(ctx, db, name, kind, func(l schema.Locality) schema.Locality {
		l.Placed, l.Parts = placed, parts
		return l
	})
}

// setDefaultPlacement says where new tables of a database lie.
func (g *Env) setDefaultPlacement(ctx *sql.Context, name, to string) error {
	db, err := (&Provider{g}).Database(ctx, name)
	if err != nil {
		return err
	}
	own, ok := db.(*database)
	if !ok {
		return schema.Invalid("the tables of database " + name + " are not stored")
	}
	m, err := g.mutate(ctx)
	if err != nil {
		return err
	}
	if _, err := m.lock(ctx, schema.CatalogKey(schema.IxDatabase, own.name)); err != nil {
		return err
	}
	cur := m.snap().Database(own.name)
	if cur == nil {
		return sql.ErrDatabaseNotFound.New(name)
	}
	placed, err := g.placedIn(m.s.KVContext(ctx), m.kv, to)
	if err != nil {
		return schema.ClientError(err)
	}
	desc := *cur.Desc
	if placed.ID != 0 && desc.Async {
		return schema.Invalid("the tables of database " + name + " are REPLICATION ASYNC: ALTER DATABASE ... SET REPLICATION " +
			"SYNC first")
	}
	desc.Placement = placed.ID
	desc.V = desc.Format()
	if len(cur.Tables) > 0 {
		ctx.Warn(1105, "tables that %s has stay where they are: ALTER TABLE ... SET PLACEMENT moves one", cur.Desc.Name)
	}
	return own.describe(m, &desc)
}

// contained refuses what would carry values of a table out of its placement.
func (m *mutation) contained(d *schema.TableDesc) error {
	at := func(db, name string) (base.PlacementID, bool) {
		t := m.snap().Table(db, name)
		if t == nil {
			return 0, false
		}
		return m.g.DB.Topology().NumberOf(t.Desc.Locality.Placed.ID), true
	}
	mine := m.g.DB.Topology().NumberOf(d.Locality.Placed.ID)
	apart := func(fk *sql.ForeignKeyConstraint) error {
		return schema.Invalid("foreign key " + fk.Name + " leads from table " + fk.Table + " to table " + fk.ParentTable +
			", which lie in different placements: its values would lie in both. Give both tables one placement, or drop the key")
	}
	if err := m.unreferenced(d); err != nil {
		return err
	}
	for i := range d.FKs {
		fk := &d.FKs[i]
		if schema.SameName(fk.ParentTable, d.Name) && schema.SameName(fk.ParentDatabase, d.DB) {
			continue
		}
		if p, ok := at(fk.ParentDatabase, fk.ParentTable); ok && p != mine {
			return apart(fk)
		}
	}
	if db := m.snap().Database(d.DB); db != nil {
		for _, fk := range db.ReferencedBy[strings.ToLower(d.Name)] {
			if schema.SameName(fk.Table, d.Name) && schema.SameName(fk.Database, d.DB) {
				continue
			}
			if p, ok := at(fk.Database, fk.Table); ok && p != mine {
				return apart(&fk)
			}
		}
	}
	if err := d.Parted(); err != nil || d.Locality.Placed.ID == 0 {
		return err
	}
	for i := range d.Indexes {
		if d.Indexes[i].Fulltext != nil {
			return schema.Invalid("index " + d.Indexes[i].Name + " of table " + d.Name + " is a full-text index, whose words lie in " +
				"tables of their own: tables with a placement have none")
		}
	}
	return nil
}

// PlacementClause is what SHOW CREATE TABLE says of the placement of a table; nil: nothing.
func (g *Env) PlacementClause(t *table.Table) (clause []string) {
	if c := placing.Clause(g.DB.Topology(), t.Def, func(v string) string { return v }); c != "" {
		return []string{c}
	}
	return nil
}
