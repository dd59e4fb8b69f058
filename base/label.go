package base

import "fmt"

// Label is the home label of a row (PolyBase section 4.1, cLabel): 64 bits in
// the header of every version, tombstones included. The label of the newest
// version of a key is the key's label; it also covers the gap up to the next
// key of the section.
//
//	bits  0-7   GID: home region (the shard is the key's)
//	bits  8-15  aGID: region of the group whose log last wrote the row
//	bits 16-47  aSeq: low 32 bits of that log index
//	bits 48-57  cSeq: number of home changes, modulo 1024
//	bit  58     aSeq wrapped an odd number of times
//	bit  59     cSeq wrapped an odd number of times
//	bit  60     in transit (local, never replicated)
//	bit  61     pinned: the policy of homes leaves the row where it is
//	bits 62-63  free
//
// Labels are ordered by the commit timestamp of the version that carries them,
// not by cSeq, which wraps (HOME-1).
type Label uint64

const (
	labelAGIDShift = 8
	labelASeqShift = 16
	labelCSeqShift = 48
	labelAWrap     = Label(1) << 58
	labelCWrap     = Label(1) << 59
	labelInTransit = Label(1) << 60
	labelPinned    = Label(1) << 61
	cSeqMask       = 1<<10 - 1
)

// MakeLabel is the label of a row created by a log entry: home is the row's
// home, writer and index name the entry.
func MakeLabel(home, writer RegionID, index uint64) Label {
	return Label(home).WithWriter(writer, index)
}

// Home is the region whose group owns the row.
func (l Label) Home() RegionID { return RegionID(l & 0xff) }

// Writer is the region of the group that last wrote the row.
func (l Label) Writer() RegionID { return RegionID(l >> labelAGIDShift & 0xff) }

// Seq is the low 32 bits of the log index that last wrote the row.
func (l Label) Seq() uint32 { return uint32(l >> labelASeqShift) }

// Changes is the number of home changes modulo 1024.
func (l Label) Changes() uint16 { return uint16(l >> labelCSeqShift & cSeqMask) }

// InTransit is the local lock bit of a running home change.
func (l Label) InTransit() bool { return l&labelInTransit != 0 }

// WithWriter records the log entry that wrote the row.
func (l Label) WithWriter(r RegionID, index uint64) Label {
	l &^= Label(0xff)<<labelAGIDShift | Label(0xffffffff)<<labelASeqShift | labelAWrap
	l |= Label(r)<<labelAGIDShift | Label(uint32(index))<<labelASeqShift
	if index>>32&1 != 0 {
		l |= labelAWrap
	}
	return l
}

// WithHome moves the row to another home and counts the change.
func (l Label) WithHome(r RegionID) Label {
	c := l.Changes() + 1
	l &^= 0xff | Label(cSeqMask)<<labelCSeqShift
	l |= Label(r) | Label(c&cSeqMask)<<labelCSeqShift
	if c > cSeqMask {
		l ^= labelCWrap
	}
	return l
}

// WithInTransit sets or clears the local lock bit.
func (l Label) WithInTransit(on bool) Label {
	if on {
		return l | labelInTransit
	}
	return l &^ labelInTransit
}

// Pinned reports whether only an explicit statement may move the row.
func (l Label) Pinned() bool { return l&labelPinned != 0 }

// WithPinned pins or unpins the row.
func (l Label) WithPinned(on bool) Label {
	if on {
		return l | labelPinned
	}
	return l &^ labelPinned
}

// String shows the home, the writer's region and sequence, and the number of home changes.
func (l Label) String() string {
	return fmt.Sprintf("home=r%d writer=r%d/%d changes=%d", l.Home(), l.Writer(), l.Seq(), l.Changes())
}
