// Package cluster knows who is where: it makes and grows clusters, carries
// pulses between nodes, keeps the leader directory and the network map, and
// drives replicas to where the topology says they belong.
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
package cluster
