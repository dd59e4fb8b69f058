// Package demo shows a whole cluster at work: it loads a workload into every
// region, drives it, redraws a live table and ends with a report.
//
// There are only two ways to the cluster: the clients speak the MySQL protocol to each region's own
// nodes, as any client would, and [Cluster] returns what the nodes have counted. So the same code
// shows one process over emulated oceans and, given its counts, any other cluster.
//
// # Order
//
// Call [Load] once for a fresh cluster, then [Run]; with no workload call [Watch] instead. Run ends
// after Options.Duration or when its context is cancelled; either way the workload's checks follow
// and the report is complete.
package demo
