package rewrite

import (
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
)

// Times gives columns that a statement declares as TIME or TIME(n) a type that has the
// digits: the engine takes TIME for TIME(6), and refuses other digits.
func Times(stmt sqlparser.Statement) {
	switch s := stmt.(type) {
	case *sqlparser.DDL:
		if s.TableSpec == nil {
			return
		}
		for _, c := range s.TableSpec.Columns {
			declareTime(&c.Type)
		}
	case *sqlparser.AlterTable:
		for _, d := range s.Statements {
			Times(d)
		}
	}
}

func declareTime(t *sqlparser.ColumnType) {
	if !strings.EqualFold(t.Type, "time") || t.ResolvedType != nil || t.Charset != "" || t.Collate != "" {
		return
	}
	digits := 0
	if t.Length != nil {
		n, err := strconv.Atoi(string(t.Length.Val))
		if err != nil || n > schema.MaxTimeDigits {
			return // the engine words the error
		}
		digits = n
	}
	t.ResolvedType = schema.TimeType{Digits: digits}
}
