package kv

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
)

// LockMode is the lock that a read holds until the transaction ends.
type LockMode uint8

// The lock modes, weakest first.
const (
	LockNone LockMode = iota
	LockShared
	LockExclusive
)

// Policy says what a transaction does when it meets a lock that another one holds.
type Policy uint8

const (
	// Detect: wait. Of a cycle of waiting transactions the youngest aborts (DL_DETECT).
	Detect Policy = iota
	// NoWait: abort at once (NO_WAIT).
	NoWait
	// WaitDie: wait for younger transactions, abort at older ones (WAIT_DIE).
	WaitDie
)

// Options of one transaction; the zero value is an ordinary read-write one.
type Options struct {
	// ReadOnly transactions may use only LockNone and never write.
	ReadOnly bool
	// ReadTS fixes the snapshot of LockNone reads (AS OF); 0 lets the system choose.
	ReadTS base.Timestamp
	// Policy of lock conflicts.
	Policy Policy
	// Age is the priority in conflicts, smaller is older. A retry passes the
	// Age of its first attempt so that it cannot starve. 0 is now.
	Age base.Timestamp
	// LockTimeout bounds each wait for a lock; 0 is the cluster's default, 10 s.
	LockTimeout time.Duration
	// Source is the region on whose behalf the transaction runs: rows that it inserts without a
	// home get this one, and policies count its accesses under it. 0 is the gateway's own.
	Source base.RegionID
	// Follow lets the home policy move rows that are written without having been read. Nothing else
	// may depend on their homes.
	Follow bool
	// Relay lets the transaction cross regions without locking across them: from the moment it
	// touches rows of a second region it reads one snapshot, which is validated when it commits
	// (docs/protocol.md, REL).
	Relay bool
	// Careful, with Relay, says that the client has not asked for it (transaction.tier = auto): the
	// transaction shall not lose what it would not have lost with locks, as far as that can be
	// foreseen. It shows its client no Draft, locks where transactions without locks have lost
	// lately, and once it has lost itself at a slot (docs/protocol.md, REL-16).
	Careful bool
	// Touched, if not nil, is shared by all attempts of a transaction. Attempts with Relay note in
	// it the single keys for which they ask a lock, whether they get one or read a snapshot. An
	// attempt that has to lock across regions begins by locking all of these at once, unless it
	// begins with what they have not read: then it is another transaction.
	Touched *Touched
	// Trace collects round trips and bytes of the transaction; may be nil.
	Trace *obs.Trace
	// Statement is what the transaction executes for another gateway; nil: nothing.
	Statement *Forwarded
	// Needs is asked, as the transaction commits, for the cluster version that what it writes
	// needs: a replica that does not know it stops (docs/protocol.md, VERSION-3). Nil: none.
	Needs func() base.ClusterVersion
	// Prepare, if not nil, may have Commit prepare the transaction. It does not cross regions
	// without locks then.
	Prepare *Preparation
}

// Version is the cluster version that what the transaction writes needs; 0: none.
func (o *Options) Version() base.ClusterVersion {
	if o.Needs == nil {
		return 0
	}
	return o.Needs()
}

// MayRelay reports whether the next attempt may cross regions without locks (Relay), after so many
// that were aborted.
func (o *Options) MayRelay(aborts int) bool {
	return o.Relay && aborts < RelayTries && !o.Touched.MustLock()
}

// Forwarded is a statement that another gateway has forwarded (docs/protocol.md, FWD). However
// often it is tried, it commits at most once under its name, and not at all once its gateway has
// been told so.
type Forwarded struct {
	Name base.TxnID
	// Group settles it: whoever commits it must have that group take part.
	Group base.GroupID
	// Answer is what the statement's client is to be told; it is asked for as the transaction
	// commits.
	Answer func() []byte
}

// ErrStrayed is the error of a commit in which the group that settles the statement takes no part.
// Nothing was done. The rows that the statement names have left that group.
var ErrStrayed = base.Errorf(base.CodeInvalid, "the rows of a forwarded statement are no longer where its gateway "+
	"believed: it has to run there")

// Settled is how a forwarded statement has ended. If it has not committed, it never will.
type Settled struct {
	Committed bool
	TS        base.Timestamp // of the commit
	Answer    []byte
}

// RelayTries is how many attempts of a transaction may cross regions without locks (Options.Relay)
// and abort. The next attempt locks, so that no transaction loses for ever.
const RelayTries = 8

// Row is one key with its value. Value is nil if the key is absent (only in
// answers of Get).
type Row struct {
	Key   base.Key
	Value []byte
	TS    base.Timestamp // commit timestamp of the version; 0 for own buffered writes
	Home  base.RegionID  // home region of the row; 0 in the meta shard
	// Label is the whole home label; 0 for own buffered writes.
	Label base.Label
	// Advice is the region to which the home policy would move the row together with this
	// transaction's write of it (Txn.Move); 0: it stays. Only rows read under LockExclusive have
	// one.
	Advice base.RegionID
	// Skipped: the read was to skip locked rows (WaitSkip), and did not lock this one. Another
	// transaction holds a lock, or the owner had locked as many rows as were asked for (WithSkip).
	// All other fields but Key are empty.
	Skipped bool
}

// Pin says what a move does to the row's pin.
type Pin uint8

// The choices of MoveOptions.Pin.
const (
	PinKeep Pin = iota
	PinOn
	PinOff
)

// MoveOptions of Txn.Move.
type MoveOptions struct {
	// Soft leaves the row in place, without an error, if the gap behind it is in use.
	Soft   bool
	Pin    Pin
	Reason []byte // for the record of moves
}

// ScanRequest asks for the rows of several spans.
type ScanRequest struct {
	// Spans to read, each within one section ([base.Key.Section]). With Merge they
	// are the same range in different shards (or homes) and rows come back in the order of
	// Suffix; otherwise span by span in the order given.
	Spans []base.Span
	Merge bool
	// Suffix is the number of leading key bytes that Merge ignores when it orders rows of different
	// spans; 0 is base.ShardPrefixLen. (An index by home uses base.IndexPrefixLen+1.)
	Suffix  int
	Reverse bool
	Lock    LockMode
	// Limit is the most rows returned by this call; 0 is no limit but MaxBytes.
	Limit int
	// Each is how many rows of each span are wanted; those behind them may be left out, or not. 0:
	// all.
	Each int
	// MaxBytes bounds the answer; 0 is 1 MiB. At least one row is returned.
	MaxBytes int
	// Next is the Limit of the batch behind this one, if the caller is likely to ask for it: where
	// all rows of it lie at this node, they may be read while the caller is at this one. 0: it may
	// not ask.
	Next int
	// Drops, if not nil, reports of the value of a row that the caller does not want it. A read
	// without locks may leave such rows out; they do not count for Limit then. It is called by
	// several goroutines, and must keep nothing of the value.
	Drops Sieve
	// State belongs to the implementation; set only in ScanResult.Next. A scan
	// sees the transaction's own writes as of its first batch, so a statement
	// that writes what it scans never meets its own rows.
	State any
}

// ScanResult is one batch. If Next is not nil, call Scan with it for more.
type ScanResult struct {
	Rows []Row
	// Next is the request that continues the scan; nil when it is complete.
	Next *ScanRequest
}

// ChangesRequest asks for the versions that were committed in a period.
type ChangesRequest struct {
	// Spans are ranges of keys of one shard, in their order.
	Spans []base.Span
	// Since and UpTo bound the period: above Since, at or below UpTo. Versions above Since must not
	// have been collected (package hold keeps them), else the answer is [base.CodeTooOld].
	Since, UpTo base.Timestamp
	// Whole asks for older versions, too, as far as they are still there: all that are needed to
	// tell what the spans held at any time of the period.
	Whole bool
	// MaxBytes bounds the answer, but for the versions of its last key; 0 is 1 MiB.
	MaxBytes int
}

// ChangesResult is a part of an answer.
type ChangesResult struct {
	// Rows are versions, key by key, the newest of a key first. The Value of one that deletes the
	// key is nil.
	Rows []Row
	// Next are the spans that are left; nil: there are none.
	Next []base.Span
	// Waited is how long the answer waited for the end of the period, if this node read it.
	Waited time.Duration
}
