// Package wire is the vocabulary of the network and of the consensus logs:
// protobuf messages (wire.proto; regenerate with `make proto`) and the kinds
// under which the transport carries them.
package wire

// Kind names a message on the transport.
type Kind uint8

// The kinds. Numbers are never reused.
const (
	KindRaft Kind = 1 + iota
	KindHeartbeat
	KindRead
	KindCommit
	KindFinish
	KindResolve
	KindTxnHeartbeat
	KindSnapshot
	KindAsk
	KindForward
	KindOracle
	KindCollective
	KindCollectiveWant
	KindClosed
	KindConsistency
	KindServe
	KindTouched
	KindVote
	KindHandover
	KindOrder
	KindEpochPing
	KindEpochControl
	KindParcel
	KindParcelNotice
	KindRaftBundle
	KindCopies
	KindSuspect
	KindDetour       // one-way messages with an order
	KindDetourSend   // without
	KindDetourCall   // requests
	KindDetourRead   // those that may wait for locks
	KindDetourCommit // and those that may release some
	KindDetourBulk   // large ones
	KindRelease
	KindBound
	// KindMax bounds the kinds.
	KindMax
)

// kindNames are the names by kind, in the order of the constants.
var kindNames = [...]string{
	"none", "raft", "heartbeat", "read", "commit", "finish", "resolve", "txn-heartbeat",
	"snapshot", "ask", "forward", "oracle", "collective", "collective-want", "closed",
	"consistency", "serve", "touched", "vote", "handover", "order", "epoch-ping",
	"epoch-control", "parcel", "parcel-notice", "raft-bundle", "copies", "suspect",
	"detour", "detour-send", "detour-call", "detour-read", "detour-commit", "detour-bulk",
	"release", "bound",
}

// String is the name of the kind in metrics and traces; "unknown" for one of a newer version.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}
