package state

import (
	"fmt"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
)

// Knows refuses an entry that a build which knows cluster versions up to one does not know whole.
// To skip what it does not know would make this replica another one than the others' (VERSION-3).
// The node ends, and a newer build goes on from this entry.
func Knows(id base.GroupID, e group.Entry, knows base.ClusterVersion) error {
	if needs := base.ClusterVersion(e.Cmd.Needs); needs > knows {
		return base.TooOld(fmt.Sprintf("group %v: entry %d needs", id, e.Index), needs, knows)
	}
	if e.Cmd.Unknown() {
		return base.Errorf(base.CodeInvalid, "group %v: entry %d has a part that this build does not know, which knows cluster "+
			"versions up to %d: start this node with a newer build", id, e.Index, knows)
	}
	return nil
}
