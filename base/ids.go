package base

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// NodeID names one process of the cluster; it is never reused. 0 is no node.
type NodeID uint32

// RegionID is the index of a region in the topology, from 1; 0 is no region.
// A cluster has at most [MaxRegions] of them.
type RegionID uint8

// MaxRegions bounds the regions that a cluster ever has: a group id has four bits for one, and 0
// and 15 are none.
const MaxRegions = 14

// ShardID is a hash slice of the key space; 0 is the meta shard.
type ShardID uint16

// MetaShard is the shard of the catalog and of GLOBAL tables.
const MetaShard ShardID = 0

// EpochShard is the shard of MULTI MASTER tables: every node holds it, and no Raft group replicates
// it.
const EpochShard ShardID = 1<<16 - 1

// GroupID names a Raft group: (shard, home region), or the meta group.
type GroupID uint32

// MetaGroup replicates the meta shard on every node.
const MetaGroup GroupID = 0

// DataGroup returns the group of a data shard (from 1) and a home region.
func DataGroup(s ShardID, r RegionID) GroupID {
	if s == MetaShard {
		return MetaGroup
	}
	return GroupID(uint32(s)<<4 | uint32(r))
}

// Shard is the shard whose keys the group can own.
func (g GroupID) Shard() ShardID { return ShardID(g >> 4) }

// Region is the home region of the group; 0 for the meta group.
func (g GroupID) Region() RegionID { return RegionID(g & 15) }

// String names the group by its shard and region, as in s3@r2; the meta group is "meta".
func (g GroupID) String() string {
	if g == MetaGroup {
		return "meta"
	}
	return fmt.Sprintf("s%d@r%d", g.Shard(), g.Region())
}

// ParseGroup reads a group's name: meta, or SHARD@REGION as in s1@r2.
func ParseGroup(s string) (GroupID, error) {
	if s == MetaGroup.String() {
		return MetaGroup, nil
	}
	a, b, ok := strings.Cut(s, "@")
	shard, err := strconv.ParseUint(strings.TrimPrefix(a, "s"), 10, 16)
	region, err2 := strconv.ParseUint(strings.TrimPrefix(b, "r"), 10, 8)
	if !ok || err != nil || err2 != nil || shard == 0 || region == 0 || region > MaxRegions {
		return 0, Errorf(CodeInvalid, "%q is not a group: meta, or like s1@r2 (SELECT name FROM godwit.groups)", s)
	}
	return DataGroup(ShardID(shard), RegionID(region)), nil
}

// GroupRegions are the home regions of groups, each once.
func GroupRegions(groups []GroupID) (out []RegionID) {
	for _, g := range groups {
		if !slices.Contains(out, g.Region()) {
			out = append(out, g.Region())
		}
	}
	return out
}

// GroupIndex is one entry of an applied vector: a log index of the group that
// the region leads within some shard (HOME-3).
type GroupIndex struct {
	Region RegionID
	Index  uint64
}

// TxnID names one attempt of a transaction. It begins with the attempt's start
// time, so ids of one gateway grow and outcome records can be collected by age.
type TxnID [16]byte

// MakeTxnID composes an id from the start timestamp, the gateway node and a
// number unique within that process life.
func MakeTxnID(start Timestamp, node NodeID, seq uint32) TxnID {
	var id TxnID
	putUint64(id[0:], uint64(start))
	putUint32(id[8:], uint32(node))
	putUint32(id[12:], seq)
	return id
}

// Start is the timestamp the attempt was begun with.
func (t TxnID) Start() Timestamp { return Timestamp(getUint64(t[0:])) }

// Gateway is the node that coordinates the transaction.
func (t TxnID) Gateway() NodeID { return NodeID(getUint32(t[8:])) }

// IsZero reports whether the id names no transaction.
func (t TxnID) IsZero() bool { return t == TxnID{} }

// String shows the id's start, in hexadecimal, its gateway, and its last four bytes.
func (t TxnID) String() string {
	return fmt.Sprintf("%x.%d.%d", uint64(t.Start()), t.Gateway(), getUint32(t[12:]))
}
