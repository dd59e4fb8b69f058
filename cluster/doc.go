// Package cluster knows who is where: it makes and grows clusters, carries
// pulses between nodes, keeps the leader directory and the network map, and
// drives replicas to where the topology says they belong.
//
// # The network map
//
// Pulses measure round trips and tell them to all others. Above a number of peers ([Cluster.SetCoordinates]) nodes
// measure samples and tell network coordinates of package coord instead. Policies read the map through [Cluster.RTT],
// [Cluster.Between] and [Cluster.QuorumRTT], whichever it is.
//
// # How a cluster comes to be
//
// A fresh process has a UUID and a join list. It asks the addresses of that
// list, over HTTP on the cluster port, who it is. While nobody knows, every
// process remembers who asked ([Bootstrap]). `godwit init` tells one of them to
// make the cluster of all that have asked: it writes the first topology to its own disk and
// from then on answers the others with their ids and that topology. So there
// is one place where a cluster is decided, and a crash anywhere is mended by asking again.
//
// A process that asks an existing cluster is added to the topology by a
// transaction on the meta shard and given shards by the placement rule ([Place]).
//
// # Topology
//
// The newest topology is a row of the meta shard, so that each node has it by
// applying the meta group's log. Replica sets change by writing a new topology;
// the leader of each group then moves its membership towards it, one joint
// consensus at a time. No node acts on a topology older than the one it has seen.
//
// # How replicas come and go
//
// A node opens the groups that the topology gives it as empty replicas, which wait for the leader's
// whole-shard snapshot. It keeps what else is on its disk open until the group has removed it, so that a
// restart in the middle of a move loses no voter. Only a founding node in its first life makes
// fresh groups. A replica that was removed while it was away hears of no
// leader; it asks one that has a lease and a topology at least as new, and only
// then forgets its log. When the last group of a shard has left, the shard's data is cleared; terms and votes stay.
//
// # How a node goes
//
// Decommissioning marks it in the topology. Its groups move to others of its
// region, and it goes on serving what it still holds, also after a restart. When it holds nothing its
// process ends with an error that says so. It is refused where nobody of the region could take over, and
// while a group that has a replica there is without a leader: the node may hold the only copy.
//
// # How a node is found
//
// A member tells the others at each start where it is ([Bootstrap.Announce]). They use that address at once,
// before it is written to the topology, and pass it on: else a cluster whose nodes have all moved could not reach the
// majority that writing needs.
package cluster
