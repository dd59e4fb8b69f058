package base

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// ClusterVersion numbers what the nodes of a cluster write to logs, stores and the topology, and
// say in messages (docs/protocol.md, VERSION-1 to VERSION-5). A build knows all versions up to
// [VersionNewest] and acts by the one that the topology has. The number is also the newest format
// of the node's store.
type ClusterVersion uint32

// Versions, and what each allows. Formats of the store below the first one are read and replaced.
const (
	// VersionFirst is that of builds that say nothing of versions, and of topologies without one.
	VersionFirst ClusterVersion = 6
	// VersionRegions lets regions come and go: older builds drop the states of regions from the
	// topology, and do not count groups that were founded later.
	VersionRegions ClusterVersion = 7
	// VersionPadded lets keys disregard spaces at the end of texts where the collation does: older
	// builds look for other keys.
	VersionPadded ClusterVersion = 7
	// VersionAway has nodes that are silent for long be replaced: older builds place replicas
	// there.
	VersionAway ClusterVersion = 7
	// VersionPlaced has placements: older builds drop them from the topology, and know neither
	// their shards nor where the rows of their tables may lie.
	VersionPlaced ClusterVersion = 7
	// VersionRowPlaced has tables whose rows lie in several placements: older builds take a row's
	// key for that of an index entry, and do not know who owns the gap in front of it.
	VersionRowPlaced ClusterVersion = 7
	// VersionSlots lets transaction.tier = auto cross regions at slots without having been asked:
	// the last builds that say nothing of versions may give two of them the same slot.
	VersionSlots ClusterVersion = 7
	// VersionVoters has placements in which not all regions vote: older builds would make voters of
	// read replicas, and look for rows in other shards.
	VersionVoters ClusterVersion = 8
	// VersionOwnShards has tables with shards of their own: older builds drop these from the
	// topology, and look for rows in the shards that all tables share.
	VersionOwnShards ClusterVersion = 9
	// VersionPrepared has transactions that XA prepares: older builds let others change what these
	// have locked.
	VersionPrepared ClusterVersion = 10
	// VersionExpanded lets keys have several weights of a character, or none, where the collation
	// has: older builds look for other keys.
	VersionExpanded ClusterVersion = 11
	// VersionNewest is the newest that this build knows.
	VersionNewest ClusterVersion = 11
)

// Brings says, for people, what a cluster can do from a version on; empty for the first.
func (v ClusterVersion) Brings() string {
	switch v {
	case VersionExpanded:
		return "keys of utf8mb4_0900_ai_ci, utf8mb4_unicode_ci and utf8mb4_unicode_520_ci know that 'ß' equals 'ss'"
	case VersionPrepared:
		return "XA prepares transactions"
	case VersionOwnShards:
		return "tables have shards of their own, as many as they need (ALTER TABLE ... SPLIT INTO)"
	case VersionVoters:
		return "placements say how many regions vote, which have read replicas, and what they survive"
	case VersionRegions:
		return "regions come and go; tables, and rows, have placements; nodes that are silent for long are replaced; keys of collations with PAD SPACE disregard spaces at the end of texts"
	}
	return ""
}

// OrFirst is the version, and the first one in place of 0: of what says nothing of it.
func (v ClusterVersion) OrFirst() ClusterVersion { return max(v, VersionFirst) }

// Acts is the version by which the nodes of the cluster act.
func (t *Topology) Acts() ClusterVersion { return t.ClusterVersion.OrFirst() }

// Allows reports whether the cluster may have what a version brings.
func (t *Topology) Allows(v ClusterVersion) bool { return t.Acts() >= v }

// TooOld is the error of a build that knows versions up to one and meets what needs a newer one.
func TooOld(what string, needs, knows ClusterVersion) *Error {
	return Errorf(CodeInvalid, "%s cluster version %d, and this build knows versions up to %d: start this node with a "+
		"newer build; `godwit upgrade status` shows the others", what, needs, knows)
}

// NotYet is the error of what needs a version that the cluster does not act by yet.
func (t *Topology) NotYet(what string, needs ClusterVersion) *Error {
	return Errorf(CodeInvalid, "%s needs cluster version %d, and the cluster acts by version %d: start all nodes with a build "+
		"that knows it, then run `godwit upgrade finalize`", what, needs, t.Acts())
}

// A topology is rewritten by whichever node changes it, and an older one must not drop what it does
// not know (VERSION-4). So each part keeps, as JSON, the fields that its type does not have.

// decodeKeeping decodes an object into v, a pointer to a struct, and returns the fields that v does
// not have, as an object; empty if there are none.
func decodeKeeping(b []byte, v any) (unknown string, err error) {
	if err := json.Unmarshal(b, v); err != nil {
		return "", err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return "", err
	}
	t := reflect.TypeOf(v).Elem()
	for name := range all {
		for i := range t.NumField() {
			if known, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); strings.EqualFold(known, name) {
				delete(all, name)
				break
			}
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	rest, err := json.Marshal(all)
	return string(rest), err
}

// encodeKeeping encodes a struct that has at least one field that is never left out, and the fields
// that were unknown when it was decoded.
func encodeKeeping(v any, unknown string) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil || unknown == "" {
		return b, err
	}
	if !bytes.HasSuffix(b, []byte("}")) || len(b) == 2 || !strings.HasPrefix(unknown, "{") {
		return nil, fmt.Errorf("base: %q cannot be put into %s", unknown, b)
	}
	return append(append(b[:len(b)-1], ','), unknown[1:]...), nil
}

// MarshalJSON implements [json.Marshaler].
func (t Topology) MarshalJSON() ([]byte, error) {
	type plain Topology
	return encodeKeeping(plain(t), t.Unknown)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Topology) UnmarshalJSON(b []byte) (err error) {
	type plain Topology
	t.Unknown, err = decodeKeeping(b, (*plain)(t))
	return err
}

// MarshalJSON implements [json.Marshaler].
func (p Placement) MarshalJSON() ([]byte, error) {
	type plain Placement
	return encodeKeeping(plain(p), p.Unknown)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Placement) UnmarshalJSON(b []byte) (err error) {
	type plain Placement
	p.Unknown, err = decodeKeeping(b, (*plain)(p))
	return err
}

// MarshalJSON implements [json.Marshaler].
func (o OwnShards) MarshalJSON() ([]byte, error) {
	type plain OwnShards
	return encodeKeeping(plain(o), o.Unknown)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *OwnShards) UnmarshalJSON(b []byte) (err error) {
	type plain OwnShards
	o.Unknown, err = decodeKeeping(b, (*plain)(o))
	return err
}

// MarshalJSON implements [json.Marshaler].
func (s CopySet) MarshalJSON() ([]byte, error) {
	type plain CopySet
	return encodeKeeping(plain(s), s.Unknown)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *CopySet) UnmarshalJSON(b []byte) (err error) {
	type plain CopySet
	s.Unknown, err = decodeKeeping(b, (*plain)(s))
	return err
}

// MarshalJSON implements [json.Marshaler].
func (r Region) MarshalJSON() ([]byte, error) {
	type plain Region
	return encodeKeeping(plain(r), r.Unknown)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Region) UnmarshalJSON(b []byte) (err error) {
	type plain Region
	r.Unknown, err = decodeKeeping(b, (*plain)(r))
	return err
}

// MarshalJSON implements [json.Marshaler].
func (n Node) MarshalJSON() ([]byte, error) {
	type plain Node
	return encodeKeeping(plain(n), n.Unknown)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Node) UnmarshalJSON(b []byte) (err error) {
	type plain Node
	n.Unknown, err = decodeKeeping(b, (*plain)(n))
	return err
}

// MarshalJSON implements [json.Marshaler].
func (l LaterRegion) MarshalJSON() ([]byte, error) {
	type plain LaterRegion
	return encodeKeeping(plain(l), l.Unknown)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *LaterRegion) UnmarshalJSON(b []byte) (err error) {
	type plain LaterRegion
	l.Unknown, err = decodeKeeping(b, (*plain)(l))
	return err
}

// MarshalJSON implements [json.Marshaler].
func (p Promotion) MarshalJSON() ([]byte, error) {
	type plain Promotion
	return encodeKeeping(plain(p), p.Unknown)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Promotion) UnmarshalJSON(b []byte) (err error) {
	type plain Promotion
	p.Unknown, err = decodeKeeping(b, (*plain)(p))
	return err
}

// MarshalJSON implements [json.Marshaler].
func (p Promoted) MarshalJSON() ([]byte, error) {
	type plain Promoted
	return encodeKeeping(plain(p), p.Unknown)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Promoted) UnmarshalJSON(b []byte) (err error) {
	type plain Promoted
	p.Unknown, err = decodeKeeping(b, (*plain)(p))
	return err
}
