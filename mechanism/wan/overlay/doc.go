// Package overlay carries consensus messages over other nodes where that is
// faster, or saves bytes between regions (GeoCoCo under Raft), and all messages
// where the direct path is cut. An [Overlay] is a
// [wan.Transport] over another one, so it works over sockets and over the
// emulated network alike. Everything but what is named here passes through.
//
// # Relays
//
// If A-B-C is faster than A-C (a triangle violation in the network map that
// probes have confirmed for a window of time), what A sends to C in one-way
// consensus messages ([wire.KindRaft], [wire.KindRaftBundle]) goes to B as a
// [wire.Parcel], and B passes it on. Heartbeats never do: they measure the
// direct path. Neither do calls: whether one ran is told by the connection that
// carried it.
//
// # One copy a region
//
// [Overlay.SendShared] sends the consensus messages of several nodes of a region
// to one of them, the fan-out proxy, as one [wire.RaftBundle] that holds entries which they
// have in common once; the fan-out proxy hands the others theirs.
//
// # Detours
//
// While two nodes do not hear each other directly, in one direction or in both, all that they send
// each other goes over nodes that hear each other: heartbeats, consensus messages, requests and
// their answers, receipts ([Params].Direct switches that off). A node whose heartbeats have not
// come directly for 0.6 s, or for 0.2 s after its connection broke, is cut off from this one. Nodes
// then tell each other whom they do not hear, and each chooses the shortest way, the fastest of
// these. It goes back to the direct path when both have heard each other for 2 s without a pause of
// 0.3 s. While nobody doubts a link nothing is sent for this.
//
// # What is promised
//
//   - OVL-1: Order. What a node sends to another in messages that relays may carry
//     arrives as [wan.Transport.Send] promises: in the order of sending, each at most
//     once, some may be missing. What SendShared sends is ordered and
//     unique among itself only: it may overtake, and be overtaken by, what Send sends.
//   - OVL-2: No loops. A parcel is passed on only by a node that got it from its
//     origin, and only to its receiver. So none travels more than two hops, whatever
//     any node believes about the network. (A bundle may come over a relay, and its fan-out proxy
//     passes parts of it on: three hops.) A detour names all nodes that a message has still to
//     reach, at most six.
//   - OVL-3: Bounded fallback. A receiver confirms on the direct path. When what was
//     sent over another node stays unconfirmed for a round trip, the receipt's delay and
//     half a round trip (at least 50 ms) more, all of it is sent again on the direct path, and
//     so is what comes after. The same happens at once when the other node refuses a
//     message, is told to be down, or says that it cannot pass one on.
//   - OVL-4: No relay around a cut. Without the direct path there are no receipts, so neither
//     relays nor fan-out hide a cut. Detours do, and say so ([Overlay.Cut], [Overlay.Detoured]).
//   - OVL-5: A detour is numbered by its receiver. From then on the receiver takes from that sender
//     only what bears the number, of all that has an order: consensus messages, heartbeats, closed
//     timestamps. It drops the rest, and tells the sender so. The sender ends the detour by a
//     notice on the direct path, behind which the number does not count any more. Because: a
//     connection that has stalled delivers later what it held. A heartbeat of before makes the
//     receiver believe that the sender was started anew (its locks are released), and a member that
//     was removed and readmitted takes what was meant for its former life (TestDetourInOrder).
//     That something is dropped is said without a number. Because: detours are opened in both
//     directions, and the answers are lost. Each node has the wrong number of the other one, drops
//     what says so, and neither hears the other one until the direct path is back
//     (TestDetoursMissEachOther).
//   - OVL-6: Detours measure nothing. Heartbeats that make one are not echoed, nor are their echoes
//     counted: round trips are those of direct paths, by which policies choose leaders.
//     Only readers of replicas look at what a detour takes (package cluster).
//   - OVL-7: A request on a detour is answered, failed or lost like one on the direct path: when
//     some node on the way could not send it on, it never ran; when one lost its answer, it may
//     have run. It ends when the receiver is lost, or the next node on the way is (but for OVL-10).
//   - OVL-8: If no way to a node leads over links that are whole, a detour is made over links that
//     are healing: that were cut, and on which both ends hear each other again. (After 0.3 s: a
//     node that was down is heard again by one peer a moment before the other one.) Because: the
//     path from a node to two others works in one direction only, and the node is started anew. To
//     those that hear it its links count as cut for two more seconds, as they were while it was
//     down, so that it found no detour: rows waited for 3 to 4.4 s (TestDetourOverHealingLinks).
//   - OVL-9: The wish for a detour is sent again every 0.3 s, on the best path of that moment,
//     until one is answered, and each waits for a second and a round trip. It is named by its
//     sender: the receiver numbers a detour once for each name, however often the wish comes,
//     and refuses names from before the newest. A detour whose answer comes when the direct
//     path is whole again, or heard again at both ends, ends at once. Because: at 2 % loss an
//     answer comes a retransmission after the round trip. Each attempt was given up 0.25 s
//     after that; the receiver had numbered a detour meanwhile, of which the sender did not
//     know. Nodes heard each other 2.5 s late (TestSlowOpening). Or it came later than the
//     direct path, and all requests on that one failed (TestLateOpening).
//   - OVL-10: A request that makes a detour goes over each link that both its ends hear, also
//     if one of them makes a detour around that link still, or takes the other one for lost.
//     And a detour stays as it is while all its links are whole or healing. Because: node 2 was
//     cut off, and is back. It makes a detour to node 4 over node 3 for two seconds more. Node
//     1 was started anew and reaches nobody but node 2, which refused to pass on its wish, as
//     it makes a detour itself; later node 1 changed its path each time that some link had
//     become whole, and lost what was under way. Rows waited for 4 s and more
//     (TestDetourOverADetour, TestDetourStays).
//
// # How
//
// A sender uses a relayed way in stints. It begins one with a notice on the direct
// path, behind everything that it has sent there; numbers the parcels of the stint and keeps
// them until they are confirmed; and ends it by sending the unconfirmed ones,
// and the notice that it ends, on the direct path. The receiver delivers the parcels
// of a stint in order, from its beginning on, until it hears its end or any
// message of those kinds that came directly, and drops what is doubled or late.
// Parcels of a stint that has not begun wait a little for its beginning.
package overlay
