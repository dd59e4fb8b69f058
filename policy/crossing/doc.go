// Package crossing decides how the transactions of one gateway cross regions: each in a tier of its
// own, so that nobody inside a region waits for it (relay), or under the same locks as all others
// (strict, the monolithic mode). It is a pure core: no goroutine, no clock; facts come in with
// their time.
//
// Relay (section 4.1.3): tiers pay while most transactions stay inside their region. Where those
// that cross make up the majority, there is little left to be protected from them, and the classic
// protocol does as well: "Spanner-Relay can revert to the classic Spanner approach at runtime by
// using IRT locks for all transactions". (In YCSB-T, docs/figures/relay.md, relay stays ahead
// however many cross; the defaults therefore wait for a large majority. The other mode is for loads
// whose crossing transactions meet each other all the time.)
//
// Both modes are strictly serializable with each other, transaction by transaction
// (docs/protocol.md, REL), so every gateway decides for itself, and a change needs no agreement and
// disturbs nobody.
//
//	CROSS-1 Only transactions that committed and that locked or wrote count, once each, whatever the
//	   number of their attempts: a mode under which more attempts fail does not vote for or
//	   against itself.
//	CROSS-2 A window ends when it is long enough and holds enough transactions; a quiet gateway
//	   keeps its mode.
//	CROSS-3 Strict from a share of Above on, relay again from Below down: between the two nothing
//	   changes (hysteresis).
package crossing
