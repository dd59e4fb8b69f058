package rules

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// mendEngines takes XA from what SHOW ENGINES tells: XA statements are refused. The engine keeps it
// where only it can write.
func mendEngines() bool {
	for i := range sql.SupportedEngines {
		xa := reflect.ValueOf(&sql.SupportedEngines[i]).Elem().FieldByName("xa")
		if xa.Kind() != reflect.String {
			return false
		}
		*(*string)(unsafe.Pointer(xa.UnsafeAddr())) = "NO"
	}
	return true
}

// engines mends what the engine keeps in variables, once.
var engines = sync.OnceValue(func() bool {
	// Its own text has the whole value, of bytes as a list of numbers: it takes seconds to be made.
	types.ErrLengthBeyondLimit.Message = "string '%.64s' is too large for column '%v'"
	return mendEngines()
})
