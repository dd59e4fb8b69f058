// Package cluster makes and grows clusters. It sends heartbeats between nodes, keeps the directory
// of leaders and the network map, decides on the clock mode, and moves replicas and leads to where
// the topology and the load want them.
//
// A [Cluster] is one node's part in all of that. It is made of parts that share only what env holds
// (this node, its network and clock, the topology, the directory); each is one protocol, in one
// file that reads from top to bottom:
//
//	members.go       the cluster admits processes and takes nodes out
//	topology.go      the topology: changed in a transaction, followed by every node
//	reconcile.go     replicas come and go as the topology wants
//	promotion.go     survivors take over the asynchronous groups of a lost region
//	copies.go        how far copies in other regions are
//	clockmode.go     the clock mode, and trust in this node's clock
//	leaders.go       leads follow the load; leadermoves.go: and commands
//	consistency.go   the consistency point of the region
//	notices.go       closed timestamps between heartbeats
//	readservers.go   which node to read a snapshot from
//	heartbeat.go     round trips and signs of life; netmap.go: the network map
//	lost.go          which nodes do not answer; late.go: which answer late
//	routing.go       where to send a request
//	selfcheck.go     a sick node leads nothing
//	status.go        what people see; conditions.go: and what is wrong
//
// Four packages stand alone: join (a process finds out which node it is), fence (which copy of a
// store is the newest), health (how well a node is) and policy/placement (which nodes should hold
// what).
//
// # The caller's duties
//
// New registers handlers with the transport and must be called before the transport starts.
// OpenFirst opens the replicas of this node; Start begins the background work and needs the
// gateway. Close ends it before the store and the groups are closed. What a Cluster needs of the
// replicas on its node is [Replicas], nine small interfaces. Methods may be called from any
// goroutine.
//
// # The network map
//
// Heartbeats measure round trips and carry them to all other nodes. Above a number of peers
// ([Cluster.SetCoordinates]) nodes measure samples only, and send network coordinates (package
// coord) instead. Policies read the map through [Cluster.RTT], [Cluster.Between] and
// [Cluster.QuorumRTT], whichever it is.
//
// # How a cluster comes to be
//
// See package join. A process that asks an existing cluster is added to the topology by a
// transaction on the meta shard, and given shards by the placement rule ([placement.Place]).
//
// # Topology
//
// The newest topology is a row of the meta shard, so that each node has it by applying the meta
// group's log. Replica sets change by writing a new topology; the leader of each group then moves
// its membership towards it, one joint consensus at a time. No node acts on a topology older than
// the one it has seen.
//
// # How replicas come and go
//
// A node opens the groups that the topology gives it as empty replicas, which wait for the leader's
// whole-shard snapshot. It keeps what else is on its disk open until the group has removed it, so
// that a restart in the middle of a move loses no voter. Only a founding node in its first life
// makes fresh groups. A replica that was removed while it was away hears of no leader; it asks one
// that has a lease and a topology at least as new, and only then forgets its log. When the last
// group of a shard has left, the shard's data is cleared; terms and votes stay.
//
// # How a node goes
//
// Decommissioning marks it in the topology. Its groups move to others of its region, and it goes on
// serving what it still holds, also after a restart. When it holds nothing its process ends with an
// error that says so. Decommissioning is refused where no node of the region could take over, and
// while a group that has a replica there is without a leader: the node may hold the only copy.
//
// # How a node is found
//
// A member sends its address to the others at each start ([join.Bootstrap.Announce]). They use that
// address at once, before it is written to the topology, and pass it on: else a cluster whose nodes
// have all moved could not reach the majority that writing needs.
package cluster
