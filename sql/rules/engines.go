package rules

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/dolthub/go-mysql-server/sql"
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

var engines = sync.OnceValue(mendEngines)
