// Package wanemu emulates a wide-area network for unmodified programs on one
// Linux machine (netem is seldom in a container's kernel): a network namespace
// for each site, each with one TUN device, and one router process that forwards
// packets between them with the delay, jitter, loss, bandwidth and cuts of each
// directed pair of regions, changeable while it runs.
//
//	n, err := wanemu.Start(wanemu.Config{...})
//	defer n.Close()
//	err = n.Site("eu").Start(exec.Command("mariadbd", ...)) // runs inside
//	conn, err := n.Site("us").Dial(ctx, "tcp", addr)        // dialled from inside
//	err = n.Control("cut A B")
//
// Namespaces have no name and no mount: they end with the processes inside and
// with [Net.Close]; the router ends when its parent does. Nothing is left behind
// however the program ends.
//
// The router is this very binary, started again; the program's main hands over
// to [RouterMain] when its arguments say so. It is a process of its own because
// all its threads run SCHED_FIFO with the garbage collector off, without which a
// busy machine delays packets by tens to hundreds of milliseconds.
//
// A delaying proxy for each connection would be no substitute: connecting costs
// nothing there, there is no slow start, and advertised addresses break.
//
// The package began as a tool of its own, wanemu, written while Godwit was
// designed, to measure its peers.
package wanemu
