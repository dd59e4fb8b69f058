package session

import (
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
)

func TestComputedStatus(t *testing.T) {
	hideUnloaded()
	was := began
	defer func() { began = was }()
	began = time.Now().Add(-90 * time.Second)
	global := sql.StatusVariables.NewGlobalMap()
	if n, ok := global["Uptime"].Copy().Value().(uint64); !ok || n < 90 {
		t.Errorf("Uptime is %v", global["Uptime"].Value())
	}
	for _, all := range []map[string]sql.StatusVarValue{global, sql.StatusVariables.NewSessionMap()} {
		before := all["Queries"].Value()
		if err := all["Questions"].Increment(3); err != nil || all["Queries"].Value() == before || all["Queries"].Value() != all["Questions"].Value() {
			t.Errorf("Queries is %v, Questions %v, %v", all["Queries"].Value(), all["Questions"].Value(), err)
		}
		for name := range all {
			if unloaded(name) {
				t.Errorf("%s is shown", name)
			}
		}
	}
}
