// Package plan decides how a collective round travels: which nodes gather the
// batches of their neighbours, and over which relays they reach each other
// (GeoCoCo, sections 4.2 and 5). It is a pure core: facts in, plan out; it owns
// no goroutine, socket or clock, and the same facts give the same plan.
//
// # The round
//
// A round ends when every node holds the batch of every other. Nodes form
// groups. In a group of one the node sends its batch to every group itself; if
// all groups are so, the round is flat. In a larger group
//
//	member --up--> aggregator --across--> aggregators of the other groups --down--> members
//
// An aggregator waits for its members, sends what is left of their batches
// after filtering once to each other group, waits for all of them, and sends
// everything down in one message a member. A group may have several
// aggregators: each then has a slice of the key space, and of its own group's
// batches only that slice.
//
// # What is minimised
//
// The paper minimises T = max l_j + max L (equations 1 to 3). That leaves out
// the last leg, down, so its optimum can lie below what any delivery can reach
// ([Paper] computes it, for comparison). Here the makespan is that of the
// executed round ([Evaluate]): all three legs, each over the relays that make it
// fastest, with what a node sends over the WAN queueing in its uplink.
//
//   - PLAN-1: a plan is never slower than the flat round over direct paths, by the
//     same evaluation.
//   - PLAN-2: in a fault-free round no node sends and receives more messages than in
//     a flat round (equation 7).
//   - PLAN-3: up to [Params.ExactNodes] nodes the makespan of the fastest plan with
//     one aggregator a group is found exactly, and within Slack of it the plan
//     with the fewest WAN bytes, then the fewest messages. [Plan.Exact] says so; it
//     is false if the search was cut short by [Params.MaxSteps].
//   - PLAN-4: a route names all its relays, each once, and neither of its ends, and a
//     message is forwarded only along the rest of its route: no loop is possible,
//     whatever plans other nodes follow.
//
// Larger clusters are grouped by the K-center method with about [KStar] groups,
// and improved by local search while that is affordable.
//
// [Damper] says when to plan again, [Health] which relays may be used.
package plan
