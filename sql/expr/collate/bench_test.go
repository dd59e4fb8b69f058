package collate

import (
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
)

// BenchmarkAppendKey makes the key of a short string.
func BenchmarkAppendKey(b *testing.B) {
	c := Of(sql.Collation_utf8mb4_0900_ai_ci)
	var buf []byte
	for b.Loop() {
		buf, _ = c.AppendKey(buf[:0], "Customer#000000042", nil)
	}
}
