package describe

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/schema"
)

// Alter is the ALTER TABLE that makes a table of one definition one of another, whose name it has
// already; "" if the two do not differ in what SHOW CREATE TABLE shows. Columns are those with the
// same ids.
func Alter(ctx *sql.Context, was, is *schema.Table) string {
	a := &alteration{ctx: ctx, was: was.Desc, is: is.Desc}
	a.drops()
	a.columns(was, is)
	a.adds(is)
	if was, is := options(a.was, 0), options(a.is, 0); was != is {
		is = strings.TrimPrefix(is, " ENGINE=InnoDB ")
		if a.is.Comment == "" && a.was.Comment != "" {
			is += " COMMENT=''"
		}
		a.add("%s", is)
	}
	if len(a.clauses) == 0 {
		return ""
	}
	return "ALTER TABLE " + name(a.is.Name) + " " + strings.Join(a.clauses, ", ")
}

// Name quotes a name.
func Name(s string) string { return name(s) }

type alteration struct {
	ctx     *sql.Context
	was, is *schema.TableDesc
	clauses []string
}

func (a *alteration) add(format string, args ...any) {
	a.clauses = append(a.clauses, fmt.Sprintf(format, args...))
}

// sameIndex compares what is shown of indexes. Columns may have other names now.
func sameIndex(a, b *schema.IndexDesc) bool {
	return a.Name == b.Name && a.Comment == b.Comment && a.Constraint == b.Constraint && slices.Equal(a.Cols, b.Cols) &&
		parserOf(a) == parserOf(b)
}

// without finds the elements of a list that another one does not have.
func without[T any](list, other []T, same func(a, b *T) bool) (out []*T) {
	for i := range list {
		if !slices.ContainsFunc(other, func(o T) bool { return same(&list[i], &o) }) {
			out = append(out, &list[i])
		}
	}
	return out
}

func shown(all []schema.IndexDesc) []schema.IndexDesc {
	return slices.DeleteFunc(slices.Clone(all), func(x schema.IndexDesc) bool { return x.State != schema.IndexPublic })
}

func sameKey(a, b *sql.ForeignKeyConstraint) bool {
	return a.Name == b.Name && a.OnDelete == b.OnDelete && a.OnUpdate == b.OnUpdate && a.ParentDatabase == b.ParentDatabase &&
		a.ParentTable == b.ParentTable && slices.Equal(a.Columns, b.Columns) && slices.Equal(a.ParentColumns, b.ParentColumns)
}

func sameCheck(a, b *sql.CheckDefinition) bool { return reflect.DeepEqual(a, b) }

func (a *alteration) drops() {
	for _, fk := range without(a.was.FKs, a.is.FKs, sameKey) {
		a.add("DROP FOREIGN KEY %s", name(fk.Name))
	}
	for _, c := range without(a.was.Checks, a.is.Checks, sameCheck) {
		a.add("DROP CONSTRAINT %s", name(c.Name))
	}
	for _, x := range without(shown(a.was.Indexes), shown(a.is.Indexes), sameIndex) {
		a.add("DROP INDEX %s", name(x.Name))
	}
	if len(a.was.PK) > 0 && !slices.Equal(a.was.PK, a.is.PK) {
		a.add("DROP PRIMARY KEY")
	}
}

func (a *alteration) columns(was, is *schema.Table) {
	var at []uint32 // the columns as they are so far
	for i := range was.Cols {
		switch d := was.Cols[i].Desc; {
		case d.HiddenSystem:
		case a.is.Col(d.ID) < 0:
			a.add("DROP COLUMN %s", name(d.Name))
		default:
			at = append(at, d.ID)
		}
	}
	place, n := "FIRST", 0
	for _, c := range is.Cols {
		if c.Desc.HiddenSystem {
			continue
		}
		def := definition(a.ctx, a.is, c)
		moved := n >= len(at) || at[n] != c.Desc.ID
		if i := a.was.Col(c.Desc.ID); i < 0 {
			a.add("ADD COLUMN %s %s", def, place)
		} else {
			if moved {
				at = slices.DeleteFunc(at, func(id uint32) bool { return id == c.Desc.ID })
				def += " " + place
			}
			if moved || def != definition(a.ctx, a.was, was.Cols[i]) {
				a.add("CHANGE COLUMN %s %s", name(a.was.Cols[i].Name), def)
			}
		}
		if moved {
			at = slices.Insert(at, n, c.Desc.ID)
		}
		place, n = "AFTER "+name(c.Desc.Name), n+1
	}
}

func (a *alteration) adds(is *schema.Table) {
	fresh := map[string]bool{}
	for _, x := range without(shown(a.is.Indexes), shown(a.was.Indexes), sameIndex) {
		fresh[x.Name] = true
	}
	for _, x := range Indexes(is) {
		if x.Name == PrimaryName && !slices.Equal(a.was.PK, a.is.PK) || fresh[x.Name] {
			a.add("ADD %s", x.definition())
		}
	}
	for _, fk := range without(a.is.FKs, a.was.FKs, sameKey) {
		a.add("ADD %s", foreignKey(a.is, *fk))
	}
	for _, c := range without(a.is.Checks, a.was.Checks, sameCheck) {
		a.add("ADD CONSTRAINT %s CHECK (%s)", name(c.Name), c.CheckExpression)
	}
}
