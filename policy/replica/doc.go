// Package replica decides which replica answers a read, and at what timestamp: GaussDB-Global's
// section IV. It is a pure core: it owns no goroutine, socket or clock.
//
// # The consistency point of a region (section IV-A)
//
// Every node of a region knows up to which timestamp its replicas are complete; the smallest of
// them is the region's consistency point (RCP): all of the region's nodes show the same snapshot
// there. A collector, which is one of the nodes, gathers and publishes it. [Point] is one node's
// part in that:
//
//	RCP-1 members and collector are those of the region's view, a row of the meta shard. A node acts
//	   on messages of its own view only.
//	RCP-2 the collector proposes the smallest of its members' reports, if it lies above the view's
//	   commit timestamp, above the boot time of its process, and everything up to it is settled
//	   (CLK-3): no later snapshot lies below it.
//	RCP-3 a value is usable once every member has said that it knows it.
//	RCP-4 a member does not know values at or below the boot time of its process: a snapshot that it
//	   took after it was started.
//	RCP-5 a read takes the newest usable value, and that is at least what the node knew when the
//	   read began: else it waits.
//	RCP-6 a node uses values only while its replica of the meta shard shows no other view, and
//	   certainly nobody goes by a later one. In clock mode GClock: the replica is complete up to
//	   now. In GTM: for a while after it spoke to the meta shard's leader, who had applied no more
//	   than this node has; and a new view is gone by only when as long has passed since that
//	   leader had it ([Watch]). In DUAL nobody uses values.
//
// Why a client that hops between the nodes of a region never sees an older snapshot: let one read
// use v at time t, and a later one begin at another node. In the same view, all members knew v at t
// (RCP-3) and the second node is a member: it knows at least v when the read begins, unless its
// process was started in between; but then it knows only what lies above its boot time (RCP-4),
// while v was settled before t, so it lies below that snapshot (RCP-2). So the read uses v or more
// (RCP-5). In a later view, whose commit timestamp is c: as the meta shard was complete up to v at
// the first node without showing that view (RCP-6), v < c, and what is used in the later view lies
// above c (RCP-2). In an earlier view: then the second node goes by it after the first has gone by
// the later one. In GClock mode it does not, because the later view lies below v, which is settled,
// and its meta replica is complete up to now, which is above all that is settled: it shows the
// later view. In GTM mode it has spoken to the leader, at s, who had not applied the later view, so
// the first node cannot have gone by it in GTM mode before s and a while (a leader's reports are
// sent in the order in which it applies), nor in GClock mode after s, as the modes of two nodes are
// neighbours and reports from before the mode do not count; and if before s, the leader had it.
//
// A collector that was started again forgets what it has published, but that lay below its boot
// time. So neither leases nor a majority of the region are needed: the right to speak for the
// region is a row like any other, and closed timestamps of the meta shard, which run ahead of now,
// say that it still holds.
//
// Since v is settled when it is used, a strong read that begins later, anywhere, is newer as well.
//
// # The choice of a node (section IV-B)
//
// [Skyline] keeps the nodes that no other one beats in both staleness and latency (load counts as
// latency), and [Choose] takes the fastest of those that are fresh enough.
package replica
