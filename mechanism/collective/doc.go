// Package collective moves data among all members of a set of nodes at once:
// AllGather, AllToAll, Gather, Broadcast and AllReduce over package wan. It
// follows a plan of package plan (GeoCoCo, section 4.4): members hand their
// data to an aggregator nearby, aggregators exchange over the ocean, once for
// each group and over relays where those are faster, and hand the rest down. It
// knows nothing of databases; examples/collective uses it alone.
//
// # Use
//
// [New] takes a transport that has not been started. [Service.Join] makes a
// [Comm], one per node, with the same id and the same nodes in the same order
// everywhere. Each collective operation is one round, with a number that all
// nodes use for it and no other; numbers grow. All nodes call the same operation
// for a round, each with its own data; calls for several rounds may overlap.
// [Comm.SetPlan] says which plan holds from which round on; without one rounds
// are flat. What is passed to a call is kept for nodes that are behind: do not change
// it afterwards. Nodes may follow different plans for a while: that costs messages and
// time, not correctness.
//
// # What holds
//
//   - COLL-1: a call that returns without an error has what every node that counts
//     gave to that round, exactly once, and nothing of another round.
//   - COLL-2: a round's plan is fixed when the round begins on a node, whatever
//     [Comm.SetPlan] says later.
//   - COLL-3: without faults no node sends and receives more messages than in a flat
//     round, which is 2(n-1).
//   - COLL-4: messages that are lost, late, or come twice, and aggregators and relays
//     that fail in the middle of a round, only cost time. What has not come when
//     it should have is asked for: at its origin, then at others. Suspected nodes
//     neither aggregate nor relay until they have rested ([plan.Health]).
//   - COLL-5: a message names all relays that it has still to pass, so it cannot run in
//     cycles.
//
// A node that fails may have reached some of the others with its data and not
// the rest. Asking around then spreads it among those that are still in the
// round, but who counts is an agreement, and not made here: a call waits until
// its context ends and then returns [Incomplete], unless [Comm.Exclude] has said
// that the node no longer counts.
//
// # Filters
//
// [Options.Filter] sees the contributions of a group before they cross the
// ocean, and may shorten them. It must not change what a receiver makes of the
// whole set, and says of which other contributions that is true
// ([Part.Needs]): if one of those is excluded, the original is fetched.
package collective
