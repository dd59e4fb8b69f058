// Package archive is the format of backups: bytes in, bytes out. It knows neither stores nor
// tables; definitions are JSON that its users understand.
//
// # Layout
//
// A backup is a folder, named by its id ([NewID]), with one manifest and many pieces:
//
//	<id>/manifest                        what is in the backup, and a SHA-256 of each piece
//	<id>/t<table>-s<shard>-<n>.rows      rows of one shard of one table, in the order of their keys
//	<id>/t<table>-s<shard>-<n>.keys      the same without values
//
// The manifest is written last: a folder without one is a backup that was never completed.
//
// An incremental backup builds on another one, its parent. The rows of a stream (a shard of a
// table) are then those that differ from the parent's, and marks of keys that are gone. The keys of
// a stream that was read as a whole are all keys that there are, with the version of each. A stream
// that was read by the timestamps of commits ([Stream.Changes]) lists none: its keys are those of
// its parent's stream, as its own rows have changed them. With such a list a later backup is
// compared where the cluster cannot tell any more what has changed since.
//
// A log of changes lies beside the backups, in a folder for each hour:
//
//	log-<hour>/<id>-s<shard>-<n>.log     versions of rows of one shard, by key and from new to old
//	log-<hour>/<id>.segment              what the pieces are of, written behind them ([Segment])
//
// While a backup is taken its folder also has the mark of its job and parts ([Part]), by which
// another node goes on with it.
//
// # Files
//
// A manifest, a segment, a part and a piece begin with eight bytes that say what they are and in
// which [Version]. What follows is compressed with zstd. With a passphrase it is then sealed with
// AES-256-GCM, under a key that is derived from the passphrase (PBKDF2-HMAC-SHA-256) and from the
// name of the file (HKDF): no file can take the place of another one. All but pieces carry their
// own SHA-256 besides.
//
// # What a reader may rely on
//
// Without a passphrase a checksum finds what was damaged or mixed up, and a file that somebody has
// replaced; it does not find a whole backup that somebody has made up. With a passphrase nothing
// passes that was not written by somebody who knows it.
//
// Every reader takes bytes that may be anything: it returns an error that is a [*FileError], and
// bounds what it allocates.
package archive
