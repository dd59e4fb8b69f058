package session

import (
	"runtime"

	"github.com/dolthub/go-mysql-server/sql"
)

// workersVar bounds how many goroutines work for a statement of the session at once: 1 is its own
// alone, 0 as many as there are processors.
const workersVar = "godwit_parallel_workers"

// mostWorkers is its largest value.
const mostWorkers = 1024

func (s *Session) readWorkers(ctx *sql.Context) {
	v, err := s.BaseSession.GetSessionVariable(ctx, workersVar)
	if n, ok := v.(int64); ok && err == nil {
		s.workers = int(n)
	}
}

// Workers is how many goroutines may work for a statement at once, its own among them.
func (s *Session) Workers() int {
	if s.workers == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return s.workers
}
