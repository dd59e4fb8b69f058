// Package demo shows a whole cluster at work: it loads a workload into every
// region, drives it, redraws a live table and ends with a report.
//
// The cluster is reached in two ways only: the clients speak the MySQL
// protocol to each region's own nodes, as any client would, and [Cluster] tells
// what the nodes have counted. So the same code shows one process over emulated
// oceans and, given its counts, any other cluster.
//
// # Order
//
// [Load] once for a fresh cluster, then [Run]; with no workload [Watch]
// instead. Run ends after Options.Duration or when its context is cancelled;
// either way the workload's checks follow and the report is complete.
package demo
