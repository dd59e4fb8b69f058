// Package home decides which rows change their home region, why, and which
// rows go with them: the recolouring policy of PolyBase (sections 5.1, 6.2 and
// 6.5). It is a policy only. It does no I/O, reads no clock, starts no
// goroutine; the same seed and the same calls give the same answers.
//
//	func New(p Params, seed uint64) (*Policy, error)
//	func (p *Policy) SetParams(n Params, at base.Timestamp) error // online, all at once
//	func (p *Policy) Record(a Access) Decision // at the owner, for every access; zero: stay
//	func (p *Policy) Export(key, at) (Summary, bool) // old owner, before the move: 16 bytes for
//	   the log entry
//	func (p *Policy) Moved(key, to, at) // old owner, when the move is certain
//	func (p *Policy) Import(key, home, changes, at, Summary) // new owner, when it applies the
//	   move
//	func (p *Policy) Forget(key)                                  // the row is gone
//	func (p *Policy) Explain(a Access) Reason // why it would stay or move; counts nothing
//	func (p *Policy) Heat(key, at) (Heat, bool)                   // for SHOW
//	func (p *Policy) Top(n, at) []HeatRow
//	func (p *Policy) Stats() Stats
//
// # Duties of the caller
//
// There is one Policy a node. It hears of every locking read, write and strong
// read of the rows that the node owns, for whatever region, and of nothing
// else. Calls may come from many goroutines: the table is striped by key, and
// no call holds two locks.
//
// A Decision is advice, given at most once a transaction and row (a second time if the transaction
// read first and then writes). The caller may move the row with the statement's own log entry, or
// in the background, or not at all (locked rows are not handed over, HOME-2); then the next
// access gets the same advice. Decision.With names rows that this node knew in the same home; they
// may lie in other shards, may have moved since, and each moves by an entry of its own group.
// Decision.Along names rows that the transaction will probably ask for next: the caller may lock
// and show them with the answer, and tells of their use when the transaction writes them. A move
// that is made is told with Export and Moved by the old owner and with Import by the new one, for
// rows that went along, too. Nothing breaks if that is forgotten: the label of the next access
// (Home and Changes) shows that the row has moved.
//
// # Heat
//
// For each row and region an 8-bit Morris counter ([Summary] has their scale)
// counts transactions, weighted by read_weight or write_weight. It halves for
// every decay_time that the region leaves the row alone. All counters of a
// row halve when one reaches max_heat, so the counters of a row that is
// never idle stand for its last few hundred transactions.
//
// Within one transaction all accesses to a row count as its heaviest one.
// A run is how many transactions a region has made on a row since any other
// region did.
//
// # When a row moves
//
// It moves to the region that asks, X, from its home H, if it is not pinned, has
// stayed for long enough, and one of these holds:
//
//	run     X's run is at least min_heat + floor(log2(1 + heat of H)).
//	hotter  the heat of X is at least min_heat, at least margin times that of H,
//	        and no third region is hotter than X.
//
// The first serves a user who travels: everything now comes from X, and how
// hot H once was matters little: each doubling asks for one more access. With the
// defaults a row that H has not used lately (heat 0) moves at the 3rd
// transaction of X, one with heat 10 at the 6th, one with heat 100 at the 9th, and
// none later than the 11th (max_heat 256). The second rule serves rows shared by
// regions, of which one uses them most.
//
// # Hysteresis
//
// A row that has moved stays for min_stay, doubled for each earlier move that
// followed another within max_stay, up to max_stay; one doubling is forgiven for
// each decay_time without a move. An owner that has no history of a row whose
// label says that it has moved before takes it to have moved just now.
//
// # Rows that go along
//
// As in Mithril (PolyBase's reference 50): a row that is used again has its
// accesses recorded as a vector of ticks, where a tick is the sequence number of a
// transaction at this node. min_freq ticks make a full vector, which goes into the
// mining table. When that has mining_rows rows, or is mine_interval old, its rows
// are sorted by their first tick, and each is compared with those that begin
// within lookahead (at most 32): if confidence of their ticks match within
// lookahead, the two are partners. The lookahead shrinks for rows that are used so
// often that they would meet others by chance. Sorting makes it
// O(n log n). When a row moves under mode hotness, its partners, their partners
// and so on are proposed, nearest first, at most prefetch of them.
//
// # Invariants
//
//	1 A row moves only to the region that asks, never when pinned or in mode never.
//	2 Except in mode always, a row moves at most once in min_stay.
//	3 Regions that take turns strictly never move a row once each has used it min_heat times: no
//	  run is longer than 1 and no region margin times hotter.
//	4 After a move no region has more than 1/margin of the heat of the new home: what made the row
//	  move cannot at once move it back.
//	5 A row that goes along has the same home, is not pinned, has stayed for long enough, and is
//	  not used far more by its home than the row it follows.
//	6 Memory stays within Params.Memory as [Stats].Bytes counts it (and rsize): the coldest rows
//	  of small samples are forgotten. The mining table comes on top, with 80 bytes a row.
//	7 Clocks may step back: by up to a minute it is as if time stood still; by more, the row's
//	   heat is forgotten.
//
// What differs from the paper: it counts writes in one counter a row when they
// are replayed from the log; here the owner, which sees all accesses that have to
// be where the row lives, counts them for each region. Its rule for
// comparing regions is not given; run and hotter are ours.
package home
