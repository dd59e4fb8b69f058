package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// question is a query whose answer a page shows.
type question struct {
	name, query string
	args        []any
	cell        int // how long a value may be, in bytes; 0: as long as those of others
}

// panels are the questions of each page, by its name.
var panels = map[string][]question{
	"map": {
		{name: "nodes", query: "SELECT * FROM godwit.nodes"},
		{name: "groups", query: "SELECT * FROM godwit.groups"},
		{name: "links", query: "SELECT peer, region, connected, rtt_ms, sent_bytes, wire_bytes, received_bytes, " +
			"packets, resent_packets, loss, lost_messages, relay, detour FROM godwit.links"},
		{name: "region_links", query: "SELECT * FROM godwit.region_links"},
		{name: "answers", query: "SELECT * FROM godwit.answers"},
		{name: "round_trips", query: "SELECT * FROM godwit.round_trips"},
		{name: "moves", query: "SELECT at, row_name, from_region, to_region, why FROM godwit.moves " +
			"WHERE NOT dry_run ORDER BY at DESC LIMIT 60"},
		{name: "leader_moves", query: "SELECT * FROM godwit.leader_moves ORDER BY at DESC LIMIT 20"},
		{name: "problems", query: "SELECT * FROM godwit.problems"},
		{name: "places", query: "SELECT value FROM godwit.settings WHERE variable = 'console.places'"},
	},
	"statements": {
		{name: "statements", query: "SELECT region, digest_text, statements, p50_ms, p99_ms, avg_ms, total_ms, wan_round_trips, " +
			"crossed_wan, wan_bytes, retries, errors, rows_sent, rows_affected, rows_moved, replica_wait_ms, max_memory_bytes, in_transactions, " +
			"schema_name, node, last_seen, sample, digest FROM godwit.statements ORDER BY total_ms DESC LIMIT 500"},
		{name: "running", query: "SELECT id, user, host, db AS current_db, command, time AS time_s, state, info AS statement " +
			"FROM information_schema.processlist WHERE command <> 'Sleep' AND id <> CONNECTION_ID() ORDER BY time DESC LIMIT 100"},
		{name: "admission", query: "SELECT * FROM godwit.admission"},
		{name: "fallbacks", query: "SELECT * FROM godwit.fallbacks ORDER BY statements DESC LIMIT 50"},
	},
	"advice": {
		{name: "advice", query: "SELECT * FROM godwit.advice ORDER BY advice"},
	},
	"why": {
		{name: "tables", query: "SELECT CONCAT(table_schema, '.', table_name) AS table_name FROM information_schema.tables WHERE table_type = " +
			"'BASE TABLE' AND table_schema NOT IN ('godwit', 'information_schema', 'mysql', 'performance_schema', 'sys') ORDER BY 1 LIMIT 500"},
		{name: "transactions", query: "SELECT * FROM godwit.transactions ORDER BY age_ms DESC LIMIT 200"},
		{name: "locks", query: "SELECT * FROM godwit.locks ORDER BY granted LIMIT 500"},
		{name: "moves", query: "SELECT at, row_name, from_region, to_region, triggered_by, why, cost, dry_run " +
			"FROM godwit.moves ORDER BY at DESC LIMIT 100"},
		{name: "heat", query: "SELECT * FROM godwit.heat ORDER BY heat DESC LIMIT 50"},
		{name: "leader_moves", query: "SELECT * FROM godwit.leader_moves ORDER BY at DESC LIMIT 50"},
		{name: "clock_history", query: "SELECT * FROM godwit.clock_history ORDER BY at DESC LIMIT 50"},
		{name: "consistency", query: "SELECT * FROM godwit.consistency ORDER BY at DESC LIMIT 50"},
		{name: "splits", query: "SELECT * FROM godwit.splits ORDER BY at DESC LIMIT 50"},
		{name: "plan_history", query: "SELECT * FROM godwit.plan_history ORDER BY at DESC LIMIT 50"},
		{name: "health_history", query: "SELECT * FROM godwit.health_history ORDER BY at DESC LIMIT 100"},
	},
	"health": {
		{name: "problems", query: "SELECT * FROM godwit.problems"},
		{name: "health", query: "SELECT * FROM godwit.health"},
		{name: "nodes", query: "SELECT node, region, state, rtt_ms, leads, replicas, statements, sessions, disk_bytes, " +
			"mem_bytes, uptime_s, version FROM godwit.nodes"},
		{name: "groups", query: "SELECT * FROM godwit.groups"},
		{name: "clock", query: "SELECT * FROM godwit.clock"},
		{name: "replicas", query: "SELECT * FROM godwit.replicas"},
		{name: "jobs", query: "SELECT * FROM godwit.jobs"},
		{name: "waits", query: "SELECT * FROM godwit.lock_waits LIMIT 200"},
		{name: "certificates", query: "SELECT * FROM godwit.certificates"},
		{name: "backups", query: "SHOW BACKUP SCHEDULES"},
		{name: "epochs", query: "SELECT node, region, state, view_number, applied_epoch, lag_epochs, committed, conflicts, " +
			"resubmitted, why FROM godwit.epochs"},
	},
	"node": {
		{name: "health", query: "SELECT * FROM godwit.health WHERE node = ?"},
		{name: "clock", query: "SELECT * FROM godwit.clock WHERE node = ?"},
		{name: "changes", query: "SELECT * FROM godwit.health_history WHERE node = ? ORDER BY at DESC LIMIT 5"},
	},
	"table": {
		{name: "locality"}, // SHOW LOCALITY takes no placeholder
		{name: "homes", query: "SELECT home_region, COUNT(*) AS hot_rows, SUM(heat) AS heat, SUM(home_heat) AS home_heat, SUM(pinned) AS pinned_rows " +
			"FROM godwit.heat WHERE table_name = ? GROUP BY home_region"},
		{name: "moves", query: "SELECT at, row_name, from_region, to_region, why, dry_run FROM godwit.moves WHERE table_name = ? " +
			"ORDER BY at DESC LIMIT 50"},
		{name: "statements", query: "SELECT region, digest_text, statements, p50_ms, p99_ms, total_ms, wan_round_trips FROM godwit.statements " +
			"WHERE digest_text LIKE CONCAT('%`', SUBSTRING_INDEX(?, '.', -1), '`%') ORDER BY total_ms DESC LIMIT 50"},
		{name: "advice", query: "SELECT kind, why, do_this, saves_s, region, statement_kind, p50_ms, p50_ms_after FROM godwit.advice WHERE table_name = ?"},
		{name: "splits", query: "SELECT * FROM godwit.splits WHERE table_name = ? ORDER BY at DESC LIMIT 20"},
	},
	"elsewhere": {
		{name: "elsewhere", query: "SELECT * FROM godwit.elsewhere WHERE digest = ? ORDER BY region, avg_ms_there"},
	},
	"then": {
		{name: "moments", query: "SELECT at, state FROM godwit.moments WHERE at <= ? ORDER BY at DESC LIMIT 2", cell: watching.bytes / 2},
		{name: "span", query: "SELECT MIN(at) AS first, MAX(at) AS last FROM godwit.moments"},
		{name: "moves", query: "SELECT at, row_name, from_region, to_region, why FROM godwit.moves " +
			"WHERE NOT dry_run AND at <= ? AND at > ? - INTERVAL 1 MINUTE ORDER BY at DESC LIMIT 60"},
		{name: "leader_moves", query: "SELECT * FROM godwit.leader_moves WHERE at <= ? AND at > ? - INTERVAL 1 MINUTE " +
			"ORDER BY at DESC LIMIT 20"},
	},
	"row": {
		{name: "heat", query: "SELECT * FROM godwit.heat WHERE row_name = ?"},
		{name: "moves", query: "SELECT at, from_region, to_region, triggered_by, why, why_json, cost, bytes, dry_run " +
			"FROM godwit.moves WHERE row_name = ? ORDER BY at DESC LIMIT 100"},
	},
}

// maxRowName bounds the name of a row that is asked for, in bytes.
const maxRowName = 1024

// maxDigest is how many digits a digest has.
const maxDigest = 64

// shown is the answer to a page.
type shown struct {
	At     time.Time         `json:"at"`
	Tables map[string]*table `json:"tables"`
	// Places are where the regions of the map are.
	Places map[string]Place `json:"places,omitempty"`
}

// bind puts into the questions of a page what the viewer asks for; then it is for that one viewer.
// why says what is wrong with that.
func bind(name string, questions []question, q url.Values) (asked bool, why string) {
	value := ""
	switch name {
	case "row":
		if value = q.Get("name"); value == "" || len(value) > maxRowName {
			return true, "name a row, such as shop.carts(7), in 1024 bytes at most"
		}
	case "table":
		db, table, _ := strings.Cut(q.Get("name"), ".")
		if value = q.Get("name"); db == "" || table == "" || len(value) > maxRowName {
			return true, "name a table, such as shop.carts, in 1024 bytes at most"
		}
		questions[0].query = "SHOW LOCALITY FROM " + quote(db) + "." + quote(table)
	case "node":
		if n, err := strconv.ParseUint(q.Get("id"), 10, 16); err != nil || n == 0 {
			return true, "name a node by its number, as id=2"
		}
		value = q.Get("id")
	case "elsewhere":
		if value = q.Get("digest"); len(value) != maxDigest {
			return true, "name a digest of 64 digits, as godwit.statements has them"
		}
	case "then":
		at, err := time.Parse(time.RFC3339, q.Get("at"))
		if err != nil {
			return true, "name a time as at=2006-01-02T15:04:05Z"
		}
		value = at.UTC().Format("2006-01-02 15:04:05.000000")
	default:
		return false, ""
	}
	for i, x := range questions {
		for range strings.Count(x.query, "?") {
			if i > 0 || name != "table" { // a name may have a question mark
				questions[i].args = append(questions[i].args, value)
			}
		}
	}
	return true, ""
}

// quote writes a name as SQL has it.
func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// panel answers what a page shows.
func (c *Console) panel(w http.ResponseWriter, r *http.Request, s *session) {
	name := r.PathValue("panel")
	questions := slices.Clone(panels[name])
	if questions == nil {
		fail(w, http.StatusNotFound, "the console has no such page")
		return
	}
	asked, why := bind(name, questions, r.URL.Query())
	if why != "" {
		fail(w, http.StatusBadRequest, why)
		return
	}
	select {
	case s.asked <- struct{}{}:
		defer func() { <-s.asked }()
	default:
		fail(w, http.StatusTooManyRequests, "the pages of this session ask for more than the node can answer: close some")
		return
	}
	ctx, done := context.WithTimeout(r.Context(), watching.timeout)
	defer done()
	out, known := shown{}, false
	if !asked {
		out, known = c.shared.get(name, s.user, time.Now())
	}
	if !known {
		out = shown{At: time.Now(), Tables: s.tables(ctx, questions)}
	}
	if s.lost() {
		c.sessions.remove(s)
		fail(w, http.StatusUnauthorized, "the node has ended the connection of this session: log in again")
		return
	}
	if name == "map" && !known {
		out.Places = out.place()
	}
	if !asked && !known && ctx.Err() == nil {
		c.shared.put(name, s.user, out)
	}
	answer(w, http.StatusOK, out)
}

// tables asks questions over all connections at once.
func (s *session) tables(ctx context.Context, questions []question) map[string]*table {
	out := map[string]*table{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := 0
	for _, l := range s.watch {
		wg.Go(func() {
			for !l.lost() {
				mu.Lock()
				if next == len(questions) {
					mu.Unlock()
					return
				}
				q := questions[next]
				next++
				mu.Unlock()
				b := watching
				b.cell = cmp.Or(q.cell, b.cell)
				t := l.ask(ctx, b, q.query, q.args...)
				mu.Lock()
				out[q.name] = t
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return out
}

// place says where the regions of the nodes are.
func (out *shown) place() map[string]Place {
	var regions []string
	nodes := out.Tables["nodes"]
	if i := slices.Index(nodes.Columns, "region"); i >= 0 {
		for _, row := range nodes.Rows {
			regions = append(regions, text(row[i]))
		}
	}
	var given map[string]Place
	if rows := out.Tables["places"].Rows; len(rows) == 1 && len(rows[0]) == 1 {
		given, _ = ParsePlaces(text(rows[0][0])) // SET CLUSTER SETTING has refused what cannot be read
	}
	return locate(regions, given)
}
