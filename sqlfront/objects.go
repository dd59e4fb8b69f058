package sqlfront

import (
	"regexp"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
)

var (
	_ sql.ViewDatabase            = (*sqlDatabase)(nil)
	_ sql.TriggerDatabase         = (*sqlDatabase)(nil)
	_ sql.StoredProcedureDatabase = (*sqlDatabase)(nil)
	_ sql.EventDatabase           = (*sqlDatabase)(nil)
)

// CreateView implements sql.ViewDatabase.
func (d *sqlDatabase) CreateView(ctx *sql.Context, name, selectStatement, createViewStmt string) error {
	v := &sql.ViewDefinition{
		Name: name, TextDefinition: selectStatement, CreateViewStatement: createViewStmt, SqlMode: sql.LoadSqlMode(ctx).String(),
	}
	return d.create(ctx, ixView, &objectDesc{DB: d.name, Name: name, Seq: objectSeq(), View: v}, func() error {
		return sql.ErrExistingView.New(d.name, name)
	})
}

// DropView implements sql.ViewDatabase.
func (d *sqlDatabase) DropView(ctx *sql.Context, name string) error {
	return d.drop(ctx, ixView, name, func() error { return sql.ErrViewDoesNotExist.New(d.name, name) })
}

// GetViewDefinition implements sql.ViewDatabase.
func (d *sqlDatabase) GetViewDefinition(ctx *sql.Context, name string) (sql.ViewDefinition, bool, error) {
	o, err := d.object(ctx, ixView, name)
	if err != nil || o == nil {
		return sql.ViewDefinition{}, false, err
	}
	if s := sessionOf(ctx); s != nil {
		s.view, s.viewDB = o.View.CreateViewStatement, d.Name()
	}
	return *o.View, true, nil
}

// AllViews implements sql.ViewDatabase.
func (d *sqlDatabase) AllViews(ctx *sql.Context) ([]sql.ViewDefinition, error) {
	return list(ctx, d, ixView, func(o *objectDesc) sql.ViewDefinition { return *o.View })
}

func list[T any](ctx *sql.Context, d *sqlDatabase, ix base.IndexID, get func(*objectDesc) T) ([]T, error) {
	db, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	var out []T
	for _, o := range db.objectsOf(ix) {
		out = append(out, get(o))
	}
	return out, nil
}

// GetTriggers implements sql.TriggerDatabase.
func (d *sqlDatabase) GetTriggers(ctx *sql.Context) ([]sql.TriggerDefinition, error) {
	return list(ctx, d, ixTrigger, func(o *objectDesc) sql.TriggerDefinition { return *o.Trigger })
}

// CreateTrigger implements sql.TriggerDatabase.
func (d *sqlDatabase) CreateTrigger(ctx *sql.Context, def sql.TriggerDefinition) error {
	if err := d.touch(ctx, triggerTable(def.CreateStatement)); err != nil {
		return err
	}
	return d.create(ctx, ixTrigger, &objectDesc{DB: d.name, Name: def.Name, Seq: objectSeq(), Trigger: &def}, func() error {
		return sql.ErrTriggerCreateStatementInvalid.New("a trigger of this name exists: " + def.Name)
	})
}

// DropTrigger implements sql.TriggerDatabase.
func (d *sqlDatabase) DropTrigger(ctx *sql.Context, name string) error {
	o, err := d.object(ctx, ixTrigger, name)
	if err != nil {
		return err
	}
	if o == nil {
		return sql.ErrTriggerDoesNotExist.New(name)
	}
	if err := d.touch(ctx, triggerTable(o.Trigger.CreateStatement)); err != nil {
		return err
	}
	return d.drop(ctx, ixTrigger, o.Name, func() error { return sql.ErrTriggerDoesNotExist.New(name) })
}

var triggerOn = regexp.MustCompile("(?is)\\b(?:insert|update|delete)\\s+on\\s+(?:`[^`]+`\\.|\\w+\\.)?(?:`([^`]+)`|(\\w+))")

// triggerTable is the table named in CREATE TRIGGER ... {BEFORE|AFTER} event ON table.
func triggerTable(stmt string) string {
	if m := triggerOn.FindStringSubmatch(stmt); m != nil {
		return m[1] + m[2]
	}
	return ""
}

// renameTriggers writes the new name of a table into the text of its triggers.
func (d *sqlDatabase) renameTriggers(ctx *sql.Context, m *mutation, from, to string) error {
	db, err := d.look(ctx)
	if err != nil {
		return err
	}
	for _, o := range db.objectsOf(ixTrigger) {
		text := o.Trigger.CreateStatement
		if !strings.EqualFold(triggerTable(text), from) {
			continue
		}
		if _, err := m.lock(ctx, catalogKey(ixTrigger, o.DB, o.Name)); err != nil {
			return err
		}
		at := triggerOn.FindStringSubmatchIndex(text)
		start, end := at[4], at[5]
		if at[2] >= 0 {
			start, end = at[2]-1, at[3]+1 // with its quotes
		}
		renamed, def := *o, *o.Trigger
		def.CreateStatement = text[:start] + "`" + to + "`" + text[end:]
		renamed.Trigger = &def
		m.putObject(ixTrigger, &renamed)
	}
	return nil
}

// GetStoredProcedure implements sql.StoredProcedureDatabase.
func (d *sqlDatabase) GetStoredProcedure(ctx *sql.Context, name string) (sql.StoredProcedureDetails, bool, error) {
	o, err := d.object(ctx, ixProcedure, name)
	if err != nil || o == nil {
		return sql.StoredProcedureDetails{}, false, err
	}
	return *o.Procedure, true, nil
}

// GetStoredProcedures implements sql.StoredProcedureDatabase.
func (d *sqlDatabase) GetStoredProcedures(ctx *sql.Context) ([]sql.StoredProcedureDetails, error) {
	return list(ctx, d, ixProcedure, func(o *objectDesc) sql.StoredProcedureDetails { return *o.Procedure })
}

// SaveStoredProcedure implements sql.StoredProcedureDatabase.
func (d *sqlDatabase) SaveStoredProcedure(ctx *sql.Context, spd sql.StoredProcedureDetails) error {
	return d.create(ctx, ixProcedure, &objectDesc{DB: d.name, Name: spd.Name, Seq: objectSeq(), Procedure: &spd}, func() error {
		return sql.ErrStoredProcedureAlreadyExists.New(spd.Name)
	})
}

// DropStoredProcedure implements sql.StoredProcedureDatabase.
func (d *sqlDatabase) DropStoredProcedure(ctx *sql.Context, name string) error {
	return d.drop(ctx, ixProcedure, name, func() error { return sql.ErrStoredProcedureDoesNotExist.New(name) })
}

// GetEvent implements sql.EventDatabase.
func (d *sqlDatabase) GetEvent(ctx *sql.Context, name string) (sql.EventDefinition, bool, error) {
	o, err := d.object(ctx, ixEvent, name)
	if err != nil || o == nil {
		return sql.EventDefinition{}, false, err
	}
	return *o.Event, true, nil
}

// GetEvents implements sql.EventDatabase; the token is the version of the catalog.
func (d *sqlDatabase) GetEvents(ctx *sql.Context) ([]sql.EventDefinition, any, error) {
	evs, err := list(ctx, d, ixEvent, func(o *objectDesc) sql.EventDefinition { return *o.Event })
	changed, _ := d.g.db.MetaVersion(indexSpan(ixEvent))
	return evs, changed, err
}

// SaveEvent implements sql.EventDatabase.
func (d *sqlDatabase) SaveEvent(ctx *sql.Context, ed sql.EventDefinition) (bool, error) {
	err := d.create(ctx, ixEvent, &objectDesc{DB: d.name, Name: ed.Name, Seq: objectSeq(), Event: &ed}, func() error {
		return sql.ErrEventAlreadyExists.New(ed.Name)
	})
	return ed.Status == sql.EventStatus_Enable.String(), err
}

// DropEvent implements sql.EventDatabase.
func (d *sqlDatabase) DropEvent(ctx *sql.Context, name string) error {
	return d.drop(ctx, ixEvent, name, func() error { return sql.ErrEventDoesNotExist.New(name) })
}

// UpdateEvent implements sql.EventDatabase.
func (d *sqlDatabase) UpdateEvent(ctx *sql.Context, name string, ed sql.EventDefinition) (bool, error) {
	if !strings.EqualFold(name, ed.Name) {
		if o, err := d.object(ctx, ixEvent, ed.Name); err != nil {
			return false, err
		} else if o != nil {
			return false, sql.ErrEventAlreadyExists.New(strings.ToLower(ed.Name))
		}
	}
	if err := d.DropEvent(ctx, name); err != nil {
		return false, err
	}
	return d.SaveEvent(ctx, ed)
}

// UpdateLastExecuted implements sql.EventDatabase.
func (d *sqlDatabase) UpdateLastExecuted(ctx *sql.Context, name string, last time.Time) error {
	ed, ok, err := d.GetEvent(ctx, name)
	if err != nil {
		return err
	}
	if !ok {
		return sql.ErrEventDoesNotExist.New(name)
	}
	ed.LastExecuted = last
	return d.create(ctx, ixEvent, &objectDesc{DB: d.name, Name: ed.Name, Seq: objectSeq(), Event: &ed}, nil)
}

// NeedsToReloadEvents implements sql.EventDatabase.
func (d *sqlDatabase) NeedsToReloadEvents(_ *sql.Context, token any) (bool, error) {
	changed, _ := d.g.db.MetaVersion(indexSpan(ixEvent))
	old, _ := token.(base.Timestamp)
	return changed > old, nil
}
