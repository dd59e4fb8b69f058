package views

import (
	"slices"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/algebra"
)

// TestOf: what CREATE VIEW says besides the SELECT is read from its text, as the engine keeps
// that.
func TestOf(t *testing.T) {
	for _, x := range []struct {
		create, text string
		columns      []string
		temp         bool
		check        algebra.ViewCheck
	}{
		{"CREATE VIEW v AS SELECT (1), 2", "SELECT (1), 2", nil, false, algebra.NoCheck},
		{"CREATE VIEW v\nAS\nSELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM t", nil, false, algebra.NoCheck},
		{"CREATE DEFINER=CURRENT_USER() VIEW v AS SELECT 1", "SELECT 1", nil, false, algebra.NoCheck},
		{"create view `v`(a, `b(c`) as select 1, 2", "select 1, 2", []string{"a", "b(c"}, false, algebra.NoCheck},
		{"CREATE ALGORITHM = TEMPTABLE VIEW v AS (SELECT 1)", "SELECT 1", nil, true, algebra.NoCheck},
		{"CREATE VIEW v AS SELECT a FROM t WITH CHECK OPTION", "SELECT a FROM t WITH", nil, false, algebra.CheckCascaded},
		{"CREATE VIEW v AS SELECT a FROM t with local check option", "SELECT a FROM t with", nil, false, algebra.CheckLocal},
		{"CREATE VIEW v (x) AS SELECT a FROM t WITH CASCADED CHECK OPTION", "SELECT a FROM t WITH CASCADED CHECK OPTION",
			[]string{"x"}, false, algebra.CheckCascaded},
		{"CREATE VIEW v AS SELECT 'with check option' AS c", "SELECT 'with check option' AS c", nil, false, algebra.NoCheck},
	} {
		v := Of("d", &sql.ViewDefinition{Name: "v", CreateViewStatement: x.create, TextDefinition: x.text})
		if !slices.Equal(v.Columns, x.columns) || v.TempTable != x.temp || v.Check != x.check {
			t.Errorf("%s: columns %q, TEMPTABLE %v, check %d", x.create, v.Columns, v.TempTable, v.Check)
		}
	}
}
