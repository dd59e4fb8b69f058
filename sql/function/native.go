package function

import (
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql/expression/function"
)

// natives are the names of the engine's functions.
var natives = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, f := range function.BuiltIns {
		out[strings.ToLower(f.FunctionName())] = true
	}
	return out
})

// Native reports whether a function is the engine's or ours, and no stored one.
func Native(name string) bool {
	_, ours := Lookup(name)
	return ours || natives()[strings.ToLower(name)]
}
