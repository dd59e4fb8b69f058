// Package geococo regenerates the figures of GeoCoCo: all-to-all rounds that are planned (grouped,
// relayed, filtered), beside flat rounds, other ways of grouping, and the bound of shortest paths.
//
// There are three kinds of figures. The first are computed from latency matrices alone (5, 9, 12,
// 13, 18, 19, coordinates). The second execute rounds of package collective, or the epochs of real
// multi-master engines, in virtual time (10, 11a, 14 to 17, table 1). The third run whole clusters
// whose consensus messages go over relays and fan-out proxies (11b, 16-raft, 17-raft, raft-ways).
// Only batching is measured in real time, over sockets.
package geococo
