package ahead

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
)

// alter is what the clauses of an ALTER TABLE make of the columns of a table.
type alter struct {
	snap *schema.Snapshot
	d    *schema.TableDesc
	// to has the new lower name of each column that stays, by its old one.
	to map[string]string
	// names are the columns afterwards, in lower case.
	names map[string]bool
}

// alters is what is wrong in an ALTER TABLE. Errors: 1054 for columns that are not there, 1060 and
// 1061 for names that there would be twice, 1072 for keys of columns that are not there, 1091 and
// 1176 for what cannot be dropped or renamed, 1068 for a second primary key, 1090 for the last
// column, 1553 for a key that a foreign key needs, 3108, 3766 and 3959 for columns that an
// expression needs, 3109, 3771 and 3818 for an expression over the AUTO_INCREMENT column.
func alters(snap *schema.Snapshot, d *schema.TableDesc, n *sqlparser.AlterTable) error {
	a := &alter{snap: snap, d: d, to: map[string]string{}, names: map[string]bool{}}
	for i := range d.Cols {
		if !d.Cols[i].HiddenSystem {
			name := strings.ToLower(d.Cols[i].Name)
			a.to[name] = name
		}
	}
	var added []string
	for _, c := range n.Statements {
		more, err := a.column(c)
		if err != nil {
			return err
		}
		added = append(added, more...)
	}
	if len(a.to)+len(added) == 0 {
		return mysql.NewSQLError(1090, "42000", "You can't delete all columns with ALTER TABLE; use DROP TABLE instead")
	}
	for _, col := range d.Cols {
		if name, stays := a.to[strings.ToLower(col.Name)]; stays && !a.name(name) {
			return twice(name)
		}
	}
	for _, name := range added {
		if !a.name(name) {
			return twice(name)
		}
	}
	for _, c := range n.Statements {
		if o := c.ColumnOrder; o != nil && !o.First && !a.names[o.AfterColumn.Lowered()] {
			return a.unknown(o.AfterColumn.String())
		}
	}
	if err := a.needed(); err != nil {
		return err
	}
	if err := a.counter(n); err != nil {
		return err
	}
	return a.keys(n)
}

// name takes the name of a column; false if there is one of that name.
func (a *alter) name(name string) bool {
	name = strings.ToLower(name)
	had := a.names[name]
	a.names[name] = true
	return !had
}

func twice(name string) error {
	return mysql.NewSQLError(1060, "42S21", "Duplicate column name '%s'", name)
}

func (a *alter) unknown(name string) error {
	return mysql.NewSQLError(1054, "42S22", "Unknown column '%s' in '%s'", name, a.d.Name)
}

func cannotDrop(name string) error {
	return mysql.NewSQLError(1091, "42000", "Can't DROP '%s'; check that column/key exists", name)
}

func (a *alter) noColumn(name string) error {
	return mysql.NewSQLError(1072, "42000", "Key column '%s' doesn't exist in table", name)
}

// column takes what a clause does with columns, and returns those that it adds.
func (a *alter) column(c *sqlparser.DDL) (added []string, err error) {
	name := c.Column.Lowered()
	_, stays := a.to[name]
	switch strings.ToLower(c.ColumnAction) {
	case sqlparser.AddStr:
		for _, col := range c.TableSpec.Columns {
			added = append(added, col.Name.String())
		}
	case sqlparser.DropStr:
		if !stays {
			return nil, cannotDrop(c.Column.String())
		}
		delete(a.to, name)
	case sqlparser.RenameStr:
		if !stays {
			return nil, a.unknown(c.Column.String())
		}
		a.to[name] = c.ToColumn.Lowered()
	case sqlparser.ModifyStr, sqlparser.ChangeStr:
		if !stays {
			return nil, a.unknown(c.Column.String())
		}
		a.to[name] = c.TableSpec.Columns[0].Name.Lowered()
	}
	for _, name := range []sqlparser.ColIdent{defaultOf(c), notNullOf(c), typeOf(c)} {
		if _, stays := a.to[name.Lowered()]; !stays && !name.IsEmpty() {
			return nil, a.unknown(name.String())
		}
	}
	return added, nil
}

func defaultOf(c *sqlparser.DDL) (name sqlparser.ColIdent) {
	if c.DefaultSpec != nil {
		name = c.DefaultSpec.Column
	}
	return name
}

func notNullOf(c *sqlparser.DDL) (name sqlparser.ColIdent) {
	if c.NotNullSpec != nil {
		name = c.NotNullSpec.Column
	}
	return name
}

func typeOf(c *sqlparser.DDL) (name sqlparser.ColIdent) {
	if c.ColumnTypeSpec != nil {
		name = c.ColumnTypeSpec.Column
	}
	return name
}

// needed is the error for columns that go, and that an expression needs which stays. A CHECK
// constraint goes with the last of its columns.
func (a *alter) needed() error {
	gone := func(name string) bool {
		_, stays := a.to[strings.ToLower(name)]
		return !stays && a.d.ColByName(name) >= 0
	}
	for i := range a.d.Cols {
		col := &a.d.Cols[i]
		if gone(col.Name) {
			continue
		}
		for _, name := range columnsIn(col.Generated) {
			switch {
			case gone(name) && col.HiddenSystem:
				return mysql.NewSQLError(3837, "HY000", "Column '%s' has a functional index dependency and cannot be dropped or renamed.", name)
			case gone(name):
				return mysql.NewSQLError(3108, "HY000", "Column '%s' has a generated column dependency.", name)
			}
		}
		for _, name := range columnsIn(col.Default) {
			if gone(name) {
				return mysql.NewSQLError(3766, "HY000", "Column '%s' of table '%s' has a default value expression "+
					"dependency and cannot be dropped or renamed.", name, a.d.Name)
			}
		}
	}
	for _, c := range a.d.Checks {
		names := columnsIn(&schema.ExprDesc{Text: c.CheckExpression})
		stays := slices.ContainsFunc(names, func(name string) bool { return !gone(name) })
		if i := slices.IndexFunc(names, gone); i >= 0 && stays {
			return mysql.NewSQLError(3959, "HY000", "Check constraint '%s' uses column '%s', hence column cannot be dropped or renamed.",
				c.Name, names[i])
		}
	}
	return nil
}

// counter is the error for an expression over the AUTO_INCREMENT column.
func (a *alter) counter(n *sqlparser.AlterTable) error {
	var specs []*sqlparser.TableSpec
	dropped := map[string]bool{}
	for _, c := range n.Statements {
		switch {
		case c.TableSpec == nil:
		case strings.EqualFold(c.ConstraintAction, sqlparser.DropStr):
			for _, x := range c.TableSpec.Constraints {
				dropped[strings.ToLower(x.Name)] = true
			}
		default:
			specs = append(specs, c.TableSpec)
		}
	}
	stays := func(name string) bool { _, ok := a.to[strings.ToLower(name)]; return ok }
	return overCounter(a.d.Name, a.d, specs, stays, dropped)
}

// columnsIn are the columns that an expression names; none if e is nil.
func columnsIn(e *schema.ExprDesc) (names []string) {
	if e == nil || e.Text == "" || e.Literal {
		return nil
	}
	stmt, err := sqlparser.Parse("SELECT " + e.Text)
	if err != nil {
		return nil // a default of a kind that has no columns, such as the time of now with a precision
	}
	return columnsOf(stmt)
}

// keys is what is wrong in the clauses about keys.
func (a *alter) keys(n *sqlparser.AlterTable) error {
	names := map[string]bool{}
	for i := range a.d.Indexes {
		names[strings.ToLower(a.d.Indexes[i].Name)] = true
	}
	primary := len(a.d.PK) > 0 && !slices.ContainsFunc(a.d.PK, func(id uint32) bool {
		_, stays := a.to[strings.ToLower(a.d.Cols[a.d.Col(id)].Name)]
		return !stays // then a statement may say what the key is
	})
	var made [][]string
	for _, c := range n.Statements { // what goes makes room, wherever it stands
		x := c.IndexSpec
		if x == nil {
			continue
		}
		name := x.ToName.Lowered()
		switch strings.ToLower(x.Action) {
		case sqlparser.DropStr:
			if x.Type == sqlparser.PrimaryStr || name == "primary" {
				if !primary {
					return cannotDrop("PRIMARY")
				}
				primary = false
			} else if !names[name] && !c.IfExists {
				return cannotDrop(x.ToName.String())
			}
			delete(names, name)
		case sqlparser.RenameStr:
			if from := x.FromName.Lowered(); !names[from] {
				return mysql.NewSQLError(1176, "42000", "Key '%s' doesn't exist in table '%s'", x.FromName.String(), a.d.Name)
			} else if from != name && names[name] {
				return mysql.NewSQLError(1061, "42000", "Duplicate key name '%s'", x.ToName.String())
			} else {
				delete(names, from)
				names[name] = true
			}
		}
	}
	for _, c := range n.Statements {
		if x := c.IndexSpec; x != nil && strings.EqualFold(x.Action, sqlparser.CreateStr) {
			cols, err := a.key(x)
			if err != nil {
				return err
			}
			if x.Type == sqlparser.PrimaryStr {
				if primary {
					return mysql.NewSQLError(1068, "42000", "Multiple primary key defined")
				}
				primary = true
			}
			made = append(made, cols)
		}
		if err := a.foreignKey(c); err != nil {
			return err
		}
	}
	return a.parent(n, made)
}

// key is the columns of a key that is made, in lower case.
func (a *alter) key(x *sqlparser.IndexSpec) (cols []string, err error) {
	for _, col := range x.Columns {
		name := col.Column.Lowered()
		if !a.names[name] {
			return nil, a.noColumn(col.Column.String())
		}
		if slices.Contains(cols, name) {
			return nil, twice(col.Column.String())
		}
		cols = append(cols, name)
	}
	return cols, nil
}

// foreignKey is what is wrong in the columns of a foreign key that a clause makes.
func (a *alter) foreignKey(c *sqlparser.DDL) error {
	if c.TableSpec == nil || !strings.EqualFold(c.ConstraintAction, sqlparser.AddStr) {
		return nil
	}
	for _, con := range c.TableSpec.Constraints {
		f, ok := con.Details.(*sqlparser.ForeignKeyDefinition)
		if !ok {
			continue
		}
		for _, col := range f.Source {
			if !a.names[col.Lowered()] {
				return a.noColumn(col.String())
			}
		}
	}
	return nil
}

// parent is the error for a primary key that goes, and that foreign keys need: no other key, nor
// one that is made, begins with their columns.
func (a *alter) parent(n *sqlparser.AlterTable, made [][]string) error {
	drops := func(c *sqlparser.DDL) bool {
		x := c.IndexSpec
		return x != nil && strings.EqualFold(x.Action, sqlparser.DropStr) &&
			(x.Type == sqlparser.PrimaryStr || x.ToName.Lowered() == "primary")
	}
	db := a.snap.Database(a.d.DB)
	if db == nil || !slices.ContainsFunc(n.Statements, drops) {
		return nil
	}
	for _, x := range a.d.Indexes {
		if x.Constraint != sql.IndexConstraint_None && x.Constraint != sql.IndexConstraint_Unique {
			continue
		}
		var cols []string
		for _, c := range x.Cols {
			if i := a.d.Col(c.Col); i >= 0 {
				cols = append(cols, strings.ToLower(a.d.Cols[i].Name))
			}
		}
		made = append(made, cols)
	}
	for _, fk := range db.ReferencedBy[strings.ToLower(a.d.Name)] {
		if !slices.ContainsFunc(made, func(cols []string) bool { return begins(cols, fk.ParentColumns) }) {
			return mysql.NewSQLError(1553, "HY000", "Cannot drop index 'PRIMARY': needed in a foreign key constraint")
		}
	}
	return nil
}

// begins reports whether a key begins with columns, in any order.
func begins(key, cols []string) bool {
	if len(key) < len(cols) {
		return false
	}
	for _, c := range cols {
		if !slices.Contains(key[:len(cols)], strings.ToLower(c)) {
			return false
		}
	}
	return true
}
