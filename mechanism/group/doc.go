// Package group replicates commands: a [Host] runs this node's replicas of
// many Raft groups over one store and one transport. It is the only package that
// drives raft.
//
// # What it promises
//
//	(GRP-1) a command that Propose acknowledged is applied here and durable on a quorum;
//	     it survives any minority of crashes that lose unsynced writes.
//	(GRP-2) all replicas apply the same commands in the same order, each once per state:
//	     the applied index is stored in the batch that Apply fills.
//	(GRP-3) a refused command (any code but CodeAmbiguous) has not committed and never will.
//	(GRP-4) commands proposed in one order through one Group are appended in that order, and
//	     only in the term they name.
//	(GRP-5) between Leading(term) and Stopped(term) this replica believes it leads; another may lead
//	     a later term already. Serving reads needs a lease of the owner's own, whose end is logged
//	     before another one serves (TIME-1, TIME-6). What is applied is committed, be it that
//	     Raft counted it or that the leader of the term before said so ([Group.Committed]), to a
//	     log that has the same entry on its disk.
//	(GRP-6) acknowledgements and votes leave only after what they promise is synced; a
//	     leader's appends do not wait for its own disk.
//	(GRP-7) a leader whose disk has taken nothing for a second refuses proposals, but for what a
//	     hand-over proposes. Because: the others are a majority without it, so its leases would go
//	     on in their logs while it can serve nothing under them.
//	(GRP-8) a follower that has applied all that it knows to be committed, and no lease for a
//	     lease's length and a second, takes the leader for dead: it forgets it, stands for election,
//	     and answers its heartbeats only so that it gets what it lacks. A lease counts from when its
//	     entry came. For an election timeout the appends of that leader are not taken either; if it
//	     still leads then, they are for ten seconds and more. The member follows that leader again
//	     when it applies a lease. A new leader has time to wait for its predecessor's lease first:
//	     leases of the one before, which its first entry commits, do not shorten that time. But the
//	     target of a hand-over has had its lease with that, and counts as dead when it takes no other
//	     one. Because: a disk stands still, the lead is handed to its node a moment later, and nobody
//	     leaves that one for two leases and a second (TestTargetLapses).
//	     A leader that most nodes find late ([Host.OnPeerLate]) is given up in the same way, before
//	     its lease has ended. Because: a leader whose disk stands still, whose owner is stuck, or
//	     that handles late what arrives, goes on with its heartbeats and appends.
//	(GRP-9) a replica whose disk has taken nothing for half a second does not stand for election.
//	     Because: its own vote waits for the disk, but those of the others elect it without that,
//	     and with what it has appended and not synced its log may be the longest.
//	(GRP-10) survivors of a leader stand one after the other, but for those that are lost
//	     ([wan.Transport]) or were just said to be down, also if that is noticed while others
//	     wait for their turn. One that refuses a pre-vote without which the candidate cannot be
//	     elected, as of three voters the third, or of five if another one is lost, stands without a
//	     pause, be it that it gives the leader up after it was asked. It needs the votes of a
//	     majority like any candidate. Because: the leader was heard
//	     by one survivor only; the other one, whose log is shorter, stands first, and rows wait for
//	     the turn of the one that can be elected.
//	(GRP-11) a leader that steps down because of an answer of a later term, or because it has heard
//	     of no majority for an election timeout, and hears of no other leader for half a second,
//	     stands again. Voters that have heard it as their leader of late
//	     judge it by its log alone. Because: a node dies as a candidate and comes back with its
//	     term, for which nobody else has voted. Its answer ends the leader's term; the others
//	     still take that one for alive, and refuse all candidates for an election timeout. Or: its
//	     heartbeats arrive, the answers do not, and a detour for these is found just too late. The
//	     others follow nobody that knows of it until the lease has lapsed (GRP-8).
//	(GRP-12) a voter without a leader that hears again of another voter, or for the first time,
//	     stands in its turn, as if a leader had died just now. Pre-votes ask those who follow a
//	     leader in vain. Because: most voters were away; when the one that makes a majority comes
//	     back, the others have just stood in vain, and wait for 1.5 to 3 s before they do again.
//	     A voter that waits for its turn lets those stand first that come back meanwhile and whose
//	     turn is before its own. Because: three voters come back at once; each sees one of the others
//	     a moment before the other one, counts itself first of two, and all three stand.
//	(GRP-13) a candidate that is refused by voters with longer logs, and cannot be elected without
//	     them, has the one with the longest log stand at once. A voter that is without a leader, and
//	     is told so, asks for pre-votes like any candidate. Whoever grants a pre-vote puts its own
//	     turn off. Because: a cut keeps a leader's last entries from the survivors that stand first;
//	     each stands in vain, and rows wait for half a second a turn.
//	(GRP-14) when messages take a new way to a peer ([Host.OnPeerReached]), a leader sends at once
//	     what a follower there has not acknowledged, and a follower says that it is there to its
//	     leader. Because: a cut loses appends, and until the answer to the next heartbeat, half a
//	     second and a round trip later, the leader takes them to be under way. What it sends then
//	     does not fit and is refused. Leases end meanwhile.
//	(GRP-15) a leader steps down when the voters that are neither lost nor said to be down have been
//	     no majority for a third of a second. A voter that follows it, and is told so by its owner
//	     ([Group.Resigned]), stands in its turn. The leader itself does not stand before others are
//	     back (GRP-12); then it is judged by its log alone for an election timeout, as in GRP-11.
//	     Because: nothing arrives at the leader, and what it sends does. It asks for leases until it is
//	     found late, or Raft steps down, and its successor waits for the newest of these.
//	(GRP-16) of two that ask for pre-votes at the same time and grant each other's, the one whose turn
//	     is later disregards those that it gets. A candidate that is not elected, as votes were split
//	     or do not come, stands again in its turn after half a second, a second, and so on. Because:
//	     two of three voters have stood together, each has the other's pre-vote and its own vote, and
//	     both wait for 1.5 to 3 s.
//	(GRP-17) a leader that is to leave its group hands the lead to a voter that stays and is fit to
//	     lead ([HostOptions.Fit]). If none is, those that are to join vote beside the others first,
//	     and one of them gets the lead. A lead that is passed on goes to a fit voter if there is one.
//	     Because: the leader and another voter leave. The third one stays, and a slow link makes it
//	     late for all it gets. It is handed the lead, is found late and left, the leader is elected
//	     again, hands it the lead again, and so on: rows wait for 5 s, again and again.
//	(GRP-18) a candidate whose pre-vote is refused by a voter of a later term, with no longer log,
//	     stands again at once, in that term. Because: a node is handed the lead, stands, and is cut
//	     off. Nobody else knows of its term, in which it has voted for itself. When it is back, it
//	     cannot be elected, as its log is shorter, and refuses the one that can. That one waits for
//	     1.5 to 3 s before it stands again.
//	(GRP-19) a copy of a shard that fits into one chunk is sent in one message, with the headers of
//	     its groups, and waits at the receiver while another copy of the shard is merged there.
//	     Because: a node comes back and lacks the logs of ten groups, which three nodes lead;
//	     another one dies, and without the copies nothing has a majority. Each copy took a round
//	     trip for each header, one for the rows and one for the end, and began when the one before
//	     it had ended: rows waited for 3.5 s.
//	(GRP-20) a voter that has asked for pre-votes, and neither hears of a leader nor becomes a
//	     candidate, asks again after 0.3 s, 0.6 s, and so on up to 1.5 s. Because: one of three
//	     voters is dead, and the question of the next one to the other one is lost. Or a path has
//	     lost most messages for a while. Both waited for 1.5 to 3 s before they asked again.
//	(GRP-21) a leader that has applied no entry of its term, because its disk has taken nothing for
//	     half a second, has the voter stand that has most of its log. Because: all nodes are started
//	     anew, and the disk of one stands still. Nothing is on its way to that disk yet, so GRP-9
//	     lets it stand, and the others elect it without its own vote. Its owner never serves, so it
//	     cannot hand anything over, and the others give it up when two leases and a second have
//	     passed: rows waited for 4 s.
//	(GRP-22) a voter that is not fit to lead ([HostOptions.Fit]) stands behind those that are, and by
//	     its turn alone, not by raft's timer. It does not ask for votes while no majority is in
//	     reach, and waits for half a second at least where GRP-10 has others stand at once: those
//	     that it does not reach may elect a fit one. If nobody else is elected it stands then. A
//	     leader that is not fit, and whose owner has asked for a lease and does not serve yet
//	     ([ErrAcquires]), has another voter stand without more ado: there is no state to send.
//	     Because: each sync of a node's disk takes half a second. Two nodes with a third one that is
//	     back are a majority, but this one asks that one first, or is preferred. Its own vote takes
//	     half a second and so does each entry; it can hand over only what it serves, and is elected
//	     again: rows waited for 4.7 s.
//
// # Duties of the caller
//
//   - StateMachine methods are quick and do not wait for the group they are called from.
//   - Open each group with the same first members everywhere; see [Host.Open].
//   - A Fatal replica stays closed until the process restarts; the group lives on elsewhere.
//   - Close the Host before the transport and the store.
//   - When all groups of a shard have left the node, clear the rows with Store.ClearShard.
//
// # Time
//
// Each host has one ticker. Leaders tick in whole heartbeat intervals, at the same ticks for all
// groups, so the heartbeats for one peer leave as one RaftBatch, and so do the answers to it. A
// follower's goroutine sleeps until a message comes or its election timeout is near: five nodes of
// 30 idle groups exchange 80 batches a second, 4 for each directed pair of nodes.
//
// # Election times
//
// With the default ticks (100 ms, 5, 15): a follower campaigns after 1.5 to 3 s of
// silence; after [Host.OnPeerDown] after 0.1, 0.6, 1.1 s and so on, the preferred leader
// first, or at once when it refuses another one (GRP-10). A leader without a quorum steps down
// after 1.5 to 3 s.
package group
