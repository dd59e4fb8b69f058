package perfschema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/statements"
)

// thread is the name of the only class of threads.
const thread = "thread/sql/one_connection"

var clientTables = []live{
	{name: "accounts", columns: "USER char(32), HOST char(255), CURRENT_CONNECTIONS i64!, TOTAL_CONNECTIONS i64!, " +
		"MAX_SESSION_CONTROLLED_MEMORY u64!, MAX_SESSION_TOTAL_MEMORY u64!",
		rows: func(e *Env, _ *sql.Context) ([]sql.Row, error) {
			return e.connections(func(a statements.Account) statements.Account { return a },
				func(a statements.Account) sql.Row { return sql.Row{orNull(a.User), orNull(a.Host)} }), nil
		}},
	{name: "hosts", columns: "HOST char(255), CURRENT_CONNECTIONS i64!, TOTAL_CONNECTIONS i64!, MAX_SESSION_CONTROLLED_MEMORY u64!, " +
		"MAX_SESSION_TOTAL_MEMORY u64!",
		rows: func(e *Env, _ *sql.Context) ([]sql.Row, error) {
			return e.connections(func(a statements.Account) statements.Account { return statements.Account{Host: a.Host} },
				func(a statements.Account) sql.Row { return sql.Row{orNull(a.Host)} }), nil
		}},
	{name: "users", columns: "USER char(32), CURRENT_CONNECTIONS i64!, TOTAL_CONNECTIONS i64!, MAX_SESSION_CONTROLLED_MEMORY u64!, " +
		"MAX_SESSION_TOTAL_MEMORY u64!",
		rows: func(e *Env, _ *sql.Context) ([]sql.Row, error) {
			return e.connections(func(a statements.Account) statements.Account { return statements.Account{User: a.User} },
				func(a statements.Account) sql.Row { return sql.Row{orNull(a.User)} }), nil
		}},
	{name: "threads", columns: "THREAD_ID u64!, NAME varchar(128)!, TYPE varchar(10)!, PROCESSLIST_ID u64, PROCESSLIST_USER varchar(32), " +
		"PROCESSLIST_HOST varchar(255), PROCESSLIST_DB varchar(64), PROCESSLIST_COMMAND varchar(16), PROCESSLIST_TIME i64, " +
		"PROCESSLIST_STATE varchar(64), PROCESSLIST_INFO longtext, PARENT_THREAD_ID u64, ROLE varchar(64), INSTRUMENTED varchar(3)!, " +
		"HISTORY varchar(3)!, CONNECTION_TYPE varchar(16), THREAD_OS_ID u64, RESOURCE_GROUP varchar(64), EXECUTION_ENGINE varchar(9), " +
		"CONTROLLED_MEMORY u64!, MAX_CONTROLLED_MEMORY u64!, TOTAL_MEMORY u64!, MAX_TOTAL_MEMORY u64!",
		rows: func(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
			for _, p := range e.processes() {
				id, shown := uint64(p.Connection), shownProcess(&p)
				if text, ok := shown.info.(string); ok && !e.sees(ctx, p.User) {
					shown.info = digest.Text(text, 0) // literals of others take PROCESS
				}
				out = append(out, sql.Row{id, thread, "FOREGROUND", id, p.User, hostOf(p.Host), orNull(p.Database), shown.command, shown.seconds,
					shown.state, shown.info, nil, nil, "YES", "YES", nil, nil, nil, "PRIMARY", uint64(0), uint64(0), uint64(0), uint64(0)})
			}
			return out, nil
		}},
	{name: "processlist", columns: "ID u64!, USER varchar(32), HOST varchar(261), DB varchar(64), COMMAND varchar(16), TIME i64, " +
		"STATE varchar(64), INFO longtext, EXECUTION_ENGINE varchar(9)",
		rows: func(e *Env, ctx *sql.Context) (out []sql.Row, err error) {
			for _, p := range e.processes() {
				if !e.sees(ctx, p.User) {
					continue
				}
				shown := shownProcess(&p)
				out = append(out, sql.Row{uint64(p.Connection), p.User, p.Host, orNull(p.Database), shown.command, shown.seconds, shown.state,
					shown.info, "PRIMARY"})
			}
			return out, nil
		}},
	{name: "user_variables_by_thread", columns: "THREAD_ID u64!, VARIABLE_NAME varchar(64)!, VARIABLE_VALUE longblob", rows: userVariables},
}

// processes are the connections of clients, in order.
func (e *Env) processes() []sql.Process {
	all := e.Processes()
	slices.SortFunc(all, func(a, b sql.Process) int { return cmp.Compare(a.Connection, b.Connection) })
	return all
}

// process is what lists of processes show of one.
type process struct {
	command     string
	seconds     int64
	state, info any
}

func shownProcess(p *sql.Process) process {
	out := process{command: string(p.Command), seconds: int64(p.Seconds())}
	if runs(p) {
		out.state, out.info = "executing", p.Query
	}
	return out
}

// runs reports whether a statement of the client runs.
func runs(p *sql.Process) bool { return p.Command == sql.ProcessCommandQuery && p.Query != "" }

// connections are the rows of a table of connections by account, or by a part of it.
func (e *Env) connections(part func(statements.Account) statements.Account, key func(statements.Account) sql.Row) (out []sql.Row) {
	type count struct{ now, all, memory uint64 }
	counts := map[statements.Account]*count{}
	of := func(a statements.Account) *count {
		a = part(a)
		if counts[a] == nil {
			counts[a] = new(count)
		}
		return counts[a]
	}
	by, clients := e.Statements.ByAccount()
	for a, n := range clients {
		of(a).all += n
	}
	for a, names := range by {
		for _, t := range names {
			c := of(a)
			c.memory = max(c.memory, uint64(t.Work.Memory))
		}
	}
	known := map[uint32]bool{}
	for _, c := range e.Statements.Clients() {
		known[c.Connection] = true
		of(c.Account).now++
	}
	for _, p := range e.Processes() {
		if !known[p.Connection] && p.Command != sql.ProcessCommandConnect { // it has sent no statement yet
			c := of(statements.Account{User: p.User, Host: p.Host})
			c.now++
			c.all++
		}
	}
	for a, c := range counts {
		out = append(out, append(key(a), int64(c.now), int64(c.all), uint64(0), c.memory))
	}
	return sorted(out)
}

// sorted orders rows by their texts.
func sorted(rows []sql.Row) []sql.Row {
	slices.SortFunc(rows, func(a, b sql.Row) int {
		for i := range a {
			if c := strings.Compare(fmt.Sprint(a[i]), fmt.Sprint(b[i])); c != 0 {
				return c
			}
		}
		return 0
	})
	return rows
}

// userVariables are those of the session that asks: those of others belong to their goroutines.
func userVariables(_ *Env, ctx *sql.Context) (out []sql.Row, err error) {
	s, id := mine(ctx)
	if s == nil {
		return nil, nil
	}
	for _, name := range s.UserVariables() {
		_, v, err := ctx.GetUserVariable(ctx, name)
		if err != nil || v == nil {
			continue
		}
		b, ok := v.([]byte)
		if !ok {
			b = fmt.Append(nil, v)
		}
		out = append(out, sql.Row{id, name, b})
	}
	return out, nil
}

// picoseconds is the unit of time of these tables.
func picoseconds(d time.Duration) uint64 { return uint64(max(d, 0)) * 1000 }

// statementTotals are the columns that all summaries of statements have.
func statementTotals(t *digest.Totals) []any {
	w := &t.Work
	return []any{t.Count, picoseconds(t.Sum), picoseconds(t.Min), picoseconds(t.Mean()), picoseconds(t.Max), uint64(0), t.Errors, t.Warnings,
		t.Affected, t.Sent, w.Examined, w.Files, w.Tables, w.FullJoins, w.RangeJoins, w.Ranges, uint64(0), w.Scans, w.Merges, uint64(0),
		w.Sorted, w.Sorts, t.Unindexed, uint64(0), uint64(0), uint64(0), uint64(w.Memory), uint64(0)}
}
