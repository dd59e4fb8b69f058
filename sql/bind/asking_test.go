package bind_test

import (
	"errors"
	"strings"
	"testing"

	gms "github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	_ "github.com/godwitdb/godwit/sql/expr/fn" // the functions
)

var errEnough = errors.New("enough")

// asks binds a query, and counts how often the binder asks whether to go on; it may until it has
// asked most times.
func asks(t *testing.T, text string, most int) (n int, err error) {
	t.Helper()
	stmt, err := bind.Parse(text, bind.Mode{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = bind.Bind(stmt, &bind.Session{
		DB: "db", Collation: gms.Collation_utf8mb4_0900_ai_ci,
		UserVar: func(string) (expr.Node, error) { return expr.NullConst(), nil },
		Check: func() error {
			if n++; n > most {
				return errEnough
			}
			return nil
		},
	})
	return n, err
}

// TestBindingAsks: each expression that is compared with those before it asks whether the statement
// may go on: the time for a list of them grows with its square.
func TestBindingAsks(t *testing.T) {
	const n = 300
	for _, text := range []string{"SELECT COUNT(*) FROM (SELECT 1 AS a) q GROUP BY #", "SELECT SUM(#) FROM (SELECT 1 AS a) q",
		"SELECT ROW_NUMBER() OVER (ORDER BY #) FROM (SELECT 1 AS a) q"} {
		head, rest, _ := strings.Cut(text, "#")
		item := "a + "
		before, after := "", ""
		if !strings.HasPrefix(text, "SELECT COUNT") {
			before, after = strings.TrimPrefix(head, "SELECT "), rest[:1]
			head, rest = "SELECT ", rest[1:]
		}
		items := make([]string, n)
		for i := range items {
			items[i] = before + item + strings.Repeat("1", 1+i/9) + strings.Repeat("2", i%9) + after
		}
		text = head + strings.Join(items, ", ") + rest
		all, err := asks(t, text, 100*n)
		if err != nil || all < n {
			t.Fatalf("%.60s: asked %d times, %v", text, all, err)
		}
		if some, err := asks(t, text, all/2); !errors.Is(err, errEnough) || some != all/2+1 {
			t.Errorf("%.60s: asked %d times, %v", text, some, err)
		}
	}
}
