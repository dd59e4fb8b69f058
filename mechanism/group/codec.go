package group

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/raft/v3/raftpb"
)

// raftpb has reflection's codec only: a dozen allocations and microseconds per
// message, several messages per commit. These two write and read the
// same protobuf bytes for the messages that matter, and leave snapshots and
// unknown fields to protobuf. TestCodec compares them.

// Field numbers of raftpb.Message and raftpb.Entry.
const (
	fType = 1 + iota
	fTo
	fFrom
	fTerm
	fLogTerm
	fIndex
	fEntries
	fCommit
	fSnapshot
	fReject
	fRejectHint
	fContext
	fVote
	fResponses

	eType  = 1
	eTerm  = 2
	eIndex = 3
	eData  = 4
)

func appendUint(b []byte, field protowire.Number, v *uint64) []byte {
	if v == nil {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), *v)
}

func sizeUint(v *uint64) int {
	if v == nil {
		return 0
	}
	return 1 + protowire.SizeVarint(*v)
}

func sizeRaftEntry(e *pb.Entry) int {
	n := sizeUint(e.Term) + sizeUint(e.Index)
	if e.Type != nil {
		n += 1 + protowire.SizeVarint(uint64(*e.Type))
	}
	if e.Data != nil {
		n += 1 + protowire.SizeBytes(len(e.Data))
	}
	return n
}

func marshalMessage(m *pb.Message) ([]byte, error) {
	if m.Snapshot != nil || len(m.Responses) > 0 {
		return proto.Marshal(m)
	}
	b := appendHead(make([]byte, 0, msgSize(m)), m)
	return appendEntries(b, m.Entries), nil
}

// appendEntries encodes the entries of a message: fields of a protobuf message may come in any
// order, and what is encoded apart may be put together.
func appendEntries(b []byte, ents []*pb.Entry) []byte {
	for _, e := range ents {
		b = protowire.AppendTag(b, fEntries, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(sizeRaftEntry(e)))
		if e.Type != nil {
			b = protowire.AppendVarint(protowire.AppendTag(b, eType, protowire.VarintType), uint64(*e.Type))
		}
		b = appendUint(b, eTerm, e.Term)
		b = appendUint(b, eIndex, e.Index)
		if e.Data != nil {
			b = protowire.AppendBytes(protowire.AppendTag(b, eData, protowire.BytesType), e.Data)
		}
	}
	return b
}

// appendHead encodes all of a message but entries, snapshot and responses.
func appendHead(b []byte, m *pb.Message) []byte {
	if m.Type != nil {
		b = protowire.AppendVarint(protowire.AppendTag(b, fType, protowire.VarintType), uint64(*m.Type))
	}
	b = appendUint(b, fTo, m.To)
	b = appendUint(b, fFrom, m.From)
	b = appendUint(b, fTerm, m.Term)
	b = appendUint(b, fLogTerm, m.LogTerm)
	b = appendUint(b, fIndex, m.Index)
	b = appendUint(b, fCommit, m.Commit)
	if m.Reject != nil {
		b = protowire.AppendVarint(protowire.AppendTag(b, fReject, protowire.VarintType), protowire.EncodeBool(*m.Reject))
	}
	b = appendUint(b, fRejectHint, m.RejectHint)
	if m.Context != nil {
		b = protowire.AppendBytes(protowire.AppendTag(b, fContext, protowire.BytesType), m.Context)
	}
	return appendUint(b, fVote, m.Vote)
}

// message is a raft message with the values that its pointers point to.
type message struct {
	pb.Message
	typ    pb.MessageType
	u      [fVote + 1]uint64
	reject bool
}

type entry struct {
	pb.Entry
	typ         pb.EntryType
	term, index uint64
}

// unmarshalMessage keeps b: entries point into it.
func unmarshalMessage(b []byte) (*pb.Message, error) {
	if m := decodeMessage(b); m != nil {
		return m, nil
	}
	m := new(pb.Message)
	return m, proto.Unmarshal(b, m)
}

// decodeMessage is nil for what it does not know.
func decodeMessage(b []byte) *pb.Message {
	n, ok := countEntries(b)
	if !ok {
		return nil
	}
	m := new(message)
	var ents []entry
	if n > 0 {
		ents = make([]entry, 0, n)
		m.Entries = make([]*pb.Entry, 0, n)
	}
	for len(b) > 0 {
		num, typ, k := protowire.ConsumeTag(b)
		b = b[k:] // counted before, so well formed
		switch typ {
		case protowire.VarintType:
			v, k := protowire.ConsumeVarint(b)
			b = b[k:]
			switch num {
			case fType:
				m.typ = pb.MessageType(v)
				m.Type = &m.typ
			case fReject:
				m.reject = protowire.DecodeBool(v)
				m.Reject = &m.reject
			default:
				p := m.number(num)
				if p == nil {
					return nil
				}
				m.u[num] = v
				*p = &m.u[num]
			}
		case protowire.BytesType:
			v, k := protowire.ConsumeBytes(b)
			b = b[k:]
			if num == fContext {
				m.Context = v[:len(v):len(v)]
				continue
			}
			ents = append(ents, entry{})
			e := &ents[len(ents)-1]
			if !e.decode(v) {
				return nil
			}
			m.Entries = append(m.Entries, &e.Entry)
		}
	}
	return &m.Message
}

// number is where the message has a number; nil for one that is not known here.
func (m *message) number(num protowire.Number) **uint64 {
	switch num {
	case fTo:
		return &m.To
	case fFrom:
		return &m.From
	case fTerm:
		return &m.Term
	case fLogTerm:
		return &m.LogTerm
	case fIndex:
		return &m.Index
	case fCommit:
		return &m.Commit
	case fRejectHint:
		return &m.RejectHint
	case fVote:
		return &m.Vote
	default:
		return nil
	}
}

// countEntries checks the outer structure.
func countEntries(b []byte) (entries int, ok bool) {
	for len(b) > 0 {
		num, typ, k := protowire.ConsumeTag(b)
		if k < 0 || num > fVote {
			return 0, false
		}
		b = b[k:]
		switch {
		case typ == protowire.BytesType && (num == fEntries || num == fContext):
			_, k = protowire.ConsumeBytes(b)
			if num == fEntries {
				entries++
			}
		case typ == protowire.VarintType && num != fEntries && num != fContext && num != fSnapshot:
			_, k = protowire.ConsumeVarint(b)
		default:
			return 0, false
		}
		if k < 0 {
			return 0, false
		}
		b = b[k:]
	}
	return entries, true
}

func (e *entry) decode(b []byte) bool {
	for len(b) > 0 {
		num, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return false
		}
		b = b[k:]
		switch {
		case typ == protowire.BytesType && num == eData:
			v, k := protowire.ConsumeBytes(b)
			if k < 0 {
				return false
			}
			b = b[k:]
			e.Data = v[:len(v):len(v)]
		case typ == protowire.VarintType && num <= eIndex:
			v, k := protowire.ConsumeVarint(b)
			if k < 0 {
				return false
			}
			b = b[k:]
			switch num {
			case eType:
				e.typ = pb.EntryType(v)
				e.Type = &e.typ
			case eTerm:
				e.term = v
				e.Term = &e.term
			case eIndex:
				e.index = v
				e.Index = &e.index
			}
		default:
			return false
		}
	}
	return true
}
