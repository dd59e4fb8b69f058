package ddl

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// optionIgnored is MySQL's warning that something of a statement has no effect.
const optionIgnored = 1618

// WarnIgnored warns of what a definition says of its columns and the types of this server do not
// have: digits of FLOAT and DOUBLE, and ZEROFILL.
func WarnIgnored(ctx *sql.Context, stmt sqlparser.Statement) {
	switch s := stmt.(type) {
	case *sqlparser.DDL:
		warnIgnored(ctx, s.TableSpec)
	case *sqlparser.AlterTable:
		for _, d := range s.Statements {
			warnIgnored(ctx, d.TableSpec)
		}
	}
}

func warnIgnored(ctx *sql.Context, t *sqlparser.TableSpec) {
	if t == nil {
		return
	}
	for _, c := range t.Columns {
		var what []string
		switch kind := strings.ToLower(c.Type.Type); kind {
		case "float", "double", "real", "double precision":
			if c.Type.Scale != nil {
				what = append(what, fmt.Sprintf("%s(%s,%s) of column %s", strings.ToUpper(kind), c.Type.Length.Val, c.Type.Scale.Val, c.Name))
			}
		}
		if c.Type.Zerofill {
			what = append(what, fmt.Sprintf("ZEROFILL of column %s", c.Name))
		}
		for _, w := range what {
			ctx.Warn(optionIgnored, "<%s> option ignored", w)
		}
	}
}
