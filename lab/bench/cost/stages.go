package cost

import (
	"strings"
	"time"
)

// stage is a part of a statement's way through the server, or of what the server does beside it.
type stage int

const (
	receive stage = iota
	recognise
	session
	plan
	coordinate
	lock
	evaluate
	raftAppend
	write
	syncing
	apply
	reply
	tables
	upkeep
	collection
	scheduler
	measuring
	other
	stages // how many there are
)

// described says what belongs to each stage.
var described = [stages]struct{ name, what string }{
	receive:    {"receive", "reading the socket, packets of the protocol, dispatch"},
	recognise:  {"recognise", "the statement's template or its parse, its digest"},
	session:    {"session", "the session, the list of processes, counters, rights, turns"},
	plan:       {"plan", "the plan, values of parameters, descriptors of tables"},
	coordinate: {"coordinate", "the transaction's coordinator: what it has read and written, whom it asks"},
	lock:       {"lock", "the lock table, and what was read at which timestamp"},
	evaluate:   {"evaluate", "reading rows, decoding and computing them, evaluating writes at the owner"},
	raftAppend: {"raft append", "proposals, raft's state machine, entries of its log"},
	write:      {"write", "Pebble's commit: its batch, its log's buffer, its memtable"},
	syncing:    {"sync", "writing and syncing the log file, which is one call, and waking who waits for it"},
	apply:      {"apply", "committed entries taking effect, answers to those who proposed them"},
	reply:      {"reply", "encoding the answer, writing the socket, and the kernel's delivery on loopback"},
	tables:     {"tables", "flushes and compactions, removal of old versions"},
	upkeep:     {"upkeep", "heartbeats, closed timestamps, the node's own loops"},
	collection: {"garbage collection", "Go's collector, sweeping, and its part of allocations"},
	scheduler:  {"scheduler", "changes between goroutines: channels, wakes, locks waited for, the poller, timers"},
	measuring:  {"measuring", "the profile itself, and requests for metrics"},
	other:      {"other", "functions that the table does not know"},
}

func (s stage) String() string { return described[s].name }

// module is what names of our own functions begin with; the table leaves it out.
const module = "github.com/godwitdb/godwit/"

// Abbreviations of libraries in the table.
var libraries = strings.NewReplacer(
	"pebble:", "github.com/cockroachdb/pebble/v2",
	"vitess:", "github.com/dolthub/vitess/go/",
	"gms:", "github.com/dolthub/go-mysql-server",
)

// prefixes are the beginnings of the names of functions that are known to belong to a stage. The
// longest one that fits counts. A function that has none belongs to its caller: Pebble's iterators
// serve reads and compactions, and allocation is a cost of whoever allocates.
var prefixes = [stages][]string{
	receive: {
		"sql/quick.(*quickConn).Read", "sql/server.(*clientConn).Read", "vitess:mysql.",
	},
	recognise: {
		"sql/digest.", "sql/token.", "sql/weigh.", "sql/rewrite.", "sql/bind/tree.", "sql/program.", "sql/oneshot.",
		"sql/infile.", "sql/phrase.", "sql/fast.Normalize", "sql/fast.(*normalizer)", "sql/fast.(*templates)",
		"sql/fast.(*Runner)", "sql/fast.(*Template)", "sql/fast.Exact", "sql/fast.isWord",
		"sql/server.locksRows", "sql/server.locking", "github.com/pingcap/tidb/",
		"vitess:vt/sqlparser.",
	},
	session: {
		"sql/server.", "sql/session.", "sql/admit.", "sql/rights.", "sql/audited.", "sql/statements.", "sql/tally.",
		"sql/kill.", "sql/bound.", "sql/zone.", "sql/named.", "obs.", "obs/audit.", "gms:", "github.com/sirupsen/logrus.",
		"github.com/prometheus/client_golang/prometheus.",
	},
	plan: {
		"sql/fast.(*Call).plan", "sql/fast.(*Call).bind", "sql/fast.(*Call).value", "sql/fast.(*Call).context",
		"sql/fast.(*boundPlan)", "sql/fast.asColumn", "sql/bind.", "sql/opt.", "sql/algebra.", "sql/stats.", "sql/given.",
		"sql/query.", "sql/views.", "sql/selected.", "sql/schema.(*Catalog)", "sql/table.(*Table).Open", "sql/rules.",
		"gms:/sql/analyzer", "gms:/sql/planbuilder", "gms:/sql/plan.",
	},
	coordinate: {"txn.", "txn/", "sql/session.(*Txn)", "owner/route.", "kv/private."},
	lock: {
		"mechanism/lock.", "owner/tscache.", "owner/waits.", "owner/txns.", "owner.byLock.lock", "owner.(*Replica).lock",
		"owner.(*Replica).waitLock", "owner.(*Replica).stillLocked", "owner.(*Replica).release",
		"owner.(*evaluation).lockWrites", "txn/gate.",
	},
	evaluate: {
		"owner.", "owner/view.", "owner/evaluate.", "owner/homing.", "owner/lead.", "owner/gauge.", "policy/", "sql/fast.",
		"sql/table.", "sql/schema.", "sql/schema/rowfmt.", "sql/exec", "sql/expr", "sql/access.", "sql/assign.",
		"sql/prefetch.", "sql/order.", "sql/rowlist.", "mechanism/store.(*Reader)", "mechanism/store.(*Iter)",
		"mechanism/store.(*Store).New", "kv/patch.",
	},
	raftAppend: {
		"go.etcd.io/raft/", "mechanism/group.", "mechanism/store.(*Log)", "mechanism/store.(*entryCache)",
		"owner.(*Replica).propose", "owner.(*Replica).enqueue", "owner.(*Replica).command", "owner.byLock.entry",
	},
	write: {
		"mechanism/store.(*Batch)", "mechanism/store.(*Store).NewBatch", "pebble:.(*commitPipeline)", "pebble:.(*DB).Apply", "pebble:.(*DB).apply",
		"pebble:.(*DB).commit", "pebble:.(*memTable).apply", "pebble:.(*memTable).prepare", "pebble:.(*Batch)",
		"pebble:/record.(*LogWriter)", "pebble:/record.NewLogWriter",
	},
	syncing: {
		"mechanism/store.(*walFile)", "mechanism/store.(*fileSyncer)", "mechanism/store.newFileSyncer",
		"mechanism/store.(*order)", "mechanism/store.(*syncs)", "mechanism/store.(*Batch).Wait",
		"mechanism/group.(*Group).commitLoop", "pebble:/record.(*LogWriter).syncWithLatency",
		"pebble:/vfs.(*syncingFile).Sync", "pebble:/record.(*syncQueue)", "pebble:.(*Batch).SyncWait",
	},
	apply: {
		"owner.(*Replica).Apply", "owner.byLock.committed", "owner.(*Replica).complete",
		"owner.(*Replica).commitWait", "mechanism/group.(*Group).apply", "mechanism/group.(*Group).runApplies",
		"mechanism/group.(*Group).addCommand", "mechanism/group.(*Group).answer", "mechanism/group.(*Group).proposalOf",
	},
	reply: {
		"sql/quick.(*quickConn).Write", "sql/server.(*clientConn).Write", "sql/fast.encodeRow", "sql/result.",
		"vitess:mysql.(*Conn).write", "vitess:mysql.(*Conn).flush", "vitess:mysql.(*Conn).startEphemeral",
		"vitess:mysql.(*Conn).startWriter", "vitess:mysql.(*Conn).endWriter", "vitess:mysql.(*Conn).sendColumn",
		"vitess:mysql.write",
	},
	tables: {
		"pebble:.(*DB).compact", "pebble:.(*DB).flush", "pebble:.(*DB).runCompaction", "pebble:.(*DB).runPicked",
		"pebble:.(*DB).maybeSchedule", "pebble:.(*tableCompaction)", "pebble:/internal/compact.",
		"pebble:.(*versionSet)", "pebble:.(*DB).collectTableStats", "pebble:.(*cleanupManager)",
		"pebble:.(*compactionPicker", "pebble:/sstable.(*RawColumnWriter)", "pebble:.(*DB).makeRoomForWrite", "pebble:.(*DB).newMemTable", "pebble:.(*DB).rotate",
		"mechanism/store.(*Store).CollectVersions", "owner.(*Set).Collect", "owner.(*Replica).collectTombstones",
	},
	upkeep: {
		"cluster.", "cluster/", "node.", "node/", "mechanism/wan", "mechanism/collective.",
		"owner.(*Set).run", "owner.(*Replica).expire", "mechanism/group.(*Group).tick", "mechanism/group.(*Host)", "cmd/",
	},
	collection: {
		"runtime.gc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.sweepone", "runtime.(*sweepLocked)",
		"runtime.(*gcWork)", "runtime.(*gcControllerState)", "runtime.wbBufFlush", "runtime.scanobject",
		"runtime.greyobject", "runtime.markroot", "runtime.deductSweepCredit", "runtime.stopTheWorld",
		"runtime.startTheWorld", "runtime.forEachP", "runtime.runfinq", "runtime.runFinalizers", "runtime.runCleanups",
		"runtime.bulkBarrierPreWrite", "runtime.(*mheap).reclaim", "runtime.(*scavenge", "runtime.(*pageAlloc).scavenge",
		"runtime._GC", "runtime.(*spanInlineMarkBits)", "runtime.scanSpan", "runtime.drainMarkWork",
	},
	scheduler: {
		"runtime.mcall", "runtime.schedule", "runtime.findRunnable", "runtime.park_m", "runtime.goexit0",
		"runtime.gosched", "runtime.gopreempt", "runtime.asyncPreempt", "runtime.mstart", "runtime.sysmon",
		"runtime.note", "runtime.futex", "runtime.startm", "runtime.stopm", "runtime.wakep", "runtime.ready",
		"runtime.goready", "runtime.gopark", "runtime.goparkunlock", "runtime.netpoll", "runtime.newproc",
		"runtime.morestack", "runtime.newstack", "runtime.chan", "runtime.selectgo", "runtime.closechan",
		"runtime.selectnb", "runtime.sema", "runtime.handoffp", "runtime.exitsyscall", "runtime.entersyscall",
		"runtime.reentersyscall", "runtime.(*timer", "runtime.resetForSleep", "runtime.stealWork", "runtime.runqgrab",
		"runtime.injectglist", "runtime.execute", "runtime.casgstatus", "runtime._System", "runtime.gfget",
		"internal/sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).unlockSlow", "sync.(*Cond)",
		"sync.(*WaitGroup).Wait", "sync.runtime_", "internal/sync.runtime_", "internal/poll.runtime_", "runtime.(*guintptr)",
		"time.stopTimer", "time.newTimer", "time.resetTimer", "runtime.sched_yield", "runtime.checkTimers",
		"runtime.mPark", "runtime.goroutineReady", "runtime.goschedImpl", "runtime.systemstack_switch",
	},
	measuring: {
		"runtime/pprof.(*", "runtime/pprof.profileWriter", "runtime/pprof.StartCPUProfile", "runtime/pprof.StopCPUProfile",
		"net/http.", "net/http/", "runtime.sigprof", "runtime.sighandler", "runtime.sigtramp", "runtime.sigtrampgo",
		"runtime.sigreturn__sigaction", "runtime.(*profBuf)", "github.com/prometheus/client_golang/prometheus/promhttp.",
		"github.com/prometheus/client_golang/prometheus.(*Registry)", "github.com/prometheus/client_golang/prometheus.(*goCollector)",
		"runtime.setThreadCPUProfiler",
		"runtime.(*cpuProfile)", "runtime.profileLoop",
	},
}

// allocators are where memory is got; the share of samples below them is told beside the stages.
var allocators = []string{"runtime.mallocgc", "runtime.newobject", "runtime.growslice", "runtime.makeslice",
	"runtime.makemap", "runtime.(*mcache).nextFree"}

// attribution gives samples to stages.
type attribution struct {
	table map[string]stage
	seen  map[string]stage // by function; -1: it belongs to its caller
}

func newAttribution() *attribution {
	a := &attribution{table: map[string]stage{}, seen: map[string]stage{}}
	for s, names := range prefixes {
		for _, n := range names {
			a.table[libraries.Replace(n)] = stage(s)
		}
	}
	return a
}

// function returns the stage that a function's name is known to belong to.
func (a *attribution) function(name string) (s stage, known bool) {
	s, ok := a.seen[name]
	if !ok {
		s = -1
		short := strings.TrimPrefix(name, module)
		for n := len(short); n > 0; n-- {
			if found, ok := a.table[short[:n]]; ok {
				s = found
				break
			}
		}
		a.seen[name] = s
	}
	return s, s >= 0
}

// of returns the stage of a stack: that of the deepest function which has one.
func (a *attribution) of(stack []string) stage {
	for _, f := range stack {
		if s, ok := a.function(f); ok {
			return s
		}
	}
	return other
}

// budget is processor time by stage.
type budget struct {
	by        [stages]time.Duration
	allocated time.Duration // in allocations, of all stages but garbage collection
	unknown   map[string]time.Duration
}

// total is the time of all stages.
func (b *budget) total() (d time.Duration) {
	for _, v := range b.by {
		d += v
	}
	return d
}

// divide gives all samples of a profile to stages.
func divide(samples []sample) *budget {
	a, b := newAttribution(), &budget{unknown: map[string]time.Duration{}}
	for _, s := range samples {
		st := a.of(s.stack)
		b.by[st] += s.cpu
		if st != collection && allocates(s.stack) {
			b.allocated += s.cpu
		}
		if st == other {
			b.unknown[strings.Join(s.stack, " < ")] += s.cpu
		}
	}
	return b
}

func allocates(stack []string) bool {
	for _, f := range stack {
		for _, p := range allocators {
			if strings.HasPrefix(f, p) {
				return true
			}
		}
	}
	return false
}
