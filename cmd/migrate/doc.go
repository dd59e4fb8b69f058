// Package migrate copies the databases of a running MySQL or MariaDB server into a Godwit cluster,
// and then follows that server until the clients change over.
//
// It is a client of both servers and knows no part of a node. One run does this:
//
//  1. It makes the tables in Godwit, and says of each that cannot be made why. Nothing is copied
//     before all can be made.
//  2. It holds the source's writers up for a moment, begins one snapshot for each of its readers,
//     and notes the position of the binary log that belongs to them.
//  3. It copies the rows of the snapshots, and compares checksums of each table.
//  4. It reads the binary log from that position on, and applies each transaction of the source in
//     one of Godwit's, together with the position behind it. So a run that is interrupted goes on
//     where it stopped, and no transaction is applied twice.
//  5. When it is told to cut over, it makes the source read only, applies what is left, makes
//     views, routines, triggers and events, and compares the checksums again.
package migrate
