// Package etcdleader keeps the leader of a stock etcd cluster where it serves
// its clients best: GeoLM's policy (package leader) from outside, through etcd's
// public API. etcd itself is not changed.
//
// What it reads of every member, once an interval, over its client URL:
//
//   - which member leads, and how far each log is: /v3/maintenance/status (etcd's JSON gateway,
//     which is on by default);
//   - how many requests its own clients made: the counters grpc_server_handled_total of /metrics. A
//     follower passes requests on to the leader by other means, so each request counts where its
//     client is;
//   - round trips between members: the histograms etcd_network_peer_round_trip_time_seconds of
//     /metrics. etcd adds to these after 5 s and then every 30 s, a mean smoothed over probes 4 s
//     apart. The first ones after a member has started include the set-up of a connection, so they
//     are about twice as long for all pairs alike. A [Sidecar] beside each member measures once a
//     second instead, and follows a change within seconds.
//
// Its only action is to ask the present leader for MoveLeader
// (/v3/maintenance/transfer-leadership).
//
// # What counts as what
//
// Put, Txn, DeleteRange, Compact, LeaseGrant and LeaseRevoke wait for a commit. Range is
// linearizable by default: its member asks the leader for the read index, and the leader asks a
// quorum whether it still leads. So in equation 4 it costs what a write costs, and is counted as
// one. Serializable reads are answered by the member alone; they say nothing about where the leader
// should be. etcd's counters do not tell the two apart: Options.Serializable says that reads are of
// this kind, and then Range does not count. A Txn that only reads is counted as a write. Watches
// and keep-alives are not counted.
//
// # Safety
//
// etcd loses the proposals that followers pass on to a leader while it hands over. A client with
// such a request gets an error after etcd's request timeout, 5 s and twice the election timeout, if
// it has no shorter one. Until then it sends nothing, so the counts of that time say little: the
// default hold-down of 10 s covers it. This is the cost of a move, and the reason for the damping.
//
// etcd decides whether the lead moves; a hand-over that fails leaves the old leader, and is tried
// again after twice as long. Two of these programs at once do no harm, except that each takes the
// other's moves for elections. If members cannot be reached, the lead goes to none of them.
package etcdleader
