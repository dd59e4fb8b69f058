package rules

import (
	"sync"

	"github.com/dolthub/go-mysql-server/sql/types"
)

// engines mends what the engine keeps in variables, once.
var engines = sync.OnceFunc(func() {
	// Its own text has the whole value, of bytes as a list of numbers: it takes seconds to be made.
	types.ErrLengthBeyondLimit.Message = "string '%.64s' is too large for column '%v'"
})
