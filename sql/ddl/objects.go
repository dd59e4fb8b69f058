package ddl

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

var (
	_ sql.ViewDatabase            = (*database)(nil)
	_ sql.TriggerDatabase         = (*database)(nil)
	_ sql.StoredProcedureDatabase = (*database)(nil)
	_ sql.EventDatabase           = (*database)(nil)
)

// CreateView implements sql.ViewDatabase.
func (d *database) CreateView(ctx *sql.Context, name, selectStatement, createViewStmt string) error {
	if err := d.viewOverTemporary(ctx); err != nil {
		return err
	}
	v := &sql.ViewDefinition{
		Name: name, TextDefinition: selectStatement, CreateViewStatement: createViewStmt, SqlMode: sql.LoadSqlMode(ctx).String(),
	}
	if d.g.View != nil {
		if err := d.g.View(ctx, d.name, v); err != nil {
			return err
		}
	}
	return d.create(ctx, schema.IxView, &schema.ObjectDesc{DB: d.name, Name: name, Seq: schema.ObjectSeq(), View: v,
		Definer: session.DefinerOf(ctx)},
		func() error {
			return sql.ErrExistingView.New(d.name, name)
		})
}

// MissesView is why there is no view that ALTER VIEW, as a CREATE OR REPLACE VIEW, could change.
func (g *Env) MissesView(ctx context.Context, stmt sqlparser.Statement) error {
	d, ok := stmt.(*sqlparser.DDL)
	sc, is := ctx.(*sql.Context)
	if !ok || !is || d.ViewSpec == nil {
		return nil
	}
	db, name := d.ViewSpec.ViewName.DbQualifier.String(), d.ViewSpec.ViewName.Name.String()
	if db == "" {
		db = sc.GetCurrentDatabase()
	}
	found, err := NewProvider(g).Find(sc, db)
	if err == nil && (found == nil || found.Objects[schema.IxView][strings.ToLower(name)] == nil) {
		err = mysql.NewSQLError(1146, "42S02", "Table '%s.%s' doesn't exist", db, name)
	}
	return err
}

// DropView implements sql.ViewDatabase.
func (d *database) DropView(ctx *sql.Context, name string) error {
	return d.drop(ctx, schema.IxView, name, func() error {
		return unlessMissing(ctx, sql.ErrViewDoesNotExist.New(d.name, name), 1051, "Unknown table '%s.%s'", d.name, name)
	})
}

// mostViews is how many views go-mysql-server looks up for a statement at most. It does not notice
// views that are defined by each other. Each look-up is a step deeper on the stack, and a stack
// that overflows ends the process.
const mostViews = 20_000

func errViews(db, name string) error {
	return mysql.NewSQLError(1462, "HY000", "`%s`.`%s` contains view recursion, or the statement uses more than %d views", db,
		name, mostViews)
}

// GetViewDefinition implements sql.ViewDatabase.
func (d *database) GetViewDefinition(ctx *sql.Context, name string) (sql.ViewDefinition, bool, error) {
	o, err := d.view(ctx, name)
	if err != nil || o == nil {
		return sql.ViewDefinition{}, false, err
	}
	if err := d.viewHidden(ctx, o); err != nil {
		return sql.ViewDefinition{}, false, err
	}
	if s := session.Of(ctx); s != nil {
		if s.Stmt.Views++; s.Stmt.Views > mostViews {
			return sql.ViewDefinition{}, false, errViews(d.Name(), name)
		}
		s.Stmt.View, s.Stmt.ViewDB, s.Stmt.ViewDefiner = o.View.CreateViewStatement, d.Name(), o.Definer
	}
	def := *o.View
	def.TextDefinition = withCheckOption(def)
	return def, true, nil
}

// view is a view, nil if there is none. The engine asks for a view before it asks for a table: of a
// name that is neither here, the catalog of now is asked, as for a table. Another node may have
// made the view.
func (d *database) view(ctx *sql.Context, name string) (*schema.ObjectDesc, error) {
	db, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	lower := strings.ToLower(name)
	o, s := db.Objects[schema.IxView][lower], session.Of(ctx)
	if o != nil || s == nil || db.Tables[lower] != nil || lower == "dual" {
		return o, nil
	}
	snap, err := s.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	return snap.View(d.name, name), nil
}

// viewTextEnd is how the text of a view with CHECK OPTION ends: the engine keeps one word of that.
var viewTextEnd = regexp.MustCompile(`(?i)\s+with\s*$`)

// withCheckOption is the text of a view with all of its CHECK OPTION.
func withCheckOption(v sql.ViewDefinition) string {
	i := strings.LastIndex(v.CreateViewStatement, v.TextDefinition)
	if i < 0 || !viewTextEnd.MatchString(v.TextDefinition) {
		return v.TextDefinition
	}
	return strings.TrimRight(v.CreateViewStatement[i:], " \t\r\n;")
}

// AllViews implements sql.ViewDatabase: those that the user may know of.
func (d *database) AllViews(ctx *sql.Context) ([]sql.ViewDefinition, error) {
	all, err := list(ctx, d, schema.IxView, func(o *schema.ObjectDesc) sql.ViewDefinition { return *o.View })
	return slices.DeleteFunc(all, func(v sql.ViewDefinition) bool { return !d.g.Sees(ctx, d.name, v.Name) }), err
}

// ProcedureDefiner is the account with whose rights a procedure is executed; nil: with those of the
// user.
func (g *Env) ProcedureDefiner(ctx *sql.Context, db, name string) (*schema.Account, error) {
	d, err := NewProvider(g).Find(ctx, db)
	if err != nil || d == nil {
		return nil, err
	}
	if o := d.Objects[schema.IxProcedure][strings.ToLower(name)]; o != nil {
		return o.Definer, nil
	}
	return nil, nil
}

func list[T any](ctx *sql.Context, d *database, ix base.IndexID, get func(*schema.ObjectDesc) T) ([]T, error) {
	db, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	var out []T
	for _, o := range db.ObjectsInOrder(ix) {
		out = append(out, get(o))
	}
	return out, nil
}

// GetTriggers implements sql.TriggerDatabase.
func (d *database) GetTriggers(ctx *sql.Context) ([]sql.TriggerDefinition, error) {
	if s := session.Of(ctx); s != nil {
		if s.Replicates {
			switch s.Stmt.Tree.(type) {
			case *sqlparser.Insert, *sqlparser.Update, *sqlparser.Delete:
				return nil, nil
			}
		}
		var err error
		if s.Stmt.Triggers, err = d.look(ctx); err != nil {
			return nil, err
		}
		if s.Stmt.Firing != nil {
			s.SetCurrentDatabase(d.name) // that of the names in their texts, until they are bound
		}
	}
	return list(ctx, d, schema.IxTrigger, func(o *schema.ObjectDesc) sql.TriggerDefinition { return *o.Trigger })
}

// CreateTrigger implements sql.TriggerDatabase.
func (d *database) CreateTrigger(ctx *sql.Context, def sql.TriggerDefinition) error {
	on := schema.TriggerTable(def.CreateStatement)
	if d.temporary(ctx, on) != nil {
		return mysql.NewSQLError(1361, "HY000", "Trigger's '%s' is view or temporary table", on)
	}
	if err := d.touch(ctx, on); err != nil {
		return err
	}
	o := &schema.ObjectDesc{DB: d.name, Name: def.Name, Seq: schema.ObjectSeq(), Trigger: &def, Definer: session.DefinerOf(ctx)}
	if err := o.PlaceTrigger(func() (*schema.Database, error) { return d.look(ctx) }); err != nil {
		return err
	}
	return d.create(ctx, schema.IxTrigger, o, func() error {
		if ifNotExists(ctx) {
			note(ctx, 1359, "Trigger '"+d.name+"."+def.Name+"' already exists")
			return nil
		}
		return mysql.NewSQLError(1359, "HY000", "Trigger '%s.%s' already exists", d.name, def.Name)
	})
}

// DropTrigger implements sql.TriggerDatabase.
func (d *database) DropTrigger(ctx *sql.Context, name string) error {
	o, err := d.object(ctx, schema.IxTrigger, name)
	if err != nil {
		return err
	}
	if o == nil {
		return unlessMissing(ctx, sql.ErrTriggerDoesNotExist.New(name), 1360, "Trigger does not exist")
	}
	if err := d.touch(ctx, schema.TriggerTable(o.Trigger.CreateStatement)); err != nil {
		return err
	}
	return d.drop(ctx, schema.IxTrigger, o.Name, func() error { return sql.ErrTriggerDoesNotExist.New(name) })
}

// renameTriggers writes the new name of a table into the text of its triggers.
func (d *database) renameTriggers(ctx *sql.Context, m *mutation, from, to string) error {
	db, err := d.look(ctx)
	if err != nil {
		return err
	}
	for _, o := range db.ObjectsInOrder(schema.IxTrigger) {
		text := o.Trigger.CreateStatement
		if !strings.EqualFold(schema.TriggerTable(text), from) {
			continue
		}
		if _, err := m.lock(ctx, schema.CatalogKey(schema.IxTrigger, o.DB, o.Name)); err != nil {
			return err
		}
		at := schema.TriggerTableAt(text)
		renamed, def := *o, *o.Trigger
		def.CreateStatement = text[:at[0]] + "`" + to + "`" + text[at[1]:]
		renamed.Trigger = &def
		m.putObject(schema.IxTrigger, &renamed)
	}
	return nil
}

// GetStoredProcedure implements sql.StoredProcedureDatabase.
func (d *database) GetStoredProcedure(ctx *sql.Context, name string) (sql.StoredProcedureDetails, bool, error) {
	o, err := d.object(ctx, schema.IxProcedure, name)
	if err != nil || o == nil {
		return sql.StoredProcedureDetails{}, false, err
	}
	return *o.Procedure, true, nil
}

// GetStoredProcedures implements sql.StoredProcedureDatabase.
func (d *database) GetStoredProcedures(ctx *sql.Context) ([]sql.StoredProcedureDetails, error) {
	return list(ctx, d, schema.IxProcedure, func(o *schema.ObjectDesc) sql.StoredProcedureDetails { return *o.Procedure })
}

// SaveStoredProcedure implements sql.StoredProcedureDatabase.
func (d *database) SaveStoredProcedure(ctx *sql.Context, spd sql.StoredProcedureDetails) error {
	return d.create(ctx, schema.IxProcedure, &schema.ObjectDesc{DB: d.name, Name: spd.Name, Seq: schema.ObjectSeq(),
		Procedure: &spd, Definer: session.DefinerOf(ctx)}, func() error {
		if ifNotExists(ctx) {
			note(ctx, 1304, "PROCEDURE "+spd.Name+" already exists")
			return nil
		}
		return sql.ErrStoredProcedureAlreadyExists.New(spd.Name)
	})
}

// DropStoredProcedure implements sql.StoredProcedureDatabase.
func (d *database) DropStoredProcedure(ctx *sql.Context, name string) error {
	return d.drop(ctx, schema.IxProcedure, name, func() error {
		return unlessMissing(ctx, sql.ErrStoredProcedureDoesNotExist.New(name), 1305, "PROCEDURE %s.%s does not exist", d.name, name)
	})
}

// GetEvent implements sql.EventDatabase.
func (d *database) GetEvent(ctx *sql.Context, name string) (sql.EventDefinition, bool, error) {
	o, err := d.object(ctx, schema.IxEvent, name)
	if err != nil || o == nil {
		return sql.EventDefinition{}, false, err
	}
	return *o.Event, true, nil
}

// GetEvents implements sql.EventDatabase; the token is the version of the catalog.
func (d *database) GetEvents(ctx *sql.Context) ([]sql.EventDefinition, any, error) {
	evs, err := list(ctx, d, schema.IxEvent, func(o *schema.ObjectDesc) sql.EventDefinition { return *o.Event })
	changed, _ := d.g.DB.MetaVersion(schema.IndexSpan(schema.IxEvent))
	return evs, changed, err
}

// SaveEvent implements sql.EventDatabase.
func (d *database) SaveEvent(ctx *sql.Context, ed sql.EventDefinition) (bool, error) {
	if err := timed(&ed); err != nil {
		return false, err
	}
	err := d.create(ctx, schema.IxEvent, &schema.ObjectDesc{DB: d.name, Name: ed.Name, Seq: schema.ObjectSeq(),
		Event: &ed, Definer: session.DefinerOf(ctx), Region: d.g.DB.Region()}, func() error {
		return sql.ErrEventAlreadyExists.New(ed.Name)
	})
	return ed.Status == sql.EventStatus_Enable.String(), err
}

// timed gives the times of an event whole seconds. It refuses intervals that are none or longer
// than a century, and a start before 1970: as many steps as may lie between do not overflow.
func timed(ed *sql.EventDefinition) error {
	for _, t := range []*time.Time{&ed.ExecuteAt, &ed.Starts, &ed.Ends} {
		*t = t.Truncate(time.Second)
	}
	if ed.HasExecuteAt {
		return nil
	}
	x, err := sql.EventOnScheduleEveryIntervalFromString(ed.ExecuteEvery)
	bad := err != nil || *x == (sql.EventOnScheduleEveryInterval{})
	if !bad {
		for _, u := range [][2]int64{{x.Years, 100}, {x.Months, 1200}, {x.Days, 36_525}, {x.Hours, 876_600},
			{x.Minutes, 52_596_000}, {x.Seconds, 3_155_760_000}} {
			bad = bad || u[0] < 0 || u[0] > u[1]
		}
	}
	if bad {
		return mysql.NewSQLError(1542, "HY000", "INTERVAL is either not positive or too big")
	}
	if ed.Starts.Unix() < 0 {
		return mysql.NewSQLError(1525, "HY000", "Incorrect STARTS value: '%s'", ed.Starts.Format(time.DateTime))
	}
	return nil
}

// DropEvent implements sql.EventDatabase.
func (d *database) DropEvent(ctx *sql.Context, name string) error {
	if err := d.drop(ctx, schema.IxEvent, name, func() error { return sql.ErrEventDoesNotExist.New(name) }); err != nil {
		return err
	}
	m, err := d.g.mutate(ctx)
	if err == nil {
		m.del(schema.EventKey(d.name, name))
	}
	return err
}

// UpdateEvent implements sql.EventDatabase.
func (d *database) UpdateEvent(ctx *sql.Context, name string, ed sql.EventDefinition) (bool, error) {
	if !strings.EqualFold(name, ed.Name) {
		if o, err := d.object(ctx, schema.IxEvent, ed.Name); err != nil {
			return false, err
		} else if o != nil {
			return false, sql.ErrEventAlreadyExists.New(strings.ToLower(ed.Name))
		}
	}
	// When it was executed stays known, but not under another name.
	drop := d.DropEvent
	if strings.EqualFold(name, ed.Name) {
		drop = func(ctx *sql.Context, name string) error {
			return d.drop(ctx, schema.IxEvent, name, func() error { return sql.ErrEventDoesNotExist.New(name) })
		}
	}
	if err := drop(ctx, name); err != nil {
		return false, err
	}
	return d.SaveEvent(ctx, ed)
}

// UpdateLastExecuted implements sql.EventDatabase.
func (d *database) UpdateLastExecuted(ctx *sql.Context, name string, last time.Time) error {
	ed, ok, err := d.GetEvent(ctx, name)
	if err != nil {
		return err
	}
	if !ok {
		return sql.ErrEventDoesNotExist.New(name)
	}
	ed.LastExecuted = last
	return d.create(ctx, schema.IxEvent, &schema.ObjectDesc{DB: d.name, Name: ed.Name, Seq: schema.ObjectSeq(), Event: &ed}, nil)
}

// NeedsToReloadEvents implements sql.EventDatabase.
func (d *database) NeedsToReloadEvents(_ *sql.Context, token any) (bool, error) {
	changed, _ := d.g.DB.MetaVersion(schema.IndexSpan(schema.IxEvent))
	old, _ := token.(base.Timestamp)
	return changed > old, nil
}
