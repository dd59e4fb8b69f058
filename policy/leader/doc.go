// Package leader decides which node should lead a consensus group: GeoLM's
// target selection (sections IV-A and V-A) and switching damping (section V-B).
// It is a policy only. It does no I/O, reads no clock, starts no goroutine; the
// same calls give the same answers. Handing the lead over is the caller's.
//
//	func Assess(f *Facts, p Params) (Assessment, error)  // who would serve better, now
//	func New(p Params) (*Policy, error)
//	func (p *Policy) Observe(f *Facts) (Decision, error) // once a heartbeat: stay, or move to X
//	func (p *Policy) SetParams(n Params) error           // online
//	func (p *Policy) State() State                       // for SHOW
//	type Meter // counts of requests to popularity and write ratio
//
// # Utility
//
// With n as leader, a request of the clients of node i takes
//
//	C(i, n) = T(i, n) + W(i) * q(n)
//
// where T is the round trip from i to n, W the share of i's requests that wait for a commit, and q
// the time a commit takes at n. The utility of n is what an average request would save (the paper's
// equation 4):
//
//	u(n) = sum over i of P(i) * (C(i, leader) - C(i, n)), P(i) the share of all requests that i's
//	   clients make
//
// The paper takes for q the median round trip from n to all others, "because the leader must wait
// for confirmation from at least half of all followers". That is right for even numbers of voters
// only. Of an odd number N a leader needs (N-1)/2 acknowledgements besides its own, so the time to
// wait is the (N-1)/2-th smallest round trip, where the median of the N-1 others lies half-way to
// the next. [Quorum] is the default, [Median] the paper's; with an odd number of voters Quorum
// predicts better (TestQuorumPredictsBetterThanMedian, and `godwit bench geolm`).
//
// # Damping
//
// A window is a number of heartbeats, Window at first. At its end, of the nodes whose utility was
// positive at every heartbeat of it, and at least the gain on average, the one with the highest
// average becomes the leader, and the next window is twice as long, up to MaxWindow. If there is
// none, the next one is half as long, but not shorter than Window. (The paper writes wnd =
// min(wnd/2, wnd0). That would let the window shrink without end below the value that it
// recommends, and cut a window of 8 wnd0 to wnd0 at once; its text and Figure 7 fit max(wnd/2,
// wnd0), which is what is built.)
//
// Two things are added so that noise moves nothing. The gain: what is saved on average must be
// MinGain and MinGainShare of what requests cost now. The hold-down: after any change of the
// leader, ordered here or not, HoldDown heartbeats are not looked at, as what was measured is of
// the time before.
//
// # Placement
//
// Rules come before load. With a Home, as groups of rows have, the leader is a node of that region
// as long as one is able, and utility chooses among that region's nodes. When no node of the home
// is able, utility chooses the stand-in among all that may lead. When a node of the home has been
// able for HoldDown heartbeats in a row, the lead returns at once, whatever its utility, and the
// window is not lengthened. A group that is homed as a whole has no Home and follows the load
// freely; MayLead bounds it to regions.
//
// # Duties of the caller
//
//   - Observe is called once a heartbeat by the node that leads (or by one observer), with smoothed
//     round trips (RFC 6298) and with the rates that a [Meter] gives.
//   - A decision to move is carried out or not; nothing need be told, the next Facts show it. A
//     hand-over that fails is decided again after the next, longer, window.
//   - A node is Able if it is a voter, alive, and its log keeps up.
//   - What was not measured is negative, not zero.
//
// Popularity is a share of requests, not of clients. Clients that wait for each answer ask the more
// often the nearer the leader is, which makes their node look popular for being near: a handful of
// such clients would keep any leader where it is.
//
// # Invariants
//
//	1 Within a window no utility moves the lead; windows are never shorter than Window, nor longer
//	   than MaxWindow.
//	2 A move goes to an able voter that placement allows.
//	3 Without requests, or without the leader's round trips, nothing moves but what placement
//	   demands.
//	4 Two moves for the sake of utility are at least HoldDown + Window heartbeats apart.
//	5 Memory is bounded by the number of nodes.
package leader
