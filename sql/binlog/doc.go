// Package binlog lets replicas of MySQL and MariaDB, mysqlbinlog and other clients follow a cluster
// as if it were a MySQL server with a binary log and GTIDs. There is no log: what a client asks for
// is read from the versions of rows that the cluster has (package feed), and written as events.
//
// # Positions
//
// A GTID names a transaction by its commit timestamp, in nanoseconds since 1970: domain-server-TS
// for MariaDB, with domain 0, and UUID:TS for MySQL. Server id and UUID are made of the cluster's
// id, so they are the same at all nodes, and any node goes on where another one has stopped. A
// client that asks by GTID gets what lies above the highest one that it has.
//
// A moment at which definitions changed may take several statements, and rows behind them. Each is
// a transaction to clients. The last one has the moment itself, those before it the numbers just
// below. If another transaction has one of these, a client that asks by GTID gets an error.
//
// File names are those of a timestamp, too: prefix, dot, TS. The file begins behind TS, at position
// 4. A client that does not ask by GTID gets a new file with each batch. It can go on at the
// beginning of any event: the file is made again from its beginning, and what the client has is
// left out. So all that is written must depend on what was committed alone, and not on when it is
// read.
//
// Positions must not grow old while nothing happens: versions are kept for a bounded time only. So
// after 5 minutes clients get a new file, or an empty transaction.
//
// # Events
//
// The dialect follows the client: one that has set @mariadb_slave_capability is a MariaDB. Then
// GTID events are MariaDB's, rows have version 1, JSON is text, and collations of MySQL 8 have the
// names of MariaDB's own. Row images are full. Statements are made of definitions; rows are not
// checked against foreign keys, since the effects of cascades are rows of the stream themselves.
//
// # Connections
//
// The protocol library knows nothing of COM_BINLOG_DUMP. When a client sets one of the variables
// that only replicas set, or registers, package server hands its connection over to Conn, which
// answers all that comes then.
package binlog
