package backup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/sanity"
	"github.com/godwitdb/godwit/sql/ddl/placing"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
)

// plan is what a restore will make, by the definitions of the newest backup of a chain.
type plan struct {
	*work // nil until there is a job
	g     *Env
	o     *order
	user  string
	srcs  []*source // the main place, and those of regions
	far   *progress
	// replaced is the table whose place the restored one takes; nil: there is none.
	replaced *schema.Table
	base     *volume // the last of the main place's chain
	v        *volume // what there was at the moment: base, as the log has changed it

	dbs     []*schema.DatabaseDesc
	tables  []*planned
	objects []object
	users   []byte
	notes   []string
	rows    int64
}

// planned is a table to be made.
type planned struct {
	was  *schema.TableDesc // as it was backed up
	old  *schema.Table     // was, ready for use
	from *archive.Table
	desc *schema.TableDesc // as it will be; its id is taken later
	def  *schema.Table     // desc, ready for use
	// split is how many shards of its own the table will have; 0: none.
	split int
}

// note tells the user something once.
func (p *plan) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(p.notes, n) {
		p.notes = append(p.notes, n)
	}
}

// plan chooses what is restored, under which names.
func (g *Env) plan(o *order, srcs []*source, user string) (*plan, error) {
	p := &plan{g: g, o: o, user: user, srcs: srcs, v: srcs[0].top()}
	for _, s := range srcs {
		for _, v := range s.chain {
			if err := v.index(); err != nil {
				return nil, s.l.in(err)
			}
		}
	}
	p.base = p.v
	if log := srcs[0].log; len(log) > 0 {
		var err error
		if p.v, err = p.v.asOf(log, o.Moment, len(srcs) == 1); err != nil {
			return nil, err
		}
	}
	if err := p.checkHomes(); err != nil {
		return nil, err
	}
	dbs, objects, err := p.v.contents()
	if err != nil {
		return nil, err
	}
	w := &wanted{o: o, dbs: map[string]bool{}, tables: map[string]bool{}}
	if err := w.fill(p.v, dbs); err != nil {
		return nil, err
	}
	if len(o.Tables) == 0 {
		for _, d := range dbs {
			if w.database(d.Name) {
				d.Name, d.V = p.database(d.Name), schema.DescVersion
				p.dbs = append(p.dbs, d)
			}
		}
	}
	if err := p.chooseTables(w); err != nil {
		return nil, err
	}
	if w.cluster {
		p.users = p.v.Users
	}
	if err := p.foreignKeys(); err != nil {
		return nil, err
	}
	if o.Verb == verbFlashback && (o.Replaces != 0 || o.As != nil) { // triggers stay with their table
		return p, nil
	}
	return p, p.chooseObjects(w, objects)
}

// wanted is what the statement names.
type wanted struct {
	o       *order
	cluster bool
	dbs     map[string]bool // by lower name
	tables  map[string]bool // db.table, by lower name
}

func (w *wanted) fill(v *volume, dbs []*schema.DatabaseDesc) error {
	have := func(db string) bool {
		return slices.ContainsFunc(dbs, func(d *schema.DatabaseDesc) bool { return schema.SameName(d.Name, db) })
	}
	for _, db := range w.o.Databases {
		if !have(db) {
			return schema.Invalid("database " + db + " is not in the backup, which is of " + v.Target)
		}
		if strings.HasPrefix(v.Target, "TABLE ") {
			return schema.Invalid("the backup is of " + v.Target + ", not of the whole database: RESTORE TABLE restores from it")
		}
		w.dbs[strings.ToLower(db)] = true
	}
	for _, t := range w.o.Tables {
		w.tables[strings.ToLower(t.String())] = true
	}
	if len(w.o.Databases)+len(w.o.Tables) > 0 {
		return nil
	}
	if !v.Whole {
		return schema.Invalid("the backup is of " + v.Target + ", not of a whole cluster: name databases or tables of it")
	}
	w.cluster = true
	return nil
}

func (w *wanted) database(name string) bool { return w.cluster || w.dbs[strings.ToLower(name)] }

// database is what a database is called here.
func (p *plan) database(name string) string {
	if p.o.As != nil && p.o.As.Table == "" && len(p.o.Databases) == 1 && schema.SameName(name, p.o.Databases[0]) {
		return p.o.As.DB
	}
	return name
}

// table is what a table is called here.
func (p *plan) table(n name) name {
	if p.o.As != nil && p.o.As.Table != "" && schema.SameName(n.DB, p.o.Tables[0].DB) &&
		schema.SameName(n.Table, p.o.Tables[0].Table) {
		return *p.o.As
	}
	return name{p.database(n.DB), n.Table}
}

// chooseTables makes the definitions of all tables that are wanted.
func (p *plan) chooseTables(w *wanted) error {
	found := map[string]bool{}
	var all []*planned
	for i := range p.v.Tables {
		def, d, err := p.v.table(&p.v.Tables[i])
		if err != nil {
			return err
		}
		all = append(all, &planned{was: d, old: def, from: &p.v.Tables[i]})
	}
	for _, t := range all { // what the engine keeps full-text indexes with
		n := strings.ToLower(t.was.DB + "." + t.was.Name)
		if !w.tables[n] {
			continue
		}
		found[n] = true
		for _, x := range sanity.FulltextTables(t.was) {
			if p.o.As != nil {
				return schema.Invalid("table " + t.was.Name + " has a full-text index: it can be restored under its own name only")
			}
			w.tables[strings.ToLower(t.was.DB+"."+x)] = true
		}
	}
	for _, t := range p.o.Tables {
		if !found[strings.ToLower(t.String())] {
			return schema.Invalid("table " + t.String() + " is not in the backup, which is of " + p.v.Target)
		}
	}
	for _, t := range all {
		if !w.database(t.was.DB) && !w.tables[strings.ToLower(t.was.DB+"."+t.was.Name)] {
			continue
		}
		if err := p.define(t); err != nil {
			return err
		}
		p.tables = append(p.tables, t)
		p.rows += t.from.Rows
		for _, s := range p.srcs[1:] {
			if at := s.top().byID[t.was.ID]; at != nil {
				p.rows += at.Rows
			}
		}
	}
	return nil
}

// define makes the definition of a table as it will be here.
func (p *plan) define(t *planned) (err error) {
	d := t.was.Clone()
	n := p.table(name{t.was.DB, t.was.Name})
	d.DB, d.Name = n.DB, n.Table
	d.AutoEpoch = 0
	if d.Locality.Kind == schema.ByTable {
		d.Locality.Region = p.region(d.Locality.Region)
	}
	if d.Locality, err = p.located(t.was, d.Locality); err != nil {
		return err
	}
	// Those that it had are another cluster's, or other tables have them by now.
	t.split = d.Locality.Split
	if topo := p.g.DB.Topology(); t.split != 0 && (p.g.Nodes == nil || !topo.Allows(base.VersionOwnShards)) {
		p.note("table %s.%s had %d shards of its own, and shares shards here: ALTER TABLE ... SPLIT INTO %d SHARDS needs cluster "+
			"version %d", d.DB, d.Name, t.split, t.split, base.VersionOwnShards)
		t.split = 0
	}
	if d.Locality, err = d.Locality.WithOwn(0, nil); err != nil {
		return err
	}
	d.Shards = p.g.DB.Topology().Shards
	d.V = d.Format()
	t.desc = d
	return err
}

// behind reports whether the moment lies behind the backup, so that the log of changes is applied.
func (p *plan) behind() bool { return len(p.srcs[0].log) > 0 }

// located is where the rows of a table may lie here: in placements of the same regions.
func (p *plan) located(was *schema.TableDesc, l schema.Locality) (_ schema.Locality, err error) {
	if l.Parts == nil {
		spread := l.Sets != nil
		l.Sets = nil
		if l.Placed, err = p.placed(was, l.Placed, spread); err == nil && spread {
			placing.Settle(p.g.DB.Topology(), &l)
		}
		return l, err
	}
	parts := *l.Parts
	parts.List = slices.Clone(parts.List)
	for i := range parts.List {
		if parts.List[i].Placed, err = p.placed(was, parts.List[i].Placed, false); err != nil {
			return l, err
		}
	}
	l.Parts = &parts
	return l, nil
}

// placed is the placement here that is most like one; spread: like all of its copy sets together.
func (p *plan) placed(was *schema.TableDesc, old base.Placed, spread bool) (best base.Placed, err error) {
	if old.ID == 0 {
		return old, nil
	}
	topo := p.g.DB.Topology()
	var names []string
	var regions base.RegionSet
	for id := base.RegionID(1); id <= base.MaxRegions; id++ {
		if old.Regions.Has(id) {
			names = append(names, p.v.Regions[id])
			regions |= base.RegionsOf(p.here(id))
		}
	}
	first, most := p.here(old.First), -1
	for i := range topo.Placements {
		pl := &topo.Placements[i]
		if pl.Dropped || pl.Opening || spread && pl.Set == nil {
			continue
		}
		here := pl.Placed()
		if spread {
			here = pl.Whole()
		}
		if here.Regions != regions {
			continue
		}
		like := 0
		if here.First == first {
			like++
		}
		if (pl.Set != nil) == (spread || old.Homes != 0) {
			like += 2
		}
		if like > most {
			best, most = here, like
		}
	}
	if most < 0 {
		return best, schema.Invalid("table " + was.DB + "." + was.Name + " had a placement of regions " + strings.Join(names, ", ") +
			", and here is none: CREATE PLACEMENT of them first")
	}
	return best, nil
}

// region is what a region of the backup becomes here, or else the gateway's.
func (p *plan) region(was base.RegionID) base.RegionID {
	if was == 0 {
		return 0
	}
	if here := p.here(was); here != 0 {
		return here
	}
	p.note("rows of region %q, which does not exist here, are at home in %s", p.v.Regions[was], p.g.DB.Topology().RegionName(kv.HomeRegion(p.g.DB)))
	return kv.HomeRegion(p.g.DB)
}

// find is a table that will be made.
func (p *plan) find(db, table string) *planned {
	for _, t := range p.tables {
		if schema.SameName(t.desc.DB, db) && schema.SameName(t.desc.Name, table) {
			return t
		}
	}
	return nil
}

// foreignKeys gives the keys of all tables their new names. A key whose parent is not restored as
// well would not hold: nobody looks at the rows.
func (p *plan) foreignKeys() error {
	for _, t := range p.tables {
		var keys []sql.ForeignKeyConstraint
		for _, fk := range t.desc.FKs {
			self := schema.SameName(fk.ParentTable, t.was.Name) && schema.SameName(fk.ParentDatabase, t.was.DB)
			parent := p.table(name{fk.ParentDatabase, fk.ParentTable})
			if self {
				parent = name{t.desc.DB, t.desc.Name}
			}
			fk.Database, fk.Table, fk.ParentDatabase, fk.ParentTable = t.desc.DB, t.desc.Name, parent.DB, parent.Table
			switch {
			case p.find(parent.DB, parent.Table) != nil, !fk.IsResolved && p.o.Tables == nil:
				keys = append(keys, fk)
			case p.o.SkipForeignKeys:
				p.note("foreign key %s of table %s is left out: table %s is not restored", fk.Name, t.desc.Name, parent)
			default:
				return schema.Invalid(fmt.Sprintf("foreign key %s of table %s leads to table %s, which is not restored: restore that, "+
					"too, or leave out such keys, WITH SKIP_MISSING_FOREIGN_KEYS", fk.Name, t.desc.Name, parent))
			}
		}
		t.desc.FKs = keys
	}
	return nil
}

// referenced refuses tables that foreign keys of others wait for: their rows were never compared.
func (p *plan) referenced(snap *schema.Snapshot) error {
	for _, db := range snap.Databases {
		for _, o := range db.Tables {
			for _, fk := range o.Desc.FKs {
				if p.find(fk.ParentDatabase, fk.ParentTable) != nil {
					return schema.Invalid(fmt.Sprintf("foreign key %s of table %s.%s leads to table %s.%s: drop it, and add it again "+
						"after the restore", fk.Name, o.Desc.DB, o.Desc.Name, fk.ParentDatabase, fk.ParentTable))
				}
			}
		}
	}
	return nil
}

// chooseObjects chooses views, triggers, procedures, functions and events.
func (p *plan) chooseObjects(w *wanted, all []object) error {
	for _, o := range all {
		on := ""
		if o.Trigger != nil {
			on = schema.TriggerTable(o.Trigger.CreateStatement)
		}
		one := w.tables[strings.ToLower(o.DB+"."+on)]
		if !w.database(o.DB) && (on == "" || !one) {
			continue
		}
		d := *o.ObjectDesc
		if p.o.As != nil {
			if one && p.o.As.Table != "" {
				return schema.Invalid("trigger " + o.Name + " of table " + on + " names the table: restore it under its own name, and " +
					"rename it then")
			}
			if sanity.NamesDatabase(&d, o.DB) {
				return schema.Invalid("the text of " + o.Name + " names database " + o.DB + ": restore that under its own name")
			}
			d.DB = p.database(o.DB)
		}
		d.V = d.Format()
		// Nobody can judge here what a trigger without a definer was allowed to do.
		if (d.Trigger != nil && d.Definer == nil || d.Definer != nil && d.Definer.Name != p.user) && !p.o.AnyDefiner {
			return rights.ErrNeeds("SUPER", rights.SetUserID)
		}
		p.objects = append(p.objects, object{o.kind, &d})
	}
	return nil
}
