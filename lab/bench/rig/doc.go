// Package rig is the common part of the papers' benchmarks: the form of a benchmark and of its
// results, clusters to run it on, clients, and TPC-C on keys.
//
// # Duties of a benchmark
//
//   - It emits one [Line] for each point of a figure.
//   - The baseline is measured in the same run on the same machine, as a switch of the same system
//     or as a real peer; only [Line.Paper] is a constant.
//   - With [Params.Quick] it ends within a minute on two cores.
//   - It stops soon after its context is cancelled and leaves nothing behind outside [Params.Dir].
//
// # Clusters
//
// A [Cluster] runs in real time over emulated oceans, one node a region; its clients ([Client])
// work in closed loops, and a [Shift] collects their [Outcomes]. A [World] runs in virtual time
// inside [Virtual]: processors are free there, so it shows who waits for whom, and how often.
// Nothing inside may wait for anything outside.
//
// A transaction is a [Job]: statements ([Op]) that read or write all their keys at once, as SQL
// makes them. [Mall] is TPC-C made of such jobs, where a figure needs its mix and not its SQL.
package rig
