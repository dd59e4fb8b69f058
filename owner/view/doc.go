// Package view says what one view of the store, at one node, shows of a group's rows: the group
// that owns a key or a gap, the segments of a range by owner, and the rows of a read.
//
// The owner of a key is the home of its newest version, a tombstone too; of a key without versions,
// that of its predecessor in the section; else base.Key.DefaultOwner (HOME-5). Package owner
// says under which locks, and after which waits, a view may be relied on; this package knows of
// neither, and no view outlives the call that opened it.
package view
