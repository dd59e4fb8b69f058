package fast

import (
	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/server"

	"github.com/godwitdb/godwit/sql/table"
)

// Runner runs statements on one row, or on a short range of keys, past the engine. There is one for
// each gateway.
type Runner struct {
	Env    *table.Env
	Engine *sqle.Engine
	// Sessions makes the contexts of statements. It is set before the first statement.
	Sessions *server.SessionManager
	// Off leaves all statements to the engine, for tests.
	Off bool

	templates templates
}
