package backup

import (
	"encoding/json"
	"fmt"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/sanity"
	"github.com/godwitdb/godwit/sql/schema"
)

// This file reads the definitions in a manifest, which may say anything.

// object is a view, trigger, procedure, function or event of a backup.
type object struct {
	kind base.IndexID
	*schema.ObjectDesc
}

func (v *volume) bad(format string, args ...any) error {
	return &archive.FileError{File: v.ID + "/" + archive.ManifestName, Why: fmt.Sprintf(format, args...)}
}

// contents are the databases and objects of a backup.
func (v *volume) contents() (dbs []*schema.DatabaseDesc, objects []object, err error) {
	for _, b := range v.Databases {
		d := new(schema.DatabaseDesc)
		if err := json.Unmarshal(b, d); err != nil || d.Name == "" {
			return nil, nil, v.bad("the definition of a database cannot be read: %v", err)
		}
		if d.V > schema.NewestVersion {
			return nil, nil, v.newer("database " + d.Name)
		}
		dbs = append(dbs, d)
	}
	for _, x := range v.Objects {
		o := new(schema.ObjectDesc)
		if err := json.Unmarshal(x.Desc, o); err != nil || o.Name == "" || o.DB == "" || !sanity.Object(x.Kind, o) {
			return nil, nil, v.bad("the definition of a view, trigger, procedure, function or event cannot be read: %v", err)
		}
		if o.V > schema.NewestVersion {
			return nil, nil, v.newer(o.DB + "." + o.Name)
		}
		objects = append(objects, object{x.Kind, o})
	}
	return dbs, objects, nil
}

func (v *volume) newer(what string) error {
	return v.bad("the definition of %s is of a newer release: upgrade this node", what)
}

// index finds the tables of a backup by their ids.
func (v *volume) index() error {
	v.byID = map[base.TableID]*archive.Table{}
	for i := range v.Tables {
		_, d, err := v.table(&v.Tables[i])
		if err != nil {
			return err
		}
		if v.byID[d.ID] != nil {
			return v.bad("two tables have the id %d", d.ID)
		}
		v.byID[d.ID] = &v.Tables[i]
	}
	return nil
}

// table makes the definition of a table ready for use.
func (v *volume) table(at *archive.Table) (t *schema.Table, d *schema.TableDesc, err error) {
	d = new(schema.TableDesc)
	if err := json.Unmarshal(at.Desc, d); err != nil {
		return nil, nil, v.bad("the definition of a table cannot be read: %v", err)
	}
	if d.V > schema.NewestVersion {
		return nil, nil, v.newer("table " + d.DB + "." + d.Name)
	}
	if why := sanity.Table(d); why != "" {
		return nil, nil, v.bad("the definition of table %q.%q cannot be: %s", d.DB, d.Name, why)
	}
	defer func() {
		// The types of columns are parsed by the engine, which was not written for any text.
		if r := recover(); r != nil {
			t, d, err = nil, nil, v.bad("the definition of table %q.%q cannot be used: %v", d.DB, d.Name, r)
		}
	}()
	if t, err = schema.NewTable(d); err != nil {
		return nil, nil, v.bad("the definition of table %q.%q cannot be used: %v", d.DB, d.Name, err)
	}
	return t, d, nil
}
