// Package advice says what would make statements faster or cheaper, and by how much: another
// locality of a table, a placement, asynchronous replication, a unique index, reads of a moment
// ago, leads that no setting keeps from where rows are used. It is a pure core: facts in, advice
// out; it does no I/O and reads no clock.
//
//	func Advise(f Facts) []Advice // what saves the most time first
//	func (f *Facts) Elsewhere() []Elsewhere // what each use would take in each other region
//
// # Facts
//
// Counters that the nodes keep anyway: what the statements of each digest and region have cost, the
// round trips between regions, where tables live, and which regions use the rows that live where
// ([Table].Homes, from the heat of rows). "Before" is always what was measured.
//
// # Model
//
// "After" is predicted from round trips alone: computing takes nothing, nobody waits for locks, and
// what is read often stays so. With rt the round trip between the client's region and the rows'
// home, and quorum that from the home to the nearest majority, a statement of its own takes
//
//	read, rows of another region   the less of rt and rt/2 + half a tick, a tick being the time between
//	                               closed timestamps
//	write                          rt + quorum; asynchronous rows: rt
//	GLOBAL                         reads 0; writes as those of rows that live where the meta group is led,
//	                               but until their timestamp has come, which lies Lead ahead, and a
//	                               heartbeat has said so
//	MULTI MASTER                   reads 0; writes an exchange of all with all and the word of it, together
//	                               the longest round trip, after half the time between two epochs
//
// Of a table with a placement the voters are those regions, and a region without a copy asks
// another one for each read, in a round trip. Rows that are not led at home ([Facts].Led) are read
// and written where they are led; of a MULTI MASTER and a GLOBAL table that does not matter.
//
// Reads in transactions ask the owner, as they lock, in a whole round trip. Where transactions
// cross regions without locks ([Facts].Relays) they take what other reads take. How many of them
// are of other regions' rows is told by their trips.
//
// Where a table is to become BY ROW, each row is taken to live where it is used most, once a region
// has used it three times, and new rows where they are made: gaps that belong to other regions are
// not predicted, nor rows that are on their way.
//
// Inside transactions COMMIT waits for the quorum: it counts when advice is judged, and is not in
// the figures of the statements.
//
// p99 is that of the outcomes by their shares; a read that waits for a tick may wait for a whole
// one. Bytes are a copy of the change for each other voter, and a question and its answer for what
// goes to another region; how large the change is follows from the bytes of now (bytes.go). A MULTI
// MASTER commit sends none of its own.
//
// # Elsewhere
//
// What a use would take in another region follows from the same model, with the rows where they
// are: those of a table BY ROW would follow, after which the use takes what it takes now. Where the
// model does not explain what was measured there is no figure.
//
// # Rules
//
//	ADV-1 An advice is given only if it saves at least [MinShare] of the time that the statements on
//	   its subject have taken, and [MinGain] a statement: it is not given for noise.
//	ADV-2 Of changes that give nothing up only the best one of a table is advised. What gives
//	   something up (isolation, freshness, the last writes before a disaster) is advised beside it
//	   if it saves MinShare more, and says what.
//	ADV-3 At least [MinStatements] statements must have been counted: of the table, and of those that
//	   would change.
//	ADV-4 Nothing is advised of which the facts are missing. So BY ROW is advised only if it is known
//	   of a sample of the table's rows which regions use them ([RowHomes]), and if all of its
//	   changes name rows.
//	ADV-5 A placement is also given if it saves at least [MinBytesShare] of the bytes that the
//	   statements on the table send over the WAN, and [MinBytes] a statement, and no region's take
//	   more than [MinGain] longer. Of a table only the best one is given, and it says what of its rows
//	   survives.
package advice
