// Package layers holds no code: its test keeps the import table of
// docs/design.md, so that a policy cannot grow a socket and a state machine
// cannot grow a disk without somebody deciding it here.
package layers

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/godwitdb/godwit"

// types are layer 0: everybody above may import them.
var types = []string{"base", "obs", "wire", "kv"}

// mechanisms are layer 2, and the policies that their drivers need.
var mechanisms = []string{
	"mechanism/clock", "mechanism/clock/timeserver", "mechanism/lock", "mechanism/store", "mechanism/wan", "mechanism/group",
	"policy/crossing", "policy/home", "policy/leader", "policy/matrix", "policy/replica", "kv/patch",
}

// cluster is what a whole cluster in one process is made of: what the rig of the benchmarks may
// use.
var cluster = append([]string{"owner", "txn", "cluster", "cluster/join", "node"}, mechanisms...)

// benchmark is what the benchmark of a paper may use: a cluster, the rig, and the parts that it is
// about.
func benchmark(more ...string) []string {
	return append(append([]string{"lab/bench/rig"}, cluster...), more...)
}

// allowed says which packages of Godwit each package may import, besides those of "types".
// A package that is not listed may not exist.
var allowed = map[string][]string{
	// layer 0: words
	"base": nil, "base/basetest": nil, "base/sealed": nil, "obs": nil, "obs/audit": nil, "obs/otlp": nil,
	"wire": nil, "kv": nil, "kv/patch": {"sql/schema/rowfmt"},
	// who takes a hold is above all, who respects it below: they meet at the contract
	"kv/hold": nil,
	// who does a job is above all: what is kept of it is a row
	"kv/job": nil,
	// private keeps rows of one session, and knows neither sessions nor tables
	"kv/private": nil,
	// layer 1: policies, which are pure
	"policy/coord": nil, "policy/crossing": nil, "policy/filter": nil, "policy/home": nil, "policy/leader": nil,
	"policy/matrix": nil, "policy/placement": nil, "policy/advice": nil, "policy/plan": nil, "policy/replica": nil,
	"policy/split": nil,
	// epoch is a pure core over another one: what filters leave out must not matter to it.
	"policy/epoch": {"policy/filter"},
	// layer 2: mechanisms
	"mechanism/clock": nil, "mechanism/lock": nil, "mechanism/store": {"base/sealed"},
	"mechanism/clock/timeserver": {"mechanism/clock"},
	// ident knows certificates, and neither topologies nor connections: who accepts one compares.
	"mechanism/ident": nil,
	"mechanism/wan":   {"mechanism/clock"},
	"mechanism/group": {"mechanism/store", "mechanism/wan"},
	// collective executes plans over the transport, and knows no database: it is a library of its
	// own.
	"mechanism/collective": {"policy/plan", "mechanism/wan"},
	// overlay is a transport over the transport.
	"mechanism/wan/overlay": {"policy/plan", "mechanism/wan"},
	// pipe is a listener without sockets, for virtual time.
	"mechanism/wan/pipe": nil,
	// wanemu moves the bytes of unmodified programs, and knows nothing of Godwit.
	"mechanism/wan/wanemu": nil,
	// layer 3: transactions
	"txn/multimaster": {"policy/epoch", "policy/filter", "policy/plan", "mechanism/collective", "mechanism/store",
		"mechanism/wan"},
	// which replicas are here has nothing to do with what they are
	"owner/held": nil,
	// what a view of the store shows rests on the store alone: no lock, no lease, no log
	"owner/view": {"mechanism/store"},
	// what the log alone decides looks at no clock but to note when it learned of something; the
	// names of the clock's modes are part of the log
	"owner/state":  {"mechanism/clock", "mechanism/group", "mechanism/store"},
	"owner/rewind": {"owner/state", "mechanism/group", "mechanism/store"},
	// the states of a lead are a table: owner sends, logs and waits
	"owner/lead": {"owner/tscache", "mechanism/clock"},
	// the way to a leader knows how long outcomes are remembered, and no replica
	"owner/route": {"owner/state", "mechanism/wan"},
	// who led before is asked until its lease is over: it knows no replica
	"owner/recall": {"owner/route", "owner/state", "mechanism/clock"},
	// what is measured is told to whoever asks
	"owner/gauge": nil,
	// numbered steps, whatever they are
	"owner/inorder": nil,
	// Plain settings, the bounds of the lock table among them.
	"owner/tuning": {"mechanism/lock"},
	// what was read is a matter of keys and timestamps only
	"owner/tscache": nil,
	// the table of transactions waits for nothing: whoever waits is in owner. A new leader fills it
	// from what the log says.
	// Which patches may be pending together is a matter of the patches.
	"owner/txns": {"owner/state", "owner/view", "mechanism/lock", "kv/patch"},
	// what a commit comes to is seen in one view: owner takes the locks, and waits for what that
	// view lacks
	"owner/evaluate": {"owner/txns", "owner/view", "mechanism/store", "kv/patch"},
	// the policy of homes is told of rows and asked: it holds no lock, and logs nothing
	"owner/homing": {"owner/txns", "owner/view"},
	// how long a request waits for a lock, and deadlocks over tables: it knows no replica and sends
	// no message
	"owner/waits": {"owner/txns", "mechanism/lock"},
	// records of transactions that XA has prepared: bytes alone
	"owner/prepared": nil,
	"owner": append([]string{
		"owner/view", "owner/state", "owner/rewind", "owner/tscache", "owner/txns", "owner/route", "owner/lead", "owner/evaluate",
		"owner/gauge", "owner/held", "owner/homing", "owner/inorder", "owner/prepared", "owner/recall", "owner/tuning", "owner/waits",
	}, mechanisms...),
	// what a transaction has read and written at its gateway: no owner is asked
	"txn/background": nil, "txn/bounds": {"mechanism/wan"}, "txn/contended": nil, "txn/gate": nil, "txn/kept": nil, "txn/runs": nil, "txn/known": nil, "txn/lately": nil, "txn/touched": nil,
	"txn/hints":    {"owner"},
	"txn/slottime": {"txn/lately"},
	// what is asked twice changes nothing, whoever is asked
	"txn/hedge":   {"policy/replica"},
	"txn/staging": nil,
	// the policy of homes decides, and it moves: an ordinary transaction
	"txn/mover": {"owner/homing"},
	// what does not fit into memory goes to files that nobody else can read
	"txn/writes": {"base/sealed"},
	"txn": append([]string{"owner", "owner/homing", "owner/prepared", "owner/route", "txn/background", "txn/bounds", "txn/contended", "txn/gate", "txn/hedge", "txn/hints", "txn/kept", "txn/known", "txn/lately",
		"txn/runs", "txn/slottime", "txn/staging", "txn/touched", "txn/writes"}, mechanisms...),
	// how well a node is follows from facts that it is told
	"cluster/health": nil,
	// a process that belongs to no cluster yet has no replica, no transport and no clock
	"cluster/join": {"cluster/fence", "policy/placement"},
	// whether a store is an old copy follows from what it and others remember
	"cluster/fence": nil,
	// what a cluster says of itself to people follows from facts that it is told
	"cluster/report": {"cluster/health", "mechanism/clock", "policy/placement"},
	// upgrades and the replacement of nodes are decided by what is known of the nodes
	"cluster/upgrade": nil,
	"cluster/placed":  {"policy/placement"},
	"cluster/replace": {"cluster/report", "policy/placement"},
	"cluster": append([]string{"cluster/health", "cluster/join", "cluster/placed", "cluster/replace", "cluster/report", "cluster/upgrade", "owner", "owner/gauge", "txn", "policy/coord",
		"policy/placement"}, mechanisms...),
	// layer 4: SQL
	"sql/function": nil,
	// aside runs what cannot be interrupted, and does not know what that is
	"sql/aside": nil,
	// named locks belong to sessions of one node, and to no row
	"sql/named": nil,
	// infile makes a LOAD DATA an INSERT from its file, and knows no tables of the store
	"sql/infile": {"sql/algebra", "sql/assign", "sql/bind", "sql/charset", "sql/exec", "sql/expr", "sql/expr/calendar", "sql/tape"},
	// tape knows nothing of what it keeps
	"sql/tape": {"base/sealed", "sql/exec/tempfile"},
	// parted ends the transactions of a LOAD DATA, and knows none of its rows
	"sql/parted": {"sql/given", "sql/infile", "sql/schema", "sql/session"},
	// rules mends plans of the engine, and knows nothing of where rows are
	"sql/rules": nil,
	// rowfmt is a leaf: the byte format of rows, which those who patch rows have to know, too.
	"sql/schema/rowfmt": nil,
	// zone knows names of time zones, and what a clock there shows
	"sql/zone":    {"sql/expr/calendar"},
	"sql/schema":  {"sql/expr/calendar", "sql/schema/rowfmt", "sql/uca", "sql/zone"},
	"sql/session": {"kv/private", "sql/charset", "sql/expr/crypt", "sql/kill", "sql/schema", "sql/tape", "sql/work", "sql/zone"},
	"sql/table":   {"sql/expr/collate", "sql/expr/fulltext", "sql/function", "sql/schema", "sql/session", "sql/stats", "sql/zone"},
	// stats estimates from samples, and knows neither tables nor types
	"sql/stats": nil,
	// prefetch replaces how the engine asks for rows, and changes nothing.
	"sql/prefetch":     {"sql/rules", "sql/schema", "sql/session", "sql/table"},
	"sql/ddl/placing":  {"sql/schema"},
	"sql/ddl/like":     {"sql/schema", "sql/session"},
	"sql/ddl/convert":  {"sql/access", "sql/assign", "sql/expr", "sql/given", "sql/schema"},
	"sql/ddl/sharding": {"sql/schema"},
	"sql/ddl/sorted":   {"sql/schema"},
	"sql/ddl/ahead":    {"sql/program", "sql/schema", "sql/session", "sql/token"},
	"sql/ddl":          {"sql/ddl/ahead", "sql/ddl/convert", "sql/ddl/like", "sql/ddl/placing", "sql/ddl/sharding", "sql/ddl/sorted", "sql/function", "sql/program", "sql/schema", "sql/session", "sql/table", "sql/token"},
	"sql/fast":         {"kv/patch", "sql/rights", "sql/schema", "sql/schema/rowfmt", "sql/session", "sql/table", "sql/zone"},
	// oneshot takes transactions apart by the templates of fast and the texts of programs, and runs
	// none of their statements itself
	"sql/oneshot": {"kv/patch", "sql/fast", "sql/program", "sql/schema", "sql/session", "sql/tally"},
	// tally counts words
	"sql/tally": nil,
	// work counts what executors do, and knows none of them
	"sql/work": nil,
	// bound counts what the engine keeps, and knows nothing of tables
	"sql/bound": {"sql/admit", "sql/aside", "sql/exec", "sql/expr/collate", "sql/expr/jsondoc", "sql/rules"},
	// lent computes for the engine what package expr does, and counts it to the statement
	// kill knows of a statement that it runs, or waits to begin, and whether it was killed
	"sql/kill": {"sql/admit"},
	// verify reads rows and entries, and knows no session: who asks begins and ends the reading
	"sql/verify": {"sql/schema"},
	"sql/lent":   {"sql/bound", "sql/expr", "sql/expr/fn", "sql/function"},
	// archive is bytes, place is where they lie: neither knows a table, and fuzzing is fast. delta
	// reads changes, computed virtual columns; pace is how fast it writes, residence to whose place
	// rows go, sanity judges definitions, decode rows, merge puts them in order, rehearse adds them
	// up
	"sql/backup/archive": nil, "sql/backup/place": nil, "sql/backup/pace": nil, "sql/backup/delta": nil, "sql/backup/parallel": nil, "sql/backup/answer": nil, "sql/backup/turns": {"sql/admit"},
	"sql/backup/merge":    {"base/sealed", "sql/backup/archive", "sql/exec/tempfile"},
	"sql/backup/rehearse": {"sql/admit", "sql/backup/archive", "sql/backup/decode", "sql/backup/parallel", "sql/backup/residence", "sql/backup/turns", "sql/schema"},
	"sql/backup/computed": {"sql/schema"}, "sql/backup/decode": {"sql/backup/archive", "sql/schema"}, "sql/backup/residence": {"sql/schema"}, "sql/backup/sanity": {"sql/schema"},
	// backup reads and writes rows by the contract of transactions, without the engine's plans
	// phrase reads words, and knows no statement
	"sql/phrase": {"sql/schema"},
	"sql/backup": {"kv/hold", "kv/job", "sql/admit", "sql/backup/answer", "sql/backup/turns", "sql/backup/archive", "sql/backup/computed", "sql/backup/decode", "sql/backup/delta", "sql/backup/merge", "sql/backup/rehearse", "sql/backup/pace", "sql/backup/parallel", "sql/backup/place", "sql/backup/residence", "sql/backup/sanity", "sql/ddl", "sql/ddl/placing", "sql/phrase", "sql/rights", "sql/schema",
		"sql/session", "sql/table"},
	// feed tells what was committed: it knows rows and definitions, and no statement
	"sql/feed": {"kv/hold", "sql/schema"},
	// binlog words what feed tells for replicas, and knows no sessions of the engine
	"sql/binlog": {"sql/describe", "sql/feed", "sql/schema", "sql/token"},
	// follow is a client of a source, and knows its target by statements only
	"sql/follow": nil,
	// event words rows, sink sends bytes: neither knows jobs
	"sql/changefeed/event": {"sql/schema"}, "sql/changefeed/avro": {"sql/changefeed/event", "sql/schema"},
	"sql/changefeed/sink": {"sql/backup/place", "sql/changefeed/avro"},
	// changefeed runs feeds as jobs, and reads what package feed reads for it
	"sql/changefeed": {"sql/changefeed/avro", "kv/hold", "kv/job", "sql/changefeed/event", "sql/changefeed/sink", "sql/ddl", "sql/feed", "sql/phrase", "sql/rights",
		"sql/schema", "sql/session"},
	// replica applies what follow reads, in sessions like those of clients
	"sql/replica": {"kv/job", "sql/ddl", "sql/follow", "sql/phrase", "sql/rights", "sql/schema", "sql/session", "sql/standin"},
	// rowfile is bytes of files, as LOAD DATA divides them: it knows no table
	"sql/bulk/rowfile": {"sql/infile"},
	// share divides jobs among nodes: it knows no rows
	"sql/bulk/share": {"kv/job", "sql/schema"},
	// bulk loads and reads rows in sessions like those of clients
	"sql/bulk": {"kv/hold", "kv/job", "sql/backup/place", "sql/bulk/rowfile", "sql/bulk/share", "sql/ddl", "sql/phrase", "sql/query", "sql/rights", "sql/rules", "sql/schema",
		"sql/session", "sql/standin"},
	// standin knows no session
	"sql/standin": nil,
	// sockets know nothing of SQL
	"sql/quick":   nil,
	"sql/rowlist": {"sql/exec/budget", "sql/schema", "sql/tape"},
	"sql/server": {"sql/xa", "sql/locked", "sql/diagnostics", "sql/charset", "sql/late", "sql/verify", "sql/admit", "sql/aside", "sql/audited", "sql/backup", "sql/backup/pace", "sql/backup/place", "sql/binlog", "sql/bulk", "sql/standin", "sql/changefeed", "sql/changefeed/sink", "sql/bound", "sql/feed", "sql/quick", "sql/rights", "sql/rules", "sql/schema", "sql/session", "sql/table", "sql/kill", "sql/lent", "sql/named", "sql/prefetch", "sql/ddl", "sql/ddl/like", "sql/ddl/sharding", "sql/ending", "sql/fast", "sql/oneshot", "sql/perfschema", "sql/query", "sql/tally",
		"sql/statements", "sql/sysschema", "sql/virtual", "sql/describe", "sql/infile", "sql/infoschema", "sql/regionkey", "sql/replica", "sql/rewrite", "sql/digest", "sql/events",
		"sql/function", "sql/stored",
		"sql/token", "sql/users", "sql/weigh", "sql/zone", "obs", "obs/audit"},
	// users keeps what the engine's users are, and knows no statement
	"sql/users": {"sql/rights", "sql/schema", "sql/session"},
	// ending ends transactions, and knows no tables
	"sql/ending": {"sql/session", "sql/token"},
	// locked judges names by those that a session has locked, and takes no lock
	"sql/locked": {"sql/schema", "sql/session"},
	"sql/xa":     {"sql/rights", "sql/session", "sql/token"},
	// diagnostics shows what a session has of its last statement
	"sql/diagnostics": {"sql/expr", "sql/given", "sql/program", "sql/schema", "sql/session", "sql/token"},
	// events says when what is run, and where, and runs nothing itself
	"sql/events": {"kv/job", "sql/ddl", "sql/rights", "sql/schema", "sql/session"},
	// stored makes and shows stored functions, and calls none
	"sql/stored": {"sql/assign", "sql/ddl", "sql/describe", "sql/expr", "sql/program", "sql/rights", "sql/schema", "sql/session",
		"sql/token"},
	// regionkey makes keys of a region and the time, and asks nobody
	"sql/regionkey": nil,
	// describe words descriptors, and asks nobody
	"sql/describe":   {"sql/schema", "sql/token", "sql/zone"},
	"sql/infoschema": {"sql/describe", "sql/rights", "sql/schema", "sql/session", "sql/table"},
	// rewrite changes texts and their trees, and looks nothing up
	"sql/rewrite": {"sql/bound", "sql/ddl", "sql/expr/fulltext", "sql/function", "sql/schema", "sql/session", "sql/token", "sql/zone"},
	// digest counts texts, and knows neither sessions nor tables
	"sql/digest": {"obs/audit", "sql/work"},
	// recording keeps texts and literals, and knows no session; recorded knows tables
	"sql/recording": {"sql/digest", "sql/token"},
	"sql/recorded":  {"sql/ddl/placing", "sql/describe", "sql/recording", "sql/schema"},
	// rowuse reads which rows the texts of a recording name, and knows no tables
	"sql/rowuse": {"sql/bind/tree", "sql/recording"},
	// virtual knows how a table looks that is not stored, and not what it says
	"sql/virtual":    {"sql/session"},
	"sql/statements": {"sql/digest", "sql/recording", "sql/session", "sql/virtual"},
	// system reads tables that are not stored, and knows none of them
	"sql/system": {"sql/algebra", "sql/exec", "sql/expr", "sql/expr/calendar", "sql/rights", "sql/table"},
	// sysschema words what perfschema and the catalog know
	"sql/sysschema": {"sql/ddl", "sql/describe", "sql/perfschema", "sql/schema", "sql/session", "sql/virtual"},
	// perfschema words what others count, and counts nothing
	"sql/perfschema": {"sql/ddl", "sql/digest", "sql/rights", "sql/session", "sql/statements", "sql/virtual"},
	// rights hides the passwords of statements that it shows, and has tables of its own
	"sql/rights":  {"obs/audit", "sql/schema", "sql/session", "sql/virtual"},
	"sql/audited": {"sql/bound", "sql/session", "obs/audit"},
	"sql/sqltest": nil,
	// expr computes, exec moves batches: neither knows what a table, a key or a session is, so that
	// both are tested in seconds.
	"sql/expr": {"sql/expr/calendar", "sql/expr/collate", "sql/expr/jsondoc"},
	// leaves: dates and times as numbers, strings by collations, documents, full-text searches
	"sql/expr/exprtest": {"sql/expr"}, "sql/expr/fn": {"sql/aside", "sql/expr", "sql/expr/calendar", "sql/expr/collate",
		"sql/digest", "sql/expr/crypt", "sql/expr/fulltext", "sql/expr/jsondoc", "sql/expr/regex", "sql/function", "sql/order", "sql/uca", "sql/zone"}, "sql/expr/regex": nil, "sql/expr/crypt": nil, "sql/expr/calendar": nil, "sql/expr/collate": {"sql/uca"}, "sql/uca": nil,
	"sql/expr/fulltext": nil, "sql/expr/jsondoc": {"sql/order"},
	// admit only counts and waits
	"sql/admit": nil,
	// order sorts whatever it is given
	"sql/order": nil,
	// hashing numbers keys of columns
	"sql/exec/tempfile": nil,
	"sql/exec/hashing":  {"sql/expr"},
	"sql/exec/bounds":   {"sql/expr"},
	// budget only counts bytes
	"sql/exec/budget": nil,
	// jsontable reads a syntax, and makes rows of documents; it asks for none
	"sql/jsontable": {"sql/expr", "sql/expr/jsondoc"},
	// helper lends processors; sorting orders columns, with one of them
	"sql/exec/helper":  {"sql/admit"},
	"sql/exec/sorting": {"sql/exec/helper", "sql/expr", "sql/order"},
	"sql/exec":         {"base/sealed", "sql/admit", "sql/exec/bounds", "sql/exec/budget", "sql/exec/hashing", "sql/exec/helper", "sql/exec/sorting", "sql/exec/tempfile", "sql/expr", "sql/expr/fn", "sql/expr/jsondoc", "sql/jsontable", "sql/order", "sql/work"},
	// exchange copies operators, and knows none of them
	"sql/exec/exchange": {"sql/admit", "sql/exec", "sql/exec/helper", "sql/expr"},
	// algebra is the form of a query: who binds, plans or describes tables meets here
	"sql/algebra": {"sql/expr", "sql/jsontable"},
	"sql/bind":    {"sql/algebra", "sql/bind/tree", "sql/expr", "sql/expr/fn", "sql/expr/fulltext", "sql/jsontable"},
	// tree knows texts only
	"sql/bind/tree": {"sql/jsontable", "sql/token"},
	// views and selected read texts, result knows batches
	"sql/views": {"sql/algebra"}, "sql/result": {"sql/algebra", "sql/assign", "sql/bind", "sql/expr", "sql/schema"},
	// flow says which changes write while they read, and runs none
	"sql/flow":     {"sql/algebra", "sql/bind", "sql/opt", "sql/schema"},
	"sql/selected": {"sql/token"},
	// token splits texts, program runs control flow: neither knows a statement
	"sql/token": nil, "sql/weigh": {"sql/token"}, "sql/program": {"sql/expr", "sql/token"},
	"sql/opt": {"sql/algebra", "sql/bind", "sql/exec", "sql/exec/exchange", "sql/expr", "sql/expr/calendar"},
	// assign knows types, and no statement
	"sql/assign": {"sql/bind", "sql/expr", "sql/expr/calendar", "sql/expr/jsondoc", "sql/schema", "sql/token"},
	// given makes constants of what clients send, and knows no statement
	"sql/charset": {"sql/token"},
	"sql/late":    {"sql/kill"},
	"sql/given":   {"sql/algebra", "sql/bind", "sql/expr", "sql/schema", "sql/session", "sql/zone"},
	// lookup and returning compute expressions over rows that they are given
	"sql/lookup": {"sql/algebra", "sql/bind", "sql/exec", "sql/expr", "sql/opt"},
	"sql/returning": {"sql/access", "sql/algebra", "sql/bind", "sql/bind/tree", "sql/exec", "sql/expr", "sql/lookup", "sql/result", "sql/rowlist",
		"sql/schema"},
	// query runs SELECTs and changes: the only one who knows them all
	"sql/query": {"sql/lookup", "sql/returning", "sql/aside", "sql/flow", "sql/infile", "sql/exec/tempfile", "sql/parted", "sql/selected", "sql/given", "sql/rowlist", "sql/access", "sql/admit", "sql/algebra", "sql/assign", "sql/bind", "sql/exec", "sql/expr", "sql/expr/calendar",
		"sql/expr/jsondoc", "sql/function", "sql/oneshot", "sql/opt", "sql/prefetch", "sql/program", "sql/result", "sql/rights", "sql/schema",
		"sql/session", "sql/system", "sql/table", "sql/tally", "sql/token", "sql/views", "sql/weigh", "sql/zone"},
	// sieve knows the bytes of rows and what is wanted of them, and reads none
	"sql/access/sieve": {"sql/exec/bounds", "sql/expr", "sql/expr/calendar", "sql/schema", "sql/schema/rowfmt"},
	// access is where rows of the store become vectors: below it nobody knows of vectors, above it
	// nobody of keys.
	"sql/access": {"sql/access/sieve", "sql/algebra", "sql/exec", "sql/expr", "sql/expr/calendar", "sql/schema", "sql/schema/rowfmt",
		"sql/session", "sql/stats", "sql/table", "sql/work", "sql/zone"},
	// layer 5: one process
	// console is a MySQL client with pages: it knows no part of the node, and asks it by SQL only
	"node/console": nil,
	// bundle hides what strangers may not see, and knows no part of the node
	"node/bundle": {"obs/audit"},
	// certs, waits and moments put together what the node has asked for
	"node/certs": {"mechanism/ident", "sql/server"}, "node/waits": {"owner", "sql/server"},
	"node/decided": {"cluster", "sql/server", "sql/virtual", "txn/multimaster"},
	"node/moments": {"mechanism/wan", "sql/server", "sql/virtual", "sql/statements"},
	// meter shows figures that it is told
	"node/meter": {"obs", "sql/digest"},
	// evacuate looks through the rows of a group for a mover, and is told the tables
	"node/evacuate": {"owner/homing", "sql/schema"},
	// residency reads a store, and trusts nothing that the node believes
	"node/shards":    {"owner/gauge", "policy/split", "sql/ddl/sharding", "sql/schema"},
	"node/residency": {"cluster/join", "mechanism/store"},
	// memory knows the machine, and room how its disk fills
	"node/memory": nil, "node/room": nil,
	// knobs makes cluster settings of parameter structs that it is given
	"node/knobs": {"sql/server"},
	// early talks to clients before there is SQL
	"node/early": nil,
	// adviser makes facts of what is counted, and asks nobody
	"node/adviser": {"cluster", "policy/advice", "policy/crossing", "policy/leader", "sql/bind/tree", "sql/digest", "sql/recording", "sql/rowuse", "sql/schema",
		"sql/server", "sql/virtual"},
	// spare tunes the scheduler while statements wait
	"node/spare": nil,
	// who may ask a node for what over HTTP, at which port
	"node/web": {"cluster", "cluster/join", "mechanism/ident", "mechanism/wan", "node/console", "obs/audit"},
	"node": append([]string{"txn/bounds", "txn/mover", "node/spare",
		"sql/describe", "sql/recorded", "sql/recording", "sql/schema", "sql/virtual", "node/adviser",
		"node/bundle", "node/console", "node/decided", "node/early", "node/evacuate", "node/knobs", "node/memory", "node/meter", "node/moments", "node/certs", "node/waits", "node/residency", "node/room", "node/shards", "node/web",
		"sql/ddl/sharding", "owner", "owner/gauge", "owner/homing", "owner/rewind", "owner/view", "txn", "txn/multimaster", "cluster", "cluster/fence", "cluster/health", "cluster/placed", "cluster/replace", "cluster/upgrade", "obs/audit", "obs/otlp",
		"cluster/join", "kv/hold", "sql/admit", "sql/backup", "sql/backup/pace", "sql/backup/place", "sql/changefeed/sink", "sql/digest", "sql/server", "policy/advice", "policy/epoch", "policy/placement", "policy/plan", "policy/split",
		"mechanism/wan/overlay", "mechanism/ident",
	}, mechanisms...),
	"": append([]string{"node", "cluster", "owner", "txn"}, mechanisms...),
	// commands and examples
	"cmd/godwit": {"cmd/cli"},
	"cmd/cli":    {"*"},
	// the doctor looks at a machine, and starts nothing
	"cmd/doctor": {"mechanism/clock", "mechanism/ident"},
	// migrate is a client of two servers, and knows no part of a node but what reads a source's log
	"cmd/migrate":          {"sql/follow"},
	"cmd/etcdleader":       {"policy/leader", "mechanism/wan"},
	"examples/collective":  {"mechanism/collective", "policy/plan", "policy/matrix", "mechanism/wan"},
	"examples/consistency": {"", "policy/matrix"},
	// the laboratory
	"kv/memkv":     {"kv/patch", "mechanism/lock"},
	"lab/workload": nil,
	"lab/history":  nil,
	"lab/sim":      {"*"},
	// bench: a package a paper over one rig; no paper uses another one's.
	"lab/bench": {
		"lab/bench/rig", "lab/bench/polybase", "lab/bench/geolm", "lab/bench/relay", "lab/bench/gaussdb",
		"lab/bench/geococo", "lab/bench/peers", "lab/bench/faults", "lab/bench/tpch", "lab/bench/cost",
	},
	"lab/bench/rig":      cluster,
	"lab/bench/polybase": benchmark(),
	"lab/bench/geolm":    benchmark("lab/sim"),
	"lab/bench/relay":    benchmark("sql/schema/rowfmt"),
	"lab/bench/gaussdb":  benchmark("lab/workload"),
	"lab/bench/geococo": benchmark("policy/coord", "policy/plan", "policy/epoch", "policy/filter", "txn/multimaster",
		"mechanism/collective", "mechanism/wan/overlay"),
	"lab/bench/peers":  benchmark("mechanism/wan/wanemu"),
	"lab/bench/faults": benchmark("mechanism/wan/wanemu"),
	// cost drives a server, and knows no part of it but the names of its functions
	"lab/bench/cost": {"lab/bench/rig"},
	"lab/bench/tpch": benchmark("lab/sqldiff"), "lab/bench/tpch/cmd": {"lab/bench/tpch"},
	// sqldiff speaks to servers as a client; its command starts them, also with other batches.
	"lab/sqldiff": nil, "lab/sqldiff/cmd": {"lab/sqldiff", "node", "policy/matrix", "sql/exec/budget", "sql/exec/exchange", "sql/exec/helper", "sql/expr"},
	"lab/demo": {"*"},
	// whatif plays a recording on a cluster in this process
	"lab/whatif": {"*"},
	"lab/e2e":    {"*"},
	// pages executes the documents on a cluster in this process
	"lab/pages":    {"node", "policy/matrix"},
	"tools/layers": nil, "tools/measure": nil, "tools/worldmap": nil,
}

// onlyIn names third-party and standard packages with one home each, and why.
var onlyIn = map[string]struct {
	homes []string
	why   string
}{
	"github.com/cockroachdb/pebble": {
		[]string{"mechanism/store", "lab/sim", "lab/bench/cost"},
		"one package knows how bytes lie on disk; sim brings the file system that crashes, cost measures it alone",
	},
	"go.etcd.io/raft": {
		[]string{"mechanism/group", "mechanism/store", "lab/bench/cost"},
		"consensus is one mechanism; store implements its log, cost measures it alone",
	},
	"github.com/dolthub/go-mysql-server": {
		[]string{"sql/assign", "sql/backup", "sql/backup/answer", "sql/backup/computed", "sql/backup/decode", "sql/backup/sanity", "sql/bulk", "sql/charset", "sql/late", "sql/parted", "sql/changefeed", "sql/changefeed/event", "sql/changefeed/avro", "sql/bind", "sql/binlog", "sql/bound", "sql/expr", "sql/expr/collate", "sql/expr/exprtest", "sql/expr/fn", "sql/exec", "sql/feed", "sql/uca",
			"sql/diagnostics", "sql/ending", "sql/locked", "sql/xa", "sql/function", "sql/given", "sql/infile", "sql/jsontable", "sql/kill", "sql/lent", "sql/named", "sql/rights", "sql/rules", "sql/schema", "sql/session", "sql/table", "sql/access", "sql/prefetch",
			"sql/ddl", "sql/ddl/ahead", "sql/ddl/convert", "sql/ddl/like", "sql/ddl/placing", "sql/ddl/sharding", "sql/ddl/sorted", "sql/fast", "sql/oneshot", "sql/perfschema", "sql/query", "sql/recorded", "sql/rowuse", "sql/returning", "sql/result", "sql/selected", "sql/system", "sql/views", "sql/opt", "sql/audited", "sql/verify", "sql/server", "sql/statements", "sql/sysschema", "sql/virtual", "sql/describe", "sql/infoschema", "sql/regionkey", "sql/replica", "sql/rewrite", "sql/events", "sql/stored", "sql/users", "sql/weigh", "sql/zone"},
		"its API moves; the packages below sql/ follow it",
	},
	"gocloud.dev": {
		[]string{"sql/backup/place"},
		"one package knows stores of other people, and their credentials",
	},
	"github.com/twmb/franz-go": {
		[]string{"sql/changefeed/sink"},
		"one package knows Kafka",
	},
	"github.com/pingcap/tidb": {
		[]string{"sql/bind", "sql/bind/tree"},
		"one package knows the syntax tree",
	},
	"net/http": {
		[]string{
			"cluster", "cluster/join", "node", "node/bundle", "node/residency", "node/web", "node/console", "sql/changefeed/sink", "cmd/cli", "cmd/etcdleader", "obs", "obs/otlp", "mechanism/wan", "lab/e2e",
			"lab/workload", "lab/bench/rig", "lab/bench/cost", "lab/bench/peers", "lab/bench/faults", "lab/sim",
		},
		"policies and state machines do no I/O",
	},
}

// pure packages own no goroutine, socket or clock; they may not even import these.
var pure = []string{
	"base", "kv/memkv", "kv/patch", "kv/private", "sql/schema/rowfmt", "lab/history", "mechanism/lock", "policy/coord",
	"policy/crossing", "policy/epoch", "policy/filter",
	"policy/advice", "policy/home", "policy/leader", "policy/matrix", "policy/placement", "policy/plan", "policy/replica", "policy/split", "cluster/fence", "cluster/health",
}
var impure = []string{"net", "os", "syscall"}

type pkg struct {
	ImportPath string
	Imports    []string
}

func load(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-pgo", "off", "-tags", "gms_pure_go", "-json=ImportPath,Imports",
		module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func local(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

func TestImportTable(t *testing.T) {
	for _, p := range load(t) {
		name := local(p.ImportPath)
		may, known := allowed[name]
		if !known {
			t.Errorf("package %q is not in the import table: give it a layer in layers_test.go and docs/design.md", name)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				checkThirdParty(t, name, imp)
				continue
			}
			dep := local(imp)
			if !slices.Contains(may, "*") && !slices.Contains(may, dep) && !slices.Contains(types, dep) {
				t.Errorf("%s may not import %s: it lies in the same or a higher layer", name, dep)
			}
			if name == "base" {
				t.Errorf("base imports %s: it is the bottom", dep)
			}
		}
	}
}

func checkThirdParty(t *testing.T, name, imp string) {
	t.Helper()
	for path, rule := range onlyIn {
		if (imp == path || strings.HasPrefix(imp, path+"/")) && !slices.Contains(rule.homes, name) {
			t.Errorf("%s may not import %s: %s", name, imp, rule.why)
		}
	}
	if slices.Contains(pure, name) && slices.Contains(impure, imp) {
		t.Errorf("%s is a pure core and may not import %s", name, imp)
	}
}
