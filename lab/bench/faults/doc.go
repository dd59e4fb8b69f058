// Package faults measures what faults that are no clean crashes cost: seconds without service, by
// region and by kind of statement, of real processes at three sites of an emulated WAN.
//
// A [Bed] is the three sites with one server at each: Godwit, etcd or Galera. In every region
// clients repeat statements, each kind over a connection of its own, while a [Fault] strikes,
// lasts for some seconds and is healed. A [Result] says for each client:
//
//   - the longest time between the ends of two statements that succeeded, from the fault until some
//     seconds after it was healed; it includes the pause of the client and the statement itself;
//   - how many statements took more than five seconds, whatever came of them;
//   - the median latency before the fault, and at the end.
//
// Writers count what was acknowledged. After each fault the rows are read through every region and
// compared: a write that was acknowledged and is not there is lost.
//
// # What strikes
//
// Processes are stopped and killed by signals, packets are dropped by the router of wanemu (no
// connection is reset). Disks are loop devices of a file system of their own, mounted in the site's
// mount namespace: fsfreeze makes one stand still, the block controller of cgroup v1 makes one
// slow, and a file fills one up. Clocks are set by a file that the node adds to its clock's time
// (--clock-offset-file). The memory controller of cgroup v1 ends a process for want of memory. A
// fault that the machine cannot make is left out, with the reason.
//
// All of this needs root and /dev/net/tun. Mounts and network namespaces end with the processes
// inside, and loop devices with the mounts.
package faults
